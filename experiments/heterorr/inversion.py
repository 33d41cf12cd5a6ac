"""Figure 8 of HeteroRR on digits: images from perturbed embeddings, and what the protection costs.

The paper inverts a layer of ResNet-50 on photographs; these are scikit-learn's 1 797 handwritten
digits, embedded by public images alone. The attacker perturbs public images by the known mechanism
and trains on them. A classifier on the same embeddings measures their use.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.tree_util import Partial
from sklearn.datasets import load_digits

from experiments import _common, _runner
from experiments import _report as show
from experiments._runner import Found, Results, asked, rounded
from experiments.heterorr.settings import Config
from ldp_jax import attacks, features
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.attacks import Reconstruction
from ldp_jax.core.mechanism import privatize
from ldp_jax.learning import models, training
from ldp_jax.learning.importance import Public, importance, sensitivity
from ldp_jax.learning.models import Bound

NAME, CALLED = "heterorr_inversion", "attacks"
SHAPE = (8, 8)
Embedding = Literal["pca-16", "pca-32", "mlp-32"]
Name = Literal["non-private", "feature-rr", "feature-rr-uniform", "multibit", "public-mean"]
EMBEDDINGS: tuple[Embedding, ...] = get_args(Embedding)
PROTECTED: tuple[Name, ...] = ("feature-rr", "feature-rr-uniform", "multibit")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Of a whole embedding. FeatureRR takes at most 20 a feature, so 20 / max(theta), which is about
250 here.
"""
LABELS, COLOURS = _common.row_names(NAME)
TITLES: dict[str, str] = {
    "pca-16": "16 principal components",
    "pca-32": "32 principal components",
    "mlp-32": "32 hidden units",
    "none": "no embedding",
}
SCALES = {"mse": 1000.0, "ssim": 100.0, "accuracy": 100.0}
"""By what each metric is multiplied where it is shown."""

_less_loss = lambda scores, examples: -training.node_classification.loss(scores, examples).mean()
_OBJECTIVE = training.node_classification._replace(score=_less_loss)
"""The epoch is chosen by the loss: on few rows the accuracies of many epochs are equal."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that all rows of a comparison share.

    Attributes:
      public: the share of the images that everybody may know.
      bins: k of FeatureRR, which the paper does not say.
      gamma: the weight of importance in theta.
      draws: points a record of its Shapley values.
      masked: the side of the sensitive square in an image's centre.
      copies: how often each public embedding is perturbed for training.
      epochs: of each training, over all copies; a tenth of them chooses the epoch.
      attacker: width of the hidden layers of the attacker's perceptron of three.
      classifier: width of the classifiers' hidden layer.
    """

    public: float = 0.4
    bins: int = 4
    gamma: float = 0.5
    draws: int = 32
    masked: int = 4
    copies: int = 16
    epochs: int = 8
    attacker: int = 128
    classifier: int = 64


