"""No text of a public object shows records, neighbour lists, names, keys or secrets: types and
shapes alone.
"""

import copy
import dataclasses
import hashlib
import importlib
import inspect
import pickle
import pkgutil
import pprint
from typing import NamedTuple

import jax
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import ldp_jax
from ldp_jax import attacks, datasets, deployment, edges, features
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.core.ownership import ownership
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import Hidden
from ldp_jax.curators import EdgeSplit
from ldp_jax.graph import graphs
from ldp_jax.learning import importance, label_training
from ldp_jax.servers import (
    CountedClasses,
    JointClasses,
    JointPrivacy,
    PredictedClasses,
    Users,
    estimators,
    predict_from_counts,
    predict_from_reports,
    private_embedding,
)
from ldp_jax.servers.counts import PilotedCounts
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.parts.group_design import Design
from ldp_jax.servers.reports import LocalPrediction

MARK = 731257
"""It stands in every private value, and in no text."""

MARKED = np.full((4, 3), MARK)
KEY = jax.random.wrap_key_data(np.array([MARK, MARK], np.uint32), impl="threefry2x32")
GRAPH = graphs.from_edges([[0, 1], [1, 2]], 4)
MARKED_GRAPH = graphs.from_edges([[0, MARK]], MARK + 1)
VALUES = {
    "array": MARKED,
    "key": KEY,
    "sparse": scipy.sparse.csr_array(MARKED),
    "graph": MARKED_GRAPH,
    "list": [MARK],
    "dict": {str(MARK): MARK},
    "names": (str(MARK),),
    "bytes": str(MARK).encode(),
}
HDS = features.HDS(1.0, dim=3, k=1)
SPENT = PipelineGuarantee((Guarantee(1.0),), protected=("features",), unprotected=())
NUMBERS = np.full((4, 2), float(MARK), np.float32)
SECRET = str(MARK).encode() + hashlib.sha256(b"a device").digest()[:26]


def dataset():
    names = tuple(f"{MARK}-{i}" for i in range(4))
    return datasets.Dataset("a set", GRAPH, MARKED, np.arange(4) % 2, 0, 10**6, node_names=names)


def estimator(cls, **given):
    return cls(graph=MARKED_GRAPH, key=KEY, **given)


MADE = {
    "Attack": lambda: attacks.evaluate(
        "an attack", np.full(6, MARK), attacks.all_pairs(np.arange(4), [[0, 1]])
    ),
    "CountClassifier": lambda: estimator(estimators.CountClassifier, features=MARKED),
    "CountedClasses": lambda: CountedClasses(NUMBERS, of_counts(), MARKED, SPENT),
    "Dataset": dataset,
    "Device": lambda: deployment.Device(SECRET),
    "EdgeSplit": lambda: EdgeSplit(GRAPH, graphs.from_edges([[2, 3]], 4)),
    "FeatureScores": lambda: importance.FeatureScores(
        "a score", (), ("records",), np.full(4, float(MARK))
    ),
    "GraphSet": lambda: graphs.GraphSet(
        np.array([1, 0]), np.array([0, 1]), np.zeros(4, int), np.array([MARK])
    ),
    "Hidden": lambda: Hidden(MARKED),
    "JointClasses": lambda: JointClasses(NUMBERS, NUMBERS[0], "lists", 1.0, None, MARKED, SPENT),
    "NoisyCounts": lambda: edges.NoisyCounts(MARKED, np.ones(4, bool), SPENT),
    "NoisyGraph": lambda: edges.NoisyGraph(GRAPH, NUMBERS[:, 0], SPENT),
    "Ownership": lambda: ownership(np.full(4, MARK), [True, False, False, False]),
    "Population": lambda: edges.Population(MARKED, MARKED, np.full(4, MARK), np.ones(4, bool)),
    "PredictedClasses": lambda: PredictedClasses(NUMBERS, of_reports(), NUMBERS, SPENT),
    "PrivateEmbedding": lambda: estimator(estimators.PrivateEmbedding, records=MARKED),
    "ReportClassifier": lambda: estimator(estimators.ReportClassifier, records=MARKED),
    "Users": lambda: Users(records=MARKED, labels=MARKED[:, 0]),
    "Session": lambda: deployment.Session(deployment.Device(SECRET), budget=1.0),
}
"""Of classes that check what they hold, or show a part of it; all others are filled field by
field.
"""

