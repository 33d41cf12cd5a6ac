"""An epoch of GIN on reddit_binary: ours, with flax's masked batch norm, and in PyTorch where it is installed."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from experiments._sides import clock, installed, row, torch_device
from ldp_jax import datasets
from ldp_jax.graph import packing
from ldp_jax.learning import graph_training, models, training

GRAPHS, BATCH = 1500, 64
LAYERS, HIDDEN, DROPOUT, RATE = 5, 64, 0.5, 0.01


def gin_epochs(repeats: int) -> list[dict[str, Any]]:
    """Seconds of an epoch over 1 500 graphs, batch 64, five layers of 64; the first of each side is not kept."""
    whole = packing.GraphSet.from_dataset(datasets.load("reddit_binary"))
    order = np.random.default_rng(0).permutation(len(whole))
    train, one = whole.subset(order[:GRAPHS]), whole.subset(order[GRAPHS : GRAPHS + 1])
    others: dict[str, tuple[Callable[[], Any], str]] = {
        "flax BatchNorm": (_flax_epoch(train, one), "nn.BatchNorm with a mask, and JAX's own derivative of it")
    }
    if installed("gin", "torch"):
        others["torch"] = _torch_epoch(train), "CSR block-diagonal adjacency, batches made beforehand"
    rows: list[dict[str, Any]] = []
    taken = clock()

    def keep(subject: str, epoch: int, note: str) -> None:
        if epoch > 0:
            rows.append(row("GIN epoch, reddit_binary, 1500 graphs", subject, epoch - 1, *taken(), note))

    def turn(epoch: int, loss: float, validation: float) -> None:
        nonlocal taken
        keep("ldp_jax", epoch, "shuffling and packing included")
        for subject, (run, note) in others.items():
            taken = clock()
            run()
            keep(subject, epoch, note)
        taken = clock()

    graph_training.fit_graphs(
        jax.random.key(0), models.gin(LAYERS, HIDDEN, 2, DROPOUT), train, one, one,
        training.Settings(graph_training.step_decay_adam(RATE), repeats + 1, BATCH), progress=turn,
    )  # fmt: skip
    return rows


class FlaxGIN(nn.Module):
    """:func:`ldp_jax.learning.models.gin` with flax's batch norm."""

    @nn.compact
    def __call__(self, batch: packing.Batch, train: bool) -> Any:
        mask = batch.node_mask[:, None]
        h = jnp.ones((len(mask), 1), jnp.float32)
        read = lambda h: nn.Dropout(DROPOUT, deterministic=not train)(nn.Dense(2)(batch.mean_nodes(h)))
        scores = read(h)
        for _ in range(LAYERS - 1):
            h = h + batch.sum_neighbours(h)
            for _ in range(2):
                norm = nn.BatchNorm(use_running_average=not train, momentum=0.9)
                h = nn.relu(norm(nn.Dense(HIDDEN, use_bias=False)(h), mask=mask))
            scores = scores + read(h)
        return scores


def flax_model() -> models.Model:
    module = FlaxGIN()

    def init(key: Any, batch: Any) -> Any:
        return module.init({"params": key}, batch, train=False)

    def apply(variables: Any, batch: Any, *, key: Any, train: bool) -> Any:
        rngs = {"dropout": key} if train else {}
        outputs, changed = module.apply(variables, batch, train=train, rngs=rngs, mutable=["batch_stats"])
        return outputs, {**variables, **changed}

    return models.Model(init, apply)


def _flax_epoch(train: packing.GraphSet, one: packing.GraphSet) -> Callable[[], Any]:
    """One epoch a call, by the program that trains ours."""
    model, optimizer = flax_model(), graph_training.step_decay_adam(RATE)
    packed = packing.pack(train, BATCH)
    chosen_by = packing.pack(one, BATCH, shapes=1)
    init_key, key = jax.random.split(jax.random.key(0))
    run = graph_training._begin(init_key, packed, model=model, optimizer=optimizer, room=1000)

    def epoch() -> float:
        nonlocal run
        run = graph_training._train(
            run, jax.random.clone(key), run.number + 1, 1000, packed, chosen_by, model=model,
            optimizer=optimizer,
        )  # fmt: skip
        return float(run.losses[run.number - 1])

    return epoch


def _torch_epoch(train: packing.GraphSet) -> Callable[[], Any]:
    """GIN-0 with sums of neighbours, batch norm and a mean readout of every layer; one epoch a call."""
    import torch  # pyrefly: ignore[missing-import]
    from torch.nn import functional  # pyrefly: ignore[missing-import]

    def mlp(inputs: int) -> Any:
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 64)
        )

    class GIN(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlps = torch.nn.ModuleList([mlp(1 if i == 0 else 64) for i in range(4)])
            self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(64) for _ in range(4)])
            self.reads = torch.nn.ModuleList([torch.nn.Linear(1 if i == 0 else 64, 2) for i in range(5)])

        def forward(self, adjacency: Any, pool: Any) -> Any:
            h = torch.ones(adjacency.shape[0], 1, device=adjacency.device)
            scores = functional.dropout(self.reads[0](pool @ h), 0.5, self.training)
            for layer, norm, read in zip(self.mlps, self.norms, self.reads[1:], strict=True):
                h = torch.relu(norm(layer(h + adjacency @ h)))
                scores = scores + functional.dropout(read(pool @ h), 0.5, self.training)
            return scores

    def sparse(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Any:
        index = torch.from_numpy(np.stack([rows, columns]).astype(np.int64))
        made = torch.sparse_coo_tensor(index, torch.from_numpy(values.astype(np.float32)), shape)
        return made.coalesce().to_sparse_csr().to(torch_device())

    batches = []
    order = np.random.default_rng(0).permutation(len(train))
    for start in range(0, len(order), BATCH):
        part = train.subset(order[start : start + BATCH])
        n = len(part.node_graph)
        adjacency = sparse(part.receivers, part.senders, np.ones(len(part.senders)), (n, n))
        pool = sparse(part.node_graph, np.arange(n), 1.0 / part.nodes_per_graph[part.node_graph], (len(part), n))
        batches.append((adjacency, pool, torch.from_numpy(part.labels.astype(np.int64)).to(torch_device())))
    torch.manual_seed(0)
    model = GIN().to(torch_device())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def epoch() -> float:
        total = 0.0
        for adjacency, pool, labels in batches:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(adjacency, pool), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return epoch
