"""Methods of somebody new, and the command that puts each beside all others.

Mechanisms on numbers, on classes and on neighbour lists, a protocol of two rounds, and a model.
"""

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import datasets, features, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Guarantee
from ldp_jax.accounting.statement import Statement
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.core.pytree import pytree
from ldp_jax.core.spaces import Finite, Interval
from ldp_jax.edges import ListReport, NeighbourList

WORDS = {"status": "proved", "reason": "the ratio of two masses"}


# --- A number -------------------------------------------------------------------------------------


@mechanism
class Stairs:
    """Report one of ``steps`` numbers: the one near the record e^epsilon times likelier."""

    epsilon: float
    steps: int = static(default=5)

    def privatize(self, key: Any, x: Any) -> Any:
        """The nearest step, by chance up or down, or with a small chance any step."""
        round_key, keep_key, any_key = jax.random.split(key, 3)
        place = (self.domain().clip(jnp.float32(x)) + 1) / 2 * (self.steps - 1)
        near = jnp.floor(place + jax.random.uniform(round_key))
        other = jax.random.randint(any_key, (), 0, self.steps)
        kept = jax.random.uniform(keep_key) < self.kept()
        return jnp.asarray(self.codomain().values)[jnp.where(kept, near, other).astype(int)]

    def kept(self) -> Any:
        """The probability that the step is not drawn anew."""
        more = jnp.expm1(self.epsilon)
        return more / (more + self.steps)

    def guarantee(self) -> Guarantee:
        """Per record: kept + (1 - kept) / steps over (1 - kept) / steps."""
        return Guarantee(float(self.epsilon), unit=RECORD, adjacency="any two numbers", **WORDS)

    def domain(self) -> Interval:
        """[-1, 1]."""
        return Interval(-1.0, 1.0)

    def codomain(self) -> Finite:
        """The steps."""
        return Finite(tuple(np.linspace(-1.0, 1.0, self.steps).tolist()))

    def estimate(self, y: Any) -> Any:
        """Unbiased."""
        return y / self.kept()


# --- A class ------------------------------------------------------------------------------------


@mechanism
class Keep:
    """Report the class, or with a small chance any class."""

    epsilon: float
    num_classes: int = static()

    def privatize(self, key: Any, x: Any) -> Any:
        """The class or another one."""
        keep_key, any_key = jax.random.split(key)
        other = jax.random.randint(any_key, (), 0, self.num_classes)
        more = jnp.expm1(self.epsilon)
        kept = jax.random.uniform(keep_key) < more / (more + self.num_classes)
        return jnp.where(kept, self.domain().clip(x).astype(int), other)

    def guarantee(self) -> Guarantee:
        """Per record."""
        return Guarantee(float(self.epsilon), unit=RECORD, adjacency="any two classes", **WORDS)

    def domain(self) -> Finite:
        """The classes."""
        return Finite(tuple(range(self.num_classes)))

    def codomain(self) -> Finite:
        """The classes."""
        return self.domain()

    def estimate(self, y: Any) -> Any:
        """The reported class."""
        return y


# --- A model ------------------------------------------------------------------------------------


class Around(nn.Module):
    """Nodes by their own row and the mean of their neighbours' rows."""

    outputs: int
    width: int = 16

    @nn.compact
    def __call__(self, inputs: Any, train: bool) -> Any:
        """Scores of classes."""
        graph, x, _ = inputs
        h = nn.relu(nn.Dense(self.width)(x))
        mean = graph.sum(h) / jnp.maximum(graph.degree, 1.0)[:, None]
        return nn.Dense(self.outputs)(jnp.concatenate([h, mean], 1))


# --- A neighbour list -----------------------------------------------------------------------------


