"""The main jobs as scikit-learn estimators; they need the extra ``sklearn``.

A graph and the records of its users belong to the estimator, and X is users: node numbers [m] or
[m, 1]; or names, where the graph has them (:func:`ldp_jax.graph.interop.read`). So pipelines,
scores, cross-validation and searches split users, as they should.

>>> from sklearn.linear_model import LogisticRegression
>>> from sklearn.pipeline import make_pipeline
>>> from ldp_jax import datasets, features
>>> data = datasets.synthetic(
...     jax.random.key(0),
...     num_nodes=300,
...     num_classes=3,
...     num_features=30,
...     mean_degree=8,
...     homophily=0.8,
... )
>>> train, test = np.arange(0, 300, 2), np.arange(1, 300, 2)
>>> hds, key = features.HDS(8.0, dim=30, k=5), jax.random.key(0)
>>> embedding = PrivateEmbedding(hds, graph=data.graph, records=data, key=key)
>>> model = make_pipeline(embedding, LogisticRegression()).fit(
...     train, data.y[train]
... )
>>> model.score(test, data.y[test]) > 0.5
True

Every fit asks the users, and what fits cost adds up. The same parameters, data and key give the
same reports, which cost nothing more; so do those of :class:`PrivateEmbedding` under one mechanism,
whatever alpha, r and graph are. Other parameters and other public data draw noise of their own, and
a search over them costs the sum of all
(:func:`ldp_jax.bench.search`). Another private graph, or other private records, need
another key: it cannot depend on what is private.
"""

import abc
import dataclasses
from typing import Any

import jax
import numpy as np
import scipy.sparse
from jaxtyping import Float, PyTree

from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import Mechanism
from ldp_jax.core.pytree import digest
from ldp_jax.core.shown import Hidden, HiddenArgument
from ldp_jax.core.types import Graph, PRNGKey
from ldp_jax.graph import graphs
from ldp_jax.graph.interop import NamedGraph
from ldp_jax.servers import (
    ClassQuestion,
    CountedClasses,
    PredictedClasses,
    count_cost,
    predict_from_counts,
    predict_from_reports,
    private_embedding,
)
from ldp_jax.servers.counts import Protects
from ldp_jax.servers.parts.records import Bounds, UserRecords
from ldp_jax.servers.parts.rows import Features, Rows

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        check_is_fitted,
        column_or_1d,
        validate_data,  # pyrefly: ignore[missing-module-attribute]
    )
except ImportError as error:
    raise ImportError("estimators need scikit-learn: pip install 'ldp_jax[sklearn]'") from error

Users = np.ndarray
"""Node numbers [m] or [m, 1], or names; a table of one column as well."""


def _key_of(key: PRNGKey | None, *parameters: PyTree) -> PRNGKey:
    """A key for these public parameters: two epsilons under one key would reveal records."""
    if key is None:
        raise ValueError("key must be a typed key, as jax.random.key(0) for a simulation, got None")
    validate.threefry(key)
    for word in np.frombuffer(digest(parameters), np.uint32):
        key = random.fold_in(key, word)
    return key


