"""Epochs of GIN and GAT: ours, and in PyTorch where it is installed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments._sides import Rows, Sides, clock, installed, row, torch_device
from ldp_jax import datasets
from ldp_jax.graph import packing, propagation
from ldp_jax.learning import graph_training, models, training

GRAPHS, BATCH = 1500, 64
LAYERS = 5
HIDDEN = 64
DROPOUT = 0.5
RATE = 0.01


def gin_epochs(repeats: int) -> Rows:
    """Seconds of an epoch over 1 500 graphs, batch 64, five layers of 64.

    The first of each side is not kept.
    """
    whole = packing.GraphSet.from_dataset(datasets.load("reddit_binary"))
    order = np.random.default_rng(0).permutation(len(whole))
    train = whole.subset(order[:GRAPHS])
    one = whole.subset(order[GRAPHS : GRAPHS + 1])
    others: dict[str, tuple[Callable[[], Any], str]] = {}
    if installed("gin", "torch"):
        others["torch"] = _torch_gin(train), "CSR block-diagonal adjacency, batches made beforehand"
    rows: Rows = []
    taken = clock()

    def keep(subject: str, epoch: int, note: str) -> None:
        if epoch > 0:
            rows.append(
                row("GIN epoch, reddit_binary, 1500 graphs", subject, epoch - 1, *taken(), note)
            )

    def turn(epoch: int, loss: float, validation: float) -> None:
        nonlocal taken
        keep("ldp_jax", epoch, "shuffling included; alike nodes were merged beforehand")
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


def _torch_gin(train: packing.GraphSet) -> Callable[[], Any]:
    """GIN-0 with sums of neighbours, batch norm and a mean readout of every layer.

    One epoch a call.
    """
    import torch  # pyrefly: ignore[missing-import]
    from torch.nn import functional  # pyrefly: ignore[missing-import]

    def mlp(inputs: int) -> Any:
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 64),
            torch.nn.BatchNorm1d(64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 64),
        )

    class GIN(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlps = torch.nn.ModuleList([mlp(1 if i == 0 else 64) for i in range(4)])
            self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(64) for _ in range(4)])
            self.reads = torch.nn.ModuleList(
                [torch.nn.Linear(1 if i == 0 else 64, 2) for i in range(5)]
            )

        def forward(self, adjacency: Any, pool: Any) -> Any:
            h = torch.ones(adjacency.shape[0], 1, device=adjacency.device)
            scores = functional.dropout(self.reads[0](pool @ h), 0.5, self.training)
            for layer, norm, read in zip(self.mlps, self.norms, self.reads[1:], strict=True):
                h = torch.relu(norm(layer(h + adjacency @ h)))
                scores = scores + functional.dropout(read(pool @ h), 0.5, self.training)
            return scores

    def sparse(
        rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]
    ) -> Any:
        index = torch.from_numpy(np.stack([rows, columns]).astype(np.int64))
        made = torch.sparse_coo_tensor(index, torch.from_numpy(values.astype(np.float32)), shape)
        return made.coalesce().to_sparse_csr().to(torch_device())

    batches = []
    order = np.random.default_rng(0).permutation(len(train))
    for start in range(0, len(order), BATCH):
        part = train.subset(order[start : start + BATCH])
        n = len(part.node_graph)
        adjacency = sparse(part.receivers, part.senders, np.ones(len(part.senders)), (n, n))
        share = 1.0 / part.nodes_per_graph[part.node_graph]
        pool = sparse(part.node_graph, np.arange(n), share, (len(part), n))
        labels = torch.from_numpy(part.labels.astype(np.int64)).to(torch_device())
        batches.append((adjacency, pool, labels))
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


HEADS = 8
OF_A_HEAD = 8
DROPPED = 0.6
TRAIN = 1375


def gat_sides() -> tuple[str, Sides]:
    """A forward and a backward pass over all nodes and a step of Adam.

    8 heads of 8, then one of the classes.
    """
    data = datasets.load("amazon_computers")
    x = np.asarray(data.scaled_rows(0, data.num_nodes), np.float32)
    labels = np.asarray(data.y, np.int32)
    train = np.random.default_rng(0).permutation(len(x))[:TRAIN].astype(np.int32)
    senders = np.asarray(data.graph.senders)
    receivers = np.asarray(data.graph.receivers)
    model = models.gat(2, heads=HEADS, hidden=OF_A_HEAD, outputs=data.num_classes, dropout=DROPPED)
    run = _epoch(model, propagation.operator(data.graph, "segment"), x, labels, train)
    sides: Sides = {
        "ldp_jax": (
            run,
            "edges in blocks, a derivative by hand; dropout 0.6 of inputs and of weights",
        )
    }
    if installed("attention", "torch"):
        theirs = _torch_gat(senders, receivers, x, labels, train, data.num_classes)
        sides["torch"] = (theirs, "all edges at a time, index_add and autograd; dropout by PyTorch")
    return f"GAT epoch, amazon_computers, {len(x)} nodes, {len(senders)} directed edges", sides


def _epoch(
    model: models.Model, op: Any, x: np.ndarray, labels: np.ndarray, train: np.ndarray
) -> Callable[[int], Any]:
    optimizer = training.adam(0.005, 5e-4)
    inputs = models.NodeInputs(op, jnp.asarray(x))
    variables = jax.jit(model.init)(jax.random.key(0), inputs)
    objective = training.on_graph(training.node_classification)
    examples = training.Examples(jnp.asarray(train), jnp.asarray(labels[train]))

    @jax.jit
    def step(parameters: Any, state: Any, key: Any, inputs: Any, examples: Any) -> Any:
        def loss(parameters: Any) -> Any:
            outputs, _ = model.apply({"params": parameters}, inputs, key=key, train=True)
            return objective.loss(outputs, examples).mean()

        updates, state = optimizer.update(jax.grad(loss)(parameters), state, parameters)
        return optax.apply_updates(parameters, updates), state

    now = [variables["params"], optimizer.init(variables["params"])]

    def run(repeat: int) -> Any:
        now[:] = step(*now, jax.random.fold_in(jax.random.key(1), repeat), inputs, examples)
        return now[0]

    return run


def _torch_gat(
    senders: np.ndarray,
    receivers: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    classes: int,
) -> Callable[[int], Any]:
    """The same network as one writes it with edge lists, loops added."""
    import torch  # pyrefly: ignore[missing-import]
    from torch.nn import functional  # pyrefly: ignore[missing-import]

    n = len(x)
    place = lambda values: torch.from_numpy(values).to(torch_device())
    sends, receives = (
        place(np.append(part, np.arange(n)).astype(np.int64)) for part in (senders, receivers)
    )
    rows = place(x)
    wanted = place(labels[train].astype(np.int64))
    chosen = place(train.astype(np.int64))

    class Attention(torch.nn.Module):
        def __init__(self, inputs: int, heads: int, width: int) -> None:
            super().__init__()
            self.shape = heads, width
            self.linear = torch.nn.Linear(inputs, heads * width, bias=False)
            self.receiver, self.sender = (
                torch.nn.Parameter(0.1 * torch.randn(heads, width)) for _ in range(2)
            )
            self.bias = torch.nn.Parameter(torch.zeros(heads * width))

        def forward(self, h: Any) -> Any:
            h = self.linear(functional.dropout(h, DROPPED, self.training)).view(n, *self.shape)
            a = (h * self.receiver).sum(-1)
            b = (h * self.sender).sum(-1)
            scores = functional.leaky_relu(a[receives] + b[sends], 0.2)
            index = receives[:, None].expand_as(scores)
            zeros = h.new_zeros(n, self.shape[0])
            top = zeros.scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
            weights = (scores - top[receives]).exp()
            total = zeros.index_add(0, receives, weights)
            weights = functional.dropout(weights / total[receives], DROPPED, self.training)
            out = h.new_zeros(n, *self.shape).index_add(0, receives, weights[..., None] * h[sends])
            return out.flatten(1) + self.bias

    torch.manual_seed(0)
    first = Attention(x.shape[1], HEADS, OF_A_HEAD)
    last = Attention(HEADS * OF_A_HEAD, 1, classes)
    network = torch.nn.Sequential(first, torch.nn.ELU(), last).to(torch_device())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005, weight_decay=5e-4)

    def run(repeat: int) -> float:
        torch.manual_seed(repeat)
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(rows)[chosen], wanted)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


RUNS = 32
ROWS = 2048


def many_sides() -> tuple[str, Sides]:
    """32 perceptrons on 1 024 rows of 64 numbers each, in one call: all devices, and the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RUNS, ROWS, HIDDEN)).astype(np.float32)
    index = np.stack([rng.permutation(ROWS) for _ in range(RUNS)]).astype(np.int32)
    train, validation = (training.Examples(part, part % 2) for part in np.split(index, 2, 1))
    model = models.mlp(2, 4 * HIDDEN, 2, DROPOUT)
    settings = training.Settings(training.adam(RATE), epochs=10, batch_size=256)
    keys = jax.random.split(jax.random.key(0), RUNS)

    def run(_: int) -> Any:
        return training.fit_many(
            keys, model, training.node_classification, x, train, validation, validation, settings
        )

    def alone(repeat: int) -> Any:
        with jax.default_device(jax.devices()[0]):
            return run(repeat)

    sides: Sides = {
        "ldp_jax": (run, f"on {jax.device_count()} devices"),
        "ldp_jax, one device": (alone, "the same runs, one after the other"),
    }
    return f"fit_many of {RUNS} perceptrons", sides