@mechanism
class Forget:
    """Warner's response of one bit a pair, by the end of lower number, and no degree."""

    epsilon: float
    n: int | None = static(default=None)
    reporting: str = static(default="full")
    reportings = ("full",)
    any_size = True  # each bit is flipped alone

    def privatize(self, key: Any, neighbours: NeighbourList, own: Any = 0) -> ListReport:
        """A list of which each bit is flipped with probability 1 / (e^epsilon + 1)."""
        others = jnp.arange(self.n) != own
        bits = jnp.zeros(self.n, bool).at[neighbours.ids].set(True, mode="drop")
        flipped = jax.random.uniform(key, (self.n,)) < jax.nn.sigmoid(-self.epsilon)
        sent = (bits ^ flipped) & others
        ids = jnp.sort(jnp.where(sent, jnp.arange(self.n), self.n))
        return ListReport(jnp.nan, NeighbourList(ids.astype(jnp.int32), sent.sum()))

    def guarantee(self) -> Guarantee:
        """Per bit."""
        return Guarantee(float(self.epsilon), unit=NEIGHBOUR_LIST, **WORDS)

    def relationship(self, reporting: Any = None) -> Guarantee:
        """Both ends report it."""
        return Guarantee(2 * float(self.epsilon), unit=RELATIONSHIP, **WORDS)


# --- A protocol -----------------------------------------------------------------------------------


@pytree
class First:
    """A third of the users are asked for classes."""

    question: servers.Ask


@pytree
class Second:
    """The others count friends by the reported ``classes`` [n]."""

    question: servers.CountQuestion
    classes: Any


@dataclasses.dataclass(frozen=True)
class Friends:
    """A third reports a class, the rest counts friends by it."""

    num_users: int
    num_classes: int
    epsilon: float

    def ask(self, asked: Any) -> servers.Ask:
        """The class through generalised randomised response."""
        noise = features.GeneralizedRR(self.epsilon, self.num_classes)
        return servers.Ask(noise, asked, of="label")

    def statement(self) -> Statement:
        """One of the two answers."""
        of_class = self.ask(np.ones(self.num_users, bool)).cost()
        return Statement.of([of_class], [servers.count_cost(self.epsilon)])

    def init(self, key: Any) -> First:
        """The first third, at random."""
        order = np.asarray(jax.random.permutation(key, self.num_users))
        return First(self.ask(order < self.num_users // 3))

    def step(self, state: Any, answers: Any) -> Any:
        """The second question, or the classes."""
        if isinstance(state, Second):
            most = np.asarray(answers.values).argmax(1)
            return np.where(answers.reported, most, state.classes)
        groups = np.where(answers.reported, answers.values, -1)
        question = servers.CountQuestion(
            groups, ~state.question.asked, num_groups=self.num_classes, epsilon=self.epsilon
        )
        return Second(question, np.asarray(answers.values))


def main() -> None:
    """One command each; the page of each has its row, beside this library's."""
    folder = Path(tempfile.mkdtemp())
    sizes = {"num_nodes": 120, "num_classes": 2, "num_features": 12, "mean_degree": 6}
    data = datasets.synthetic(jax.random.key(0), **sizes, homophily=0.8)
    datasets.save(data, folder / "graph.npz")
    for name, hides, rival, more in (
        ("Stairs(steps=3)", "features", "multi-bit", ""),
        ("Keep", "features", "best-class report", ""),
        ("Stairs", "features", "multi-bit", "--model own_methods:Around(width=8)"),
        ("Forget", "edges", "DPRR", ""),
        ("Friends", "both", "joint reports", ""),
    ):
        out = folder / name
        words = f"--on {folder}/graph.npz --hides {hides} --epsilons 4 --seeds 2 --no-verify {more}"
        command = [sys.executable, "-m", "ldp_jax.bench", f"own_methods:{name}", *words.split()]
        command += ["--panel", "0.2", "--against", rival, "--out", str(out)]
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        page = (out / "bench.html").read_text()
        assert f"own_methods:{name}" in page
        assert rival in page
        assert (out / "bench.png").stat().st_size > 10_000


if __name__ == "__main__":
    main()
