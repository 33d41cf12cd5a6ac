"""An epoch of GAT on amazon_computers, also in PyTorch where installed, and one of a hyperbolic GCN of ours."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments._sides import Sides, installed, torch_device
from ldp_jax import datasets
from ldp_jax.graph import propagation
from ldp_jax.learning import models, training

HEADS, HIDDEN, DROPOUT, TRAIN = 8, 8, 0.6, 1375
WIDTH = 64
"""Of the hyperbolic GCN."""


def hyperbolic_sides() -> tuple[str, Sides]:
    """The same of a hyperbolic GCN of two layers, records scaled to length 1."""
    data, x, labels, train = _nodes()
    model = models.hyperbolic_gcn(2, WIDTH, data.num_classes, 0.5)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6)
    run = _epoch(model, propagation.operator(data.graph), unit, labels, train)
    sides: Sides = {"ldp_jax": (run, f"2 layers, {WIDTH} wide; dropout 0.5 of inputs")}
    return (
        f"hyperbolic GCN epoch, amazon_computers, {len(x)} nodes, {len(data.graph.senders)} directed edges",
        sides,
    )


def _nodes() -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """The data set, records, classes, and the nodes of training."""
    data = datasets.load("amazon_computers")
    x, labels = np.asarray(data.scaled_rows(0, data.num_nodes), np.float32), np.asarray(data.y, np.int32)
    return data, x, labels, np.random.default_rng(0).permutation(len(x))[:TRAIN].astype(np.int32)


def gat_sides() -> tuple[str, Sides]:
    """A forward and a backward pass over all nodes and a step of Adam: 8 heads of 8, then one of the classes."""
    data, x, labels, train = _nodes()
    senders, receivers = np.asarray(data.graph.senders), np.asarray(data.graph.receivers)
    model = models.gat(2, HEADS, HIDDEN, data.num_classes, DROPOUT)
    run = _epoch(model, propagation.operator(data.graph, "segment"), x, labels, train)
    sides: Sides = {"ldp_jax": (run, "edges in blocks, a derivative by hand; dropout 0.6 of inputs and of weights")}
    if installed("attention", "torch"):
        theirs = _torch_epoch(senders, receivers, x, labels, train, data.num_classes)
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


def _torch_epoch(
    senders: np.ndarray, receivers: np.ndarray, x: np.ndarray, labels: np.ndarray, train: np.ndarray, classes: int
) -> Callable[[int], Any]:
    """The same network as one writes it with edge lists, loops added."""
    import torch  # pyrefly: ignore[missing-import]
    from torch.nn import functional  # pyrefly: ignore[missing-import]

    n = len(x)
    place = lambda values: torch.from_numpy(values).to(torch_device())
    sends, receives = (
        place(np.concatenate([part, np.arange(n)]).astype(np.int64)) for part in (senders, receivers)
    )
    rows, wanted, chosen = place(x), place(labels[train].astype(np.int64)), place(train.astype(np.int64))

    class Attention(torch.nn.Module):
        def __init__(self, inputs: int, heads: int, width: int) -> None:
            super().__init__()
            self.shape = heads, width
            self.linear = torch.nn.Linear(inputs, heads * width, bias=False)
            self.receiver, self.sender = (torch.nn.Parameter(0.1 * torch.randn(heads, width)) for _ in range(2))
            self.bias = torch.nn.Parameter(torch.zeros(heads * width))

        def forward(self, h: Any) -> Any:
            h = self.linear(functional.dropout(h, DROPOUT, self.training)).view(n, *self.shape)
            a, b = (h * self.receiver).sum(-1), (h * self.sender).sum(-1)
            scores = functional.leaky_relu(a[receives] + b[sends], 0.2)
            index = receives[:, None].expand_as(scores)
            top = h.new_zeros(n, self.shape[0]).scatter_reduce(
                0, index, scores.detach(), "amax", include_self=False
            )
            weights = (scores - top[receives]).exp()
            total = h.new_zeros(n, self.shape[0]).index_add(0, receives, weights)
            weights = functional.dropout(weights / total[receives], DROPOUT, self.training)
            out = h.new_zeros(n, *self.shape).index_add(0, receives, weights[..., None] * h[sends])
            return out.flatten(1) + self.bias

    torch.manual_seed(0)
    first, last = Attention(x.shape[1], HEADS, HIDDEN), Attention(HEADS * HIDDEN, 1, classes)
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