PUBLIC = set(
    """
    Perceptron Difference Poisoning Reconstruction Table WordRuns PersonalTotals GaussianCurve
    Budget Guarantee PipelineGuarantee Unit Ledger Release WholeNoise Alphabet Classifier Question
    Pairs Rejected Received Spent ReportStore FieldReports NeighbourReports DendrogramLaw Choice
    Estimate Transition BranchReport Shape ReconstructionQuality Delta ErrorBound Scores
    ConfidenceInterval Party Message Fidelity Settings PublicRecord JointPrivacy Foreseen OwnGain
    Rehearsal StatedFriends StatedUsers LinkScores HiddenArgument Questions Account Cost Role
    Statement Round Released Share Service Comparison Method Named Row Searched SubgraphCount
    LDPGenServer StarServer TriangleServer ByMechanism Stars Triangles Friends
""".split()  # noqa: SIM905 - a list of names would take forty lines
)
"""Parameters, guarantees, measurements, reports on the wire: nothing within is private, nor a
key.
"""


def public_classes():
    """All classes of modules without an underscore: those that they offer, and their own."""
    for info in pkgutil.walk_packages(ldp_jax.__path__, "ldp_jax."):
        if "._" in info.name:
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            offered = name in getattr(module, "__all__", ())
            own = not name.startswith("_") and getattr(value, "__module__", "") == info.name
            if (
                inspect.isclass(value)
                and (offered or own)
                and value.__module__.startswith("ldp_jax")
            ):
                yield value


def is_public(cls):
    """Whether it is a mechanism, a space, a verdict on one, an interface, or in the list."""
    of_laws = cls.__module__.startswith(
        ("ldp_jax.core.spaces.", "ldp_jax.edges.spaces", "ldp_jax.verification.")
    )
    report = cls.__name__.endswith("Report")
    interface = (
        inspect.isabstract(cls)
        or getattr(cls, "_is_protocol", False)
        or issubclass(cls, BaseException)
    )
    return (
        hasattr(cls, "privatize") or (of_laws and not report) or interface or cls.__name__ in PUBLIC
    )


CLASSES = sorted(
    {cls for cls in public_classes() if not is_public(cls)}, key=lambda cls: cls.__name__
)


def filled(cls, value):
    """An instance that holds the value in each field; of a class without fields there must be one
    in MADE.
    """
    if hasattr(cls, "_fields"):
        return tuple.__new__(cls, [value] * len(cls._fields))
    assert dataclasses.is_dataclass(cls), (
        f"{cls.__name__} needs an instance in MADE, or a place in PUBLIC"
    )
    made = object.__new__(cls)
    for field in dataclasses.fields(cls):
        object.__setattr__(made, field.name, value)
    return made


def of_counts():
    plan = filled(Design, MARKED)
    object.__setattr__(plan, "best", "classes")
    return filled(PilotedCounts, MARKED)._replace(
        scaling=None, strength=1.0, design=plan, absent=()
    )


def of_reports():
    facts = filled(PanelFacts, MARKED)._replace(taught=None)
    return filled(LocalPrediction, MARKED)._replace(used="reports", strength=1.0, facts=facts)


