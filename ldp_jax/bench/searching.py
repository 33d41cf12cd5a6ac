"""The cost of a search over parameters: its fits ask the same users, and what they cost adds up.

A user who reports in every fit of a search pays the sum over fits: with F folds and a refit,
F times the sum of all epsilons and once more the chosen one. Fits whose reports are the same cost
once. Needs the extra ``sklearn``.
"""

from typing import Any, NamedTuple

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.accounting.ledger import Ledger

__all__ = ["Searched", "guarantee_of", "search"]

__dir__ = lambda: __all__


class Searched(NamedTuple):
    """A search that was run, and what it cost.

    Attributes:
      search: scikit-learn's, fitted.
      guarantee: of a user who reports in every fit; stated before the first one.
      fits: how many there were at most.
      reports: how many of them asked for new reports.
    """

    search: Any
    guarantee: PipelineGuarantee
    fits: int
    reports: int

    def __str__(self) -> str:
        return (
            f"{self.fits} fits, {self.reports} of which ask for new reports. A user who reports in "
            f"each pays their sum:\n{self.guarantee}"
        )


def search(
    estimator: Any,
    grid: Any,
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any = None,
    *,
    budget: Any = None,
    **options: Any,
) -> Searched:
    """Run ``sklearn.model_selection.GridSearchCV`` within a budget, and state what it costs.

    The most that it can cost is held against ``budget`` before anybody reports; a number is per
    record, as :class:`~ldp_jax.accounting.ledger.Ledger` takes it. ``options`` are
    those of ``GridSearchCV``, such as ``cv`` and ``scoring``. ``BudgetExceededError`` where the sum
    does not fit; ``TypeError`` for an estimator that asks no user.

    >>> import jax
    >>> import numpy as np
    >>> from ldp_jax import datasets
    >>> from ldp_jax.servers.estimators import CountClassifier
    >>> sizes = {"num_nodes": 60, "num_classes": 2, "num_features": 4}
    >>> data = datasets.synthetic(
    ...     jax.random.key(0), **sizes, mean_degree=5, homophily=0.8
    ... )
    >>> model = CountClassifier(graph=data.graph, features=data.x, random_state=0)
    >>> users = np.arange(0, 60, 2)
    >>> found = search(model, {"epsilon": [1.0, 2.0]}, users, data.y[users], cv=2)
    >>> [
    ...     round(one.epsilon, 6) for one in found.guarantee.values()
    ... ]  # 2 (1 + 2) + 2, at both ends
    [8.0, 16.0]
    """
    from sklearn.base import is_classifier
    from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv

    made: Any = GridSearchCV(estimator, grid, **options)
    made.cv = check_cv(made.cv, y, classifier=is_classifier(estimator))  # splits may be read once
    folds = made.cv.get_n_splits(X, y)
    candidates = list(ParameterGrid(grid))
    fits = [parameters for parameters in candidates for _ in range(folds)]
    asked = _asked(estimator, fits)
    plans = [asked]
    if made.refit:  # of whichever candidate turns out best
        plans = [asked | _asked(estimator, [last], first=len(fits)) for last in candidates]
    # The cost of each unit is that of its worst plan: no plan need be the worst of all units.
    totals = [_total(plan) for plan in plans]
    units = dict.fromkeys(unit for total in totals for unit in total)
    worst = [parallel(*(total[unit] for total in totals if unit in total)) for unit in units]
    stated = _total({"search": tuple(worst)})
    if budget is not None:
        Ledger(budget).spend("search", stated)
    made.fit(X, y)
    # A fit is one, however many of its steps ask.
    kinds = [{key[0] if isinstance(key, tuple) else key for key in plan} for plan in plans]
    return Searched(made, stated, len(fits) + bool(made.refit), max(map(len, kinds)))


def guarantee_of(search: Any) -> PipelineGuarantee:
    """The guarantee of a fitted scikit-learn search, for a user who reported in every fit.

    ``TypeError`` for an estimator that asks no user.
    """
    fits = [each for each in search.cv_results_["params"] for _ in range(search.n_splits_)]
    return _total(_asked(search.estimator, fits + ([search.best_params_] if search.refit else [])))


def _asked(
    estimator: Any, fits: list[dict[str, Any]], first: int = 0
) -> dict[Any, tuple[Guarantee, ...]]:
    """The guarantees of fits, numbered from ``first``, by what tells their reports apart.

    All parts of an estimator that ask users have one. ``ValueError`` for two records of one name,
    whose reports would share their noise.
    """
    from sklearn.base import clone

    asked = {}
    records: dict[Any, Any] = {}
    for place, parameters in enumerate(fits, first):
        made = clone(estimator).set_params(**parameters)
        parts = (made, *made.get_params(deep=True).values())  # of pipelines, unions and the like
        private = [*{id(part): part for part in parts if hasattr(part, "asks")}.values()]
        if not private:
            raise TypeError(
                f"{type(estimator).__name__} asks no user: see ldp_jax.servers.estimators"
            )
        for number, part in enumerate(private):
            name, guarantees = part.asks()
            held = getattr(part, "records", None)
            if name is not None and records.setdefault(name, held) is not held:
                raise ValueError(
                    "records must be the same in all steps and fits of one mechanism and key: "
                    "others would have the same noise; give each a key of its own, and do not "
                    "search over them"
                )
            asked[(place, number) if name is None else name] = guarantees
    return asked


def _total(asked: dict[Any, tuple[Guarantee, ...]]) -> PipelineGuarantee:
    each = [one for guarantees in asked.values() for one in guarantees]
    return PipelineGuarantee.of(each, protected=("what users report on",), unprotected=())