class _Silent(BaseEstimator):
    """An estimator whose displays show no records, no neighbour lists and no key; abstract.

    With the key and a report the noise could be drawn again. Attributes are what was given;
    ``get_params`` holds what is private as :class:`~ldp_jax.core.shown.Hidden`, since every display
    of scikit-learn reads it.
    """

    graph: Any = HiddenArgument()
    records: Any = HiddenArgument()
    features: Any = HiddenArgument()
    key: Any = HiddenArgument()
    random_state: int | None = None

    def _key(self) -> PRNGKey | None:
        """The key; or that of ``random_state``, as ``jax.random.key`` makes it."""
        if self.key is None and self.random_state is not None:
            return jax.random.key(validate.whole(0, random_state=self.random_state))
        return self.key

    def set_params(self, **params: Any) -> "_Silent":
        """Set arguments; ``mechanism__epsilon`` reaches a field of the mechanism."""
        nested = {name: params.pop(name) for name in list(params) if name.startswith(_MECHANISM)}
        super().set_params(**params)
        for name, value in nested.items():
            self.mechanism = _with(self.mechanism, name.split("__")[1:], value)
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments, private ones :class:`~ldp_jax.core.shown.Hidden`.

        ``set_params`` takes both forms.
        """
        given = super().get_params(deep)
        return given | {name: value for name, value in vars(self).items() if name in given}


_MECHANISM = "mechanism__"


def _with(made: Any, path: list[str], value: Any) -> Any:
    """A dataclass with a field of its own, or of what it holds, set."""
    first, *rest = path
    if first not in {field.name for field in dataclasses.fields(made)}:
        raise ValueError(f"{type(made).__name__} has no {first}")
    held = _with(getattr(made, first), rest, value) if rest else value
    return dataclasses.replace(made, **{first: held})


class _OfUsers(_Silent):
    """An estimator whose X are users; it has one feature, the number of a node."""

    def _users(self, X: Users, n: int, *, reset: bool = False) -> np.ndarray:  # noqa: N803
        """Users, int64 [m], as scikit-learn checks data; ``reset`` in ``fit`` alone."""
        if isinstance(self.graph, NamedGraph):
            given = np.asarray(X).reshape(-1).tolist()
            number = {name: node for node, name in enumerate(np.asarray(self.graph.names).tolist())}
            unknown = [name for name in given if name not in number]
            if unknown:
                raise ValueError(
                    "X must be names of the graph's users, as its names are given, and "
                    f"{len(unknown)} are not, such as {unknown[0]!r}"
                )
            X = np.array([number[name] for name in given], np.int64)  # noqa: N806
        if not (hasattr(X, "columns") or scipy.sparse.issparse(X)):
            X = np.asarray(validate.unmasked(X, "X"))  # noqa: N806
            X = X[:, None] if X.ndim == 1 else X  # noqa: N806
        checked = validate_data(self, X, reset=reset, ensure_non_negative=True)
        whole = checked.dtype.kind in "iu" and checked.shape[1] == 1
        rule = f"X must be users, integers [m] or [m, 1] in [0, {n})"
        validate.require(whole and 0 <= checked.min() <= checked.max() < n, rule, checked)
        return checked[:, 0].astype(np.int64)

    @property
    def _edges(self) -> Graph:
        """The graph without names."""
        rule = "graph must be given: ldp_jax.graph.interop.read makes one of many sources"
        validate.require(self.graph is not None, rule)
        return self.graph.graph if isinstance(self.graph, NamedGraph) else self.graph

    @staticmethod
    def _refuse(given: dict[str, object]) -> None:
        """Whatever else callers hand to ``fit``."""
        rule = (
            f"fit must have X and y alone, got {', '.join(given)}: all users of X count alike, as "
            "they do in the guarantee (leave one out of X, and nothing is learned from its class)"
        )
        validate.require(not given, rule)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyrefly: ignore[missing-attribute]
        tags.input_tags.positive_only = True
        return tags


def _public(features: Features | Rows, users: np.ndarray) -> PyTree:
    """The arrays of these users' public rows.

    Nothing where there are too few, which is refused elsewhere.
    """
    if np.shape(features)[:1] <= (users.max(initial=0),):
        return None
    if isinstance(features, Rows):
        return features.take(users)
    if not scipy.sparse.issparse(features):
        return np.asarray(features)[users]
    rows = scipy.sparse.csr_array(features)[users]
    return rows.indptr, rows.indices, rows.data, rows.shape


class PrivateEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _OfUsers):
    """:func:`~ldp_jax.servers.private_embedding`.

    ``fit`` asks all users, ``transform`` looks up their rows.

    Arguments are those of the function; ``records`` are private, of all users: also what
    :func:`ldp_jax.datasets.read_records` returns, or an array and its ``bounds``. ``embedding_`` is
    float32 [n, d], of all users, and ``guarantee_`` says what one fit spent.
    """

    embedding_: Float[np.ndarray, "n d"]
    guarantee_: PipelineGuarantee

    def __init__(
        self,
        mechanism: Mechanism | None = None,
        *,
        graph: Graph | NamedGraph | None = None,
        records: UserRecords | None = None,
        key: PRNGKey | Hidden | None = None,
        alpha: float = 0.1,
        r: float = 0.1,
        bounds: Bounds | None = None,
        random_state: int | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.bounds = bounds
        self.graph = graph
        self.records = records
        self.key = key
        self.alpha = alpha
        self.r = r
        self.random_state = random_state

    def fit(self, X: Users, y: object = None, **given: object) -> "PrivateEmbedding":  # noqa: N803
        """Ask every user of the graph once, whoever is in X; y is not used."""
        self._refuse(given)
        if self.mechanism is None or self.records is None:
            raise ValueError("mechanism and records must be given")
        graph = self._edges
        self._users(X, graphs.num_nodes(graph), reset=True)
        found = private_embedding(
            _key_of(self._key(), *self._drawn_by()),
            graph,
            self.records,
            self.mechanism,
            alpha=self.alpha,
            r=self.r,
            bounds=self.bounds,
        )
        self.embedding_ = np.asarray(found.z)
        self.guarantee_ = found.guarantee
        return self

    def asks(self) -> tuple[Any, tuple[Guarantee, ...]]:
        """The cost of one fit, and a name that fits with equal reports share.

        The name is by mechanism, bounds and key: under one of these the same records are the same
        reports.
        """
        if self.mechanism is None:
            raise ValueError("mechanism must be given")
        key = self._key()
        drawn = (*self._drawn_by(), () if key is None else jax.random.key_data(key))
        return digest(drawn).hex(), (self.mechanism.guarantee(),)

    def _drawn_by(self) -> tuple[PyTree, ...]:
        """The values that reports depend on beside records and key."""
        return (self.mechanism,) if self.bounds is None else (self.mechanism, self.bounds)

    def transform(self, X: Users) -> Float[np.ndarray, "m d"]:  # noqa: N803
        """Rows of the embedding."""
        check_is_fitted(self)
        return self.embedding_[self._users(X, len(self.embedding_))]

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # float32 [n, d], whatever the type of X
        return tags


class _UserClassifier(ClassifierMixin, _OfUsers, abc.ABC):
    """Classes of all users from those of some; abstract.

    Attributes:
      result_: what the function returned.
      classes_: the C classes as they were named in y.
      guarantee_: what one fit spent.
    """

    result_: PredictedClasses | CountedClasses
    classes_: np.ndarray
    guarantee_: PipelineGuarantee

    @abc.abstractmethod
    def _ask(
        self, users: np.ndarray, labels: np.ndarray, num_classes: int
    ) -> PredictedClasses | CountedClasses:
        """The classes of everybody from the labels of some."""

    def fit(self, X: Users, y: Any, **given: object) -> "_UserClassifier":  # noqa: N803
        """Ask the users; of X, each user once, the classes y are public."""
        self._refuse(given)
        rule = "fit requires y to be passed, but the target y is None: the classes of the users X"
        validate.require(y is not None, rule)
        known = validate.labels(y if isinstance(y, np.ma.MaskedArray) else np.asarray(y))
        if known.dtype.kind == "f":
            check_classification_targets(known)  # numbers of a continuum would be a class each
        negative = known.dtype.kind in "iu" and not (known >= 0).all()
        unknown = negative or np.isin(known.astype(str), ("", "-1", "nan")).any()
        rule = (
            "y must not hold -1 or NaN, which elsewhere mark an unknown class: leave such users "
            "out of X; or where -1 is a class, give it another name"
        )
        validate.require(not unknown, rule)
        y = column_or_1d(y, warn=True)
        try:
            classes, labels = np.unique(y, return_inverse=True)
        except TypeError:
            raise ValueError(
                "y must be classes of one type: leave users whose class is unknown out of X"
            ) from None
        check_classification_targets(y)
        users = self._users(X, graphs.num_nodes(self._edges), reset=True)
        once = y.shape == users.shape and len(np.unique(users)) == len(users)
        rule = f"X must name {y.shape} users, one a class and each once, got {users.shape}"
        validate.require(once, rule)
        self.result_ = self._ask(users, labels.astype(np.int32), len(classes))
        self.classes_, self.guarantee_ = classes, self.result_.guarantee
        return self

    def predict_proba(self, X: Users) -> Float[np.ndarray, "m classes"]:  # noqa: N803
        """The posterior of each user; of a user of ``fit``, without their own label."""
        check_is_fitted(self)
        log_posterior = np.asarray(self.result_.log_posterior, np.float64)
        posterior = np.exp(log_posterior[self._users(X, len(log_posterior))])
        return posterior / posterior.sum(1, keepdims=True)

    def predict(self, X: Users) -> np.ndarray:  # noqa: N803
        """The likeliest class of each user."""
        likeliest = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]


class ReportClassifier(_UserClassifier):
    """:func:`~ldp_jax.servers.predict_from_reports`: private records.

    The users of ``fit`` are the panel.

    Arguments are those of the function; ``records`` [n, d] are of all users, those of the panel
    public.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        graph: Graph | NamedGraph | None = None,
        records: Any = None,
        key: PRNGKey | Hidden | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.random_state = random_state
        self.graph = graph
        self.records = records
        self.key = key

    def asks(self) -> tuple[None, tuple[Guarantee, ...]]:
        """The cost of one fit; None, because other users of X are another panel."""
        return None, (ClassQuestion.most(self.epsilon, 2).guarantee,)

    def _ask(self, users: np.ndarray, labels: np.ndarray, num_classes: int) -> PredictedClasses:
        validate.require(self.records is not None, "records must be given")
        graph = self._edges
        shown = _public(self.records, users)
        key = _key_of(self._key(), self.epsilon, users, labels, graphs.to_edges(graph), shown)
        return predict_from_reports(
            key, graph, self.records, users, labels, self.epsilon, num_classes=num_classes
        )