def texts(made):
    """What screens, logs, notebooks and debuggers show."""
    yield from (repr(made), str(made), f"{made}", pprint.pformat([made]))
    for method in ("_repr_html_", "_repr_mimebundle_"):
        if hasattr(made, method):
            yield str(getattr(made, method)())


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_text_shows_what_is_private(cls):
    made = (
        [MADE[cls.__name__]()]
        if cls.__name__ in MADE
        else [filled(cls, value) for value in VALUES.values()]
    )
    for one in made:
        for text in texts(one):
            assert str(MARK) not in text


def test_a_class_of_no_fields_is_registered_and_one_that_shows_them_is_found():
    class Unknown:
        pass

    class Shows(NamedTuple):
        x: np.ndarray

    with pytest.raises(AssertionError, match="needs an instance"):
        filled(Unknown, MARKED)
    with pytest.raises(AssertionError):
        test_no_text_shows_what_is_private(Shows)


@pytest.mark.parametrize("name", ["Device", "Session"])
@pytest.mark.parametrize(
    "kept", [pickle.dumps, copy.copy, copy.deepcopy, lambda holder: holder.__reduce__()]
)
def test_a_secret_is_not_pickled(name, kept):
    with pytest.raises(TypeError) as refused:
        kept(MADE[name]())
    assert str(MARK) not in repr(refused.value)


def test_displays_of_scikit_learn_show_shapes():
    """Also within a pipeline and a search, and of what ``get_params`` gives; attributes are what
    was given.
    """
    embedding = MADE["PrivateEmbedding"]().set_params(mechanism=features.HDS(1.0, dim=3, k=1))
    pipeline = make_pipeline(embedding, LogisticRegression())
    search = GridSearchCV(pipeline, {"privateembedding__alpha": [0.1, 0.2]})
    for one in (embedding, pipeline, search):
        for shown in (one, clone(one), one.get_params(), one.get_params(deep=False)):
            for text in texts(shown):
                assert str(MARK) not in text
    assert "records=<int64[4, 3]>" in repr(embedding)
    assert embedding.records is MARKED
    np.testing.assert_array_equal(clone(embedding).records, MARKED)
    assert pickle.loads(pickle.dumps(embedding)).records.shape == MARKED.shape
    assert estimators.PrivateEmbedding().get_params()["records"] is None


MISTAKEN = {
    "a budget": lambda: JointPrivacy(record=MARKED),
    "a cost": lambda: Ledger(1.0).spend("records", MARKED),
    "a file": lambda: datasets.load([MARK]),
    "a mechanism": lambda: label_training.noisy_examples(MARKED, [0], [0]),
    "a number": lambda: private_embedding(
        jax.random.key(0), GRAPH, MARKED / MARK, HDS, alpha=MARKED, r=0.1
    ),
    "a number of bytes": lambda: datasets.load("debian", max_bytes=MARKED),
    "a source": lambda: importance.Public("a panel", MARKED),
    "a guarantee": lambda: PipelineGuarantee([MARKED], protected=("features",), unprotected=()),
    "a key": lambda: private_embedding(MARKED, GRAPH, MARKED / MARK, HDS, alpha=0.1, r=0.1),
    "names of fields": lambda: PipelineGuarantee([], protected=MARKED, unprotected=()),
    "an epsilon": lambda: predict_from_reports(
        jax.random.key(0), GRAPH, MARKED, [0, 1], [0, 1], epsilon=MARKED
    ),
    "a unit": lambda: predict_from_counts(
        jax.random.key(0), GRAPH, None, np.arange(4) % 2, 1.0, unit=[MARK]
    ),
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", MISTAKEN)
def test_an_argument_in_the_wrong_place_is_not_shown(name):
    with pytest.raises((ValueError, TypeError)) as refused:
        MISTAKEN[name]()
    assert str(MARK) not in repr(refused.value)


def test_a_tree_shows_shapes():
    @pytree
    class Holder:
        x: object

    assert repr(Holder([MARK])) == "Holder(x=list[1])"
    assert repr(Holder(MARKED_GRAPH)) == "Holder(x=GraphsTuple)"
