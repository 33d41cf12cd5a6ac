"""Names of version 0.2 that moved to :mod:`ldp_jax.servers`; each says what to write.

They go with version 0.4.
"""

import importlib
import sys
import types
import warnings

_NAMES = (
    "CountedClasses",
    "Embedding",
    "JointClasses",
    "JointPrivacy",
    "PredictedClasses",
    "PublicRecord",
    "Rehearsal",
    "StatedFriends",
    "classify_counts",
    "classify_reports",
    "feature_rows",
    "joint_facts",
    "non_private_embedding",
    "panel_facts",
    "perturb",
    "predict_from_counts",
    "predict_from_reports",
    "predict_jointly",
    "private_embedding",
    "private_embeddings",
    "rehearse",
)

_GONE = {
    "collect_rounds": "servers.simulate(key, RoundsServer(...), Users(records=histories)).value",
    "RepeatedReports": "servers.Released, the result of servers.simulate",
}
"""Names of version 0.2 that went, and what stands in their place."""

_MODULES = {
    "counts": "parts.count_evidence",
    "design": "parts.group_design",
    "device_classifier": "parts.device_classifier",
    "embedding": "embedding",
    "estimators": "estimators",
    "field": "parts.label_diffusion",
    "from_counts": "counts from_counts facts.counts",
    "from_reports": "from_reports",
    "groups": "parts.groups",
    "guard": "parts.guard",
    "jointly": "joint from_both facts.joint",
    "links": "links",
    "local_prediction": "reports facts.panel",
    "message": "parts.confusion",
    "one_message": "parts.friends",
    "panel": "parts.panel",
    "piloted": "counts from_counts facts.counts",
    "rehearsal": "rehearsal worlds.users worlds.records",
    "reported": "reported",
    "rounds": "rounds",
    "rows": "parts.rows",
    "self_training": "parts.self_training",
    "stack": "parts.stack",
    "structure": "parts.structure",
}
"""The modules of version 0.2, and the modules in which their functions are."""

__all__: list[str] = []  # names that moved are given one by one, each with its warning


def _moved(old: str, new: str) -> None:
    warnings.warn(
        f"ldp_jax.pipeline.{old} is ldp_jax.servers.{new} now", DeprecationWarning, stacklevel=3
    )


def __getattr__(name: str) -> object:
    if name in _NAMES:
        _moved(name, name)
        return getattr(importlib.import_module("ldp_jax.servers"), name)
    if name in _MODULES:
        return sys.modules[f"{__name__}.{name}"]
    if name in _GONE:
        raise AttributeError(f"ldp_jax.pipeline.{name} is gone: write {_GONE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_NAMES, *_MODULES]


class _Moved(types.ModuleType):
    """A module of version 0.2."""

    def __getattr__(self, name: str) -> object:
        old = self.__name__.rpartition(".")[2]
        if name.startswith("__") or old not in _MODULES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for new in _MODULES[old].split():
            home = importlib.import_module(f"ldp_jax.servers.{new}")
            if hasattr(home, name):
                _moved(f"{old}.{name}", f"{new}.{name}")
                return getattr(home, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


for _name in _MODULES:
    sys.modules[f"{__name__}.{_name}"] = _Moved(f"{__name__}.{_name}")