class CountClassifier(_UserClassifier):
    """:func:`~ldp_jax.servers.predict_from_counts`: private neighbour lists, public features.

    Arguments are those of the function; the ``graph`` is private, and this simulates all devices.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        graph: Graph | NamedGraph | None = None,
        features: Any = None,
        unit: Protects = "list",
        key: PRNGKey | Hidden | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.random_state = random_state
        self.graph = graph
        self.features = features
        self.unit = unit
        self.key = key

    def asks(self) -> tuple[None, tuple[Guarantee, ...]]:
        """The cost of one fit, per bit of a list and per relationship; None: no two are alike."""
        cost = count_cost(self.epsilon, "one owner" if self.unit == "relationship" else None)
        assert cost.pair is not None
        return None, (cost.guarantee, cost.pair)

    def _ask(self, users: np.ndarray, labels: np.ndarray, num_classes: int) -> CountedClasses:
        graph = self._edges
        everybody = np.full(graphs.num_nodes(graph), -1, np.int32)
        everybody[users] = labels
        shown = None if self.features is None else _public(self.features, np.arange(len(everybody)))
        key = _key_of(self._key(), self.epsilon, everybody, self.unit == "list", num_classes, shown)
        return predict_from_counts(
            key,
            graph,
            self.features,
            everybody,
            self.epsilon,
            unit=self.unit,
            num_classes=num_classes,
        )