DEFAULT = Settings()
QUICK = Settings(draws=1, copies=2, epochs=2, attacker=16, classifier=16)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One attack, and one classifier, on one release.

    ``embedding`` is ``none`` for the attacker who has none.
    """

    embedding: str
    last_metric = property(lambda self: "accuracy")

    def __str__(self) -> str:
        return f"{self.embedding} {self.mechanism} eps {self.epsilon:g} seed {self.seed}"


ALSO = ("attacker", "largest_share")
"""Who attacked, and of FeatureRR the largest theta of a feature: 20 over it is the largest
epsilon.
"""


class Images(NamedTuple):
    """Pixels in [0, 1], float32 [n, 64], and digits, int32 [n].

    The first ``public`` of them are public.
    """

    x: np.ndarray
    digit: np.ndarray
    public: int


class Bench(NamedTuple):
    """An embedding made of public images.

    Z float32 [n, d'] in [0, 1] by their range, and theta float64 [d'].
    """

    images: Images
    z: np.ndarray
    theta: np.ndarray


class Release(NamedTuple):
    """Estimates of perturbed embeddings.

    Private ones [n, d'], and public ones in copies [m, copies, d'].
    """

    private: np.ndarray
    public: np.ndarray


results_in = partial(Results, name=NAME, cell=Cell, also=ALSO)


def plan(config: Config) -> dict[Cell, Settings]:
    if config.smoke:
        return cells(1, config.epsilons or (1.0,), ("pca-16",), QUICK)
    return cells(config.seeds, config.epsilons or EPSILONS, EMBEDDINGS, DEFAULT)


@_common.planned
def cells(
    seeds: int, epsilons: Sequence[float], embeddings: Sequence[Embedding], settings: Settings
) -> Iterator[tuple[Cell, Settings]]:
    """All cells, seed by seed.

    Public models are trained here, since they settle what mechanisms claim.
    """
    cell = partial(Cell.of, settings, "digits", "inversion", RECORD)
    for seed in range(seeds):
        yield cell("public-mean", 0.0, seed, embedding="none")
        for embedding in embeddings:
            yield cell("non-private", np.inf, seed, embedding=embedding)
            for epsilon, name in itertools.product(epsilons, PROTECTED):
                with asked(f"--epsilons {epsilon:g}"):
                    made = make_mechanism(name, epsilon, embedding, seed, settings)
                yield cell(
                    name, float(epsilon), seed, made.guarantee().epsilon, embedding=embedding
                )


SOURCE = "scikit-learn's load_digits: 1 797 images of UCI's handwritten digits"


def _key(seed: int, purpose: str) -> Any:
    """A key of its own for each purpose; rows of a seed share them all, and are paired."""
    purposes = ("split", "embedding", "scores", "noise", "choice", "attack", "classifier")
    return jax.random.fold_in(jax.random.key(seed), purposes.index(purpose))


@lru_cache(maxsize=8)
def load(seed: int, settings: Settings) -> Images:
    given: Any = load_digits()
    order = np.asarray(jax.random.permutation(_key(seed, "split"), len(given.data)))
    x = (given.data[order] / 16).astype(np.float32)
    digit = given.target[order].astype(np.int32)
    return Images(x, digit, round(settings.public * len(order)))


@lru_cache(maxsize=32)
def prepare(embedding: Embedding, seed: int, settings: Settings) -> Bench:
    """Embed all images, and share a budget among the features, by public images alone."""
    images = load(seed, settings)
    shown, digit = images.x[: images.public], images.digit[: images.public]
    kind, width = embedding.split("-")
    layer = partial(_layer, _key(seed, "embedding"), digit=digit, settings=settings)
    embed = (_components if kind == "pca" else layer)(shown, width=int(width))
    lower = embed(shown).min(0)
    upper = embed(shown).max(0)

    def normalised(x: Any) -> np.ndarray:
        return np.clip((embed(np.asarray(x)) - lower) / (upper - lower), 0.0, 1.0).astype(
            np.float32
        )

    z = normalised(images.x)
    source = "the public split of the digits"
    known = Public(z[: images.public], source)
    fit_key, draw_key = jax.random.split(_key(seed, "scores"))
    model = Public(_classifier(fit_key, _copies(known.value, settings), digit, settings), source)
    alpha = importance(draw_key, model, known, known, draws=settings.draws)
    pixels, masked = (Public(x, source) for x in (shown, mask(shown, settings.masked)))
    beta = sensitivity(Public(normalised, source), pixels, masked)
    return Bench(images, z, features.importance_weights(alpha, beta, settings.gamma))


def _components(x: np.ndarray, width: int) -> Callable:
    centre = x.mean(0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:width]
    return lambda rows: (rows - centre) @ axes.T


def _layer(key: Any, x: np.ndarray, digit: np.ndarray, width: int, settings: Settings) -> Callable:
    """The first hidden layer of a perceptron that tells public images apart.

    The half that varies most on them.
    """
    fitted = _fit(key, models.mlp(3, 2 * width, 10), _copies(x, settings), digit, settings)
    first = fitted.variables["params"]["Dense_0"]
    kernel, bias = (np.asarray(first[name]) for name in ("kernel", "bias"))
    # Some units are 0 for every image: a share of the budget would be spent on nothing.
    kept = np.sort(np.argsort(np.maximum(x @ kernel + bias, 0.0).std(0))[-width:])
    return lambda rows: np.maximum(rows @ kernel[:, kept] + bias[kept], 0.0)


def mask(x: np.ndarray, side: int) -> np.ndarray:
    """Images [n, 64] with a blank square of so many pixels a side in their centre."""
    made = x.reshape(-1, *SHAPE).copy()
    rows, columns = (slice((length - side) // 2, (length + side) // 2) for length in SHAPE)
    made[:, rows, columns] = 0.0
    return made.reshape(x.shape)


def _copies(rows: np.ndarray, settings: Settings) -> np.ndarray:
    """Each row as often as it is to be perturbed: [n, copies, ...]."""
    return np.repeat(rows[:, None], settings.copies, 1)


def _fit(
    key: Any, model: models.Model, z: np.ndarray, digit: np.ndarray, settings: Settings
) -> training.Fitted:
    """Tell the digits of rows apart, each given in several copies [m, copies, d']."""
    order_key, fit_key = jax.random.split(key)
    label = np.repeat(digit, z.shape[1])
    order = np.asarray(jax.random.permutation(order_key, len(label))).astype(np.int32)
    held = max(1, len(order) // 10)
    train, validation = (
        training.Examples(part, label[part]) for part in (order[held:], order[:held])
    )
    return training.fit(
        fit_key,
        model,
        _OBJECTIVE,
        jnp.asarray(z.reshape(len(label), -1)),
        train,
        validation,
        validation,
        training.Settings(training.adam(1e-3), settings.epochs, batch_size=64),
    )


def _classifier(key: Any, z: np.ndarray, digit: np.ndarray, settings: Settings) -> Callable:
    """A perceptron on standardised columns, trained on public [m, copies, d'].

    Rows [b, d'] to [b, 10].
    """
    mean = z.mean((0, 1))
    spread = z.std((0, 1))
    model = models.mlp(2, settings.classifier, 10)
    fitted = _fit(key, model, (z - mean) / spread, digit, settings)
    return Partial(Bound(_outputs, (model,)), fitted.variables, mean, spread)


def _outputs(model: models.Model, variables: Any, mean: Any, spread: Any, rows: Any) -> Any:
    scaled = (jnp.asarray(rows) - mean) / spread
    return model.apply(variables, scaled, key=None, train=False)[0]


@lru_cache(maxsize=512)
def make_mechanism(
    name: Name, epsilon: float, embedding: Embedding, seed: int, settings: Settings
) -> Any:
    theta = prepare(embedding, seed, settings).theta
    if name == "multibit":
        return features.MultiBit(epsilon, len(theta))
    shares: dict[str, Any] = {"weights": theta} if name == "feature-rr" else {"dim": len(theta)}
    return features.FeatureRR(epsilon, settings.bins, **shares)


def release(
    name: Name, epsilon: float, embedding: Embedding, seed: int, settings: Settings
) -> Release:
    """Perturb the private embeddings, each once, and the public ones, each in copies.

    All independently.
    """
    (_, _, public), z, _ = prepare(embedding, seed, settings)
    private = z[public:]
    copies = _copies(z[:public], settings)
    if name == "non-private":
        return Release(private, copies)
    made = make_mechanism(name, epsilon, embedding, seed, settings)
    domain = made.domain()
    rows = np.concatenate([private, copies.reshape(-1, z.shape[1])])
    reports = privatize(
        _key(seed, "noise"), made, domain.lower + rows * (domain.upper - domain.lower)
    )
    found = np.asarray(jax.vmap(made.estimate)(reports))
    return Release(found[: len(private)], found[len(private) :].reshape(copies.shape))


def attack(
    name: Name, epsilon: float, embedding: str, seed: int, settings: Settings
) -> tuple[Reconstruction, str]:
    """Reconstruct the private images of a seed; returns the attacker's name, too.

    The attacker trains a linear map and a perceptron on three quarters of the public images. The
    closest on the last quarter, of these and the mean image, is then trained on all public images.
    """
    x, _, public = load(seed, settings)
    nobody = attacks.public_mean(x[public:], public_x=x[:public], shape=SHAPE)
    if name == "public-mean":
        return nobody, name
    z = release(name, epsilon, embedding, seed, settings)  # pyrefly: ignore
    attackers = {
        "linear": attacks.Perceptron(1, 256, settings.epochs, 1e-2),
        "perceptron": attacks.Perceptron(3, settings.attacker, settings.epochs, 1e-3),
    }

    def invert(
        who: str, purpose: str, asked: np.ndarray, true: np.ndarray, known: int
    ) -> Reconstruction:
        return attacks.inversion(
            _key(seed, purpose),
            asked,
            true,
            public_z=z.public[:known].reshape(-1, asked.shape[1]),
            public_x=np.repeat(x[:known], settings.copies, 0),
            shape=SHAPE,
            perceptron=attackers[who],
        )

    most = public - public // 4
    held = x[most:public]
    errors = {
        who: invert(who, "choice", z.public[most:, 0], held, most).mse.mean for who in attackers
    }
    errors["public-mean"] = attacks.public_mean(held, public_x=x[:most]).mse.mean
    chosen = min(errors, key=errors.__getitem__)
    if chosen == "public-mean":
        return nobody, chosen
    return invert(chosen, "attack", z.private, x[public:], public), chosen


def compute(cell: Cell, settings: Settings) -> Found:
    _, digit, public = load(cell.seed, settings)
    name: Any = cell.mechanism
    embedding: Any = cell.embedding
    found, who = attack(name, cell.epsilon, embedding, cell.seed, settings)
    also: dict[str, Any] = {"attacker": who}
    if name == "public-mean":
        guess = np.bincount(
            digit[:public], minlength=10
        ).argmax()  # without an embedding: the most frequent digit
    else:
        z = release(name, cell.epsilon, embedding, cell.seed, settings)
        classify = _classifier(_key(cell.seed, "classifier"), z.public, digit[:public], settings)
        guess = np.asarray(classify(z.private)).argmax(1)
        if name.startswith("feature-rr"):
            theta = prepare(embedding, cell.seed, settings).theta
            largest = theta.max() if name == "feature-rr" else 1 / len(theta)
            also["largest_share"] = round(float(largest), 6)
    assert found.ssim is not None
    values = {
        "mse": found.mse.mean,
        "ssim": found.ssim.mean,
        "accuracy": (guess == digit[public:]).mean(),
    }
    return Found(rounded(values), also, {"data": {"digits": {"source": SOURCE}}})


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the units of tables, with embeddings in words."""
    return frame.assign(
        value=frame.value * frame.metric.map(SCALES), embedding=frame.embedding.map(TITLES)
    )


def picture(report: Any, _: Any) -> show.Section:
    """Figure 8, whose attacks are computed anew, and so only if its rows have changed."""
    results = results_in(report.out)
    rows = results.read(mixed=True)
    rows = rows[rows.config == rows.config.iloc[-1]]
    settings = results.settings()[rows.config.iloc[-1]]
    content = rows.drop(columns=["seconds"]).astype(str).to_dict("list")
    path = show.redraw(results, NAME, content, lambda: plot(rows, Settings(**settings)))
    return [f"![Figure 8]({path.name})"], {}, {}


def plot(rows: pd.DataFrame, settings: Settings) -> Any:
    """One row a release of the last embedding: the first private image of each of eight digits."""
    mse = rows[rows.metric == "mse"]
    (*_, embedding) = (name for name in EMBEDDINGS if (mse.embedding == name).any())
    budgets = sorted({*mse.epsilon[mse.mechanism == "feature-rr"]}, reverse=True)[:5]
    seed = int(rows.seed.min())
    x, digit, public = load(seed, settings)
    some = [int(np.flatnonzero(digit[public:] == c)[0]) for c in range(8)]
    shown: list[tuple[str, Any]] = [("original", x[public:])]
    private = [("feature-rr", budget) for budget in budgets]
    asked: list[tuple[Any, float]] = [("non-private", np.inf), *private, ("public-mean", 0.0)]
    for name, epsilon in asked:
        found, who = attack(name, epsilon, embedding, seed, settings)
        budget = f", epsilon {epsilon:g}" if name == "feature-rr" else ""
        gives_up = "takes the public mean\n" if who == "public-mean" != name else ""
        assert found.ssim is not None
        words = (
            f"{LABELS[name]}{budget}\n{gives_up}MSE {found.mse.mean:.3f}, SSIM "
            f"{found.ssim.mean:.2f}"
        )
        shown.append((words, found.x))
    figure, axes = show.pyplot().subplots(len(shown), len(some), figsize=(6.2, 6.4), squeeze=False)
    for row, (words, images) in zip(axes, shown, strict=True):
        for axis, place in zip(row, some, strict=True):
            axis.imshow(images[place].reshape(SHAPE), cmap="gray_r", vmin=0.0, vmax=1.0)
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            axis.spines[:].set_visible(True)
            axis.spines[:].set(color="#bbbbbb", lw=0.6)
        row[0].set_ylabel(words, rotation=0, ha="right", va="center", fontsize=8, labelpad=6)
    figure.suptitle(
        f"private images, reconstructed from {TITLES[embedding]}", fontsize=10, x=0.62, y=0.985
    )
    figure.subplots_adjust(left=0.26, right=0.98, top=0.94, bottom=0.02, wspace=0.06, hspace=0.06)
    return figure
