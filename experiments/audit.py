"""Is every epsilon true? Checks of all mechanisms: exact, by draws, and in their arithmetic."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _central_audit, _declared, _runner
from experiments._common import own_method
from experiments._published import (
    DuchiVectorWithTies,
    PrintedHyperbolicGaussian,
    ReleasedSquareWave,
)
from experiments._report import legend_below, panels, prose, ranked
from experiments._runner import (
    Found,
    Grid,
    Results,
    UsageError,
    config_hash,
    console,
    run,
    write_atomically,
    write_rows,
)
from ldp_jax import curators, edges, features, verification
from ldp_jax.core.mechanism import HasMoments, require_protocol
from ldp_jax.core.spaces import Ball
from ldp_jax.verification.arithmetic import ROUNDING
from ldp_jax.verification.cases import CASES
from ldp_jax.verification.exact import HasInverse
from ldp_jax.verification.verdict import delta_of

NAME = "audit"
OWN = "audit_own"
"""The files of a mechanism of the user's own."""
EPSILONS = (0.1, 1.0, 4.0, 16.0)
ABOVE = (17.0, 30.0)
"""Budgets beyond what one float32 uniform can resolve: there the arithmetic is asked, not the law
or draws.
"""
QUICK = (1.0,)
"""What ``--quick`` asks."""
REPORTINGS = ("full", "half list", "half")
SLACK = 1e-9  # float64 suprema of claims that are attained


class Subject(NamedTuple):
    """A mechanism of the table."""

    public: str
    """the exported name that makes it"""
    make: Callable[[float], Any]
    """from the budget of a record"""
    sound: bool = True
    """False: a form that was published, whose claim is known not to hold"""


_AUDITED = [case for case in CASES.values() if case.audited]
SUBJECTS = {
    **{case.audited: Subject(case.public, case.make) for case in _AUDITED if not case.central},
    "PrivGE's released sampler": Subject("SquareWave", ReleasedSquareWave, sound=False),
    "Duchi, d = 4, ties twice": Subject(
        "DuchiVector", lambda e: DuchiVectorWithTies(e, 4), sound=False
    ),
    "PoinDP's released noise": Subject(
        "PaperHyperbolicGaussian", PrintedHyperbolicGaussian, sound=False
    ),
    "DPRR's printed split, 3 nodes": Subject(
        "DPRR", lambda e: edges.DPRR.as_published(e, 3, n=3), sound=False
    ),
}
"""The library's cases (:data:`ldp_jax.verification.cases.CASES`) in their order, and what others
have published.
"""

CENTRAL = {
    **{case.audited: Subject(case.public, case.make) for case in _AUDITED if case.central},
    "EdgeRR's printed scale and counts": Subject(
        "EdgeRR", lambda e: curators.EdgeRR.as_published(e / 2, e / 2, sweeps=32), sound=False
    ),
}
"""Mechanisms of a curator, which are asked otherwise, with a budget of one private edge."""


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Ask every mechanism whether its epsilon holds, and measure what published forms really lose.

    For each mechanism and budget: the claim, the exact supremum of its privacy loss (integers for
    tables), a lower bound from draws alone, whether the sampler follows the density, in every
    window of the records and report by report, the worst variance, the mass of float32 reports that
    one record can give and another cannot, and what an edge costs by enumeration. At epsilon 17 and
    30: what the probabilities that are drawn really lose. Exits with 1 when a claim fails, or when
    the defect of a published form is not seen. Mechanisms of a curator have a table of their own:
    what an edge costs by enumeration, and what draws show. Writes audit.csv, audit.md and
    audit.png; about ten minutes of one core.
    """

    mechanism: str | None = None
    """ask this one alone: module:Name, made at each budget, or a call with literals,
    module:Name(1.0, n=6); its verdicts are in audit_own.md, its tests in audit_own.csv
    """
    quick: bool = False
    """epsilon 1 alone, 20 000 draws, and of draws only whether one record follows its density and
    what two show: other records, windows, single reports, float32, words and variances are not
    looked at; about a minute of two cores, into files named audit_quick"""
    seed: int = 0
    """of the draws"""

    def trials(self, epsilon: float) -> int:
        """Draws of each record: more where less is lost."""
        if self.quick:
            return 20_000
        return 2_000_000 if epsilon < 0.5 else 400_000

    @property
    def reports(self) -> int:
        """Reports of the tests that look at each one of them."""
        return 1 << 16 if self.quick else 1 << 18


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One mechanism at one budget; what is true of its epsilon is found out, not planned."""

    FOUND: ClassVar[tuple[str, ...]] = ("epsilon_proved",)

    dataset: str = "none"
    task: str = NAME
    epsilon_proved: float = math.nan

    last_metric = property(lambda self: "seconds")


results_in = partial(Results, name=NAME, cell=Cell)


def main(config: Config) -> None:
    """Run the audit, of one mechanism of the user's own or of all of the library's."""
    if config.mechanism is not None:
        ask(config)
        return
    name = f"{NAME}_quick" if config.quick else NAME
    results = results_in(config.out, name=name)
    epsilons = QUICK if config.quick else (*EPSILONS, *ABOVE)
    below = tuple(epsilon for epsilon in epsilons if epsilon not in ABOVE)
    asked = _ask_all(config, results, epsilons)
    asked_of_curators = _ask_curators(config, results, below) if CENTRAL else None
    if not config.whole:
        return
    wide = table(asked)
    failures = verdicts(wide)
    said = ""
    if config.quick:
        shown = wide.lower_bound[wide.mechanism.map(lambda one: SUBJECTS[one].sound).astype(bool)]
        said = prose(NAME).quick.format(
            draws=config.trials(1.0),
            least=wide.defect.min(),
            most=wide.defect.max(),
            low=shown.min(),
            high=shown.max(),
        )
    if asked_of_curators is not None:
        metrics = ("claimed", "supremum", "fit", "lower_bound")
        central = _central_audit.by_budget(asked_of_curators, CENTRAL, metrics)
        failures += _central_audit.verdicts(central, CENTRAL, SLACK)
        asked = pd.concat([asked, asked_of_curators])
    text = _declared.paged(config.out, name, asked, said, page=NAME)
    console.print(text, soft_wrap=True, highlight=False, markup=False)
    console.print(f"rows: {results.csv}", soft_wrap=True)
    for failure in failures:
        console.print(f"[bold red]{failure}")
    if failures:
        raise SystemExit(1)
    console.print(
        "every claim of this library holds, and every published form that does not was seen not to"
    )


def _ask_all(config: Config, results: Results, epsilons: tuple[float, ...]) -> pd.DataFrame:
    """The rows of :data:`SUBJECTS` under these settings; missing ones are computed."""
    # The confidence is shared by the cells: with other cells all are asked again.
    settings = {"quick": config.quick, "seed": config.seed, "slack": SLACK}
    settings |= {"rungs": 0, "draws": config.trials(1.0)} if config.quick else {"rungs": 3}
    return _rows_of(SUBJECTS, epsilons, config, results, settings, "mechanisms")


def _ask_curators(config: Config, results: Results, epsilons: tuple[float, ...]) -> pd.DataFrame:
    """The same of :data:`CENTRAL`, with settings and a confidence of their own."""
    settings = {"central": 2, "quick": config.quick, "seed": config.seed, "slack": SLACK}
    return _rows_of(CENTRAL, epsilons, config, results, settings, "curators")


def _rows_of(
    subjects: Mapping[str, Subject],
    epsilons: tuple[float, ...],
    config: Config,
    results: Results,
    settings: dict[str, Any],
    called: str,
) -> pd.DataFrame:
    """One cell a subject and budget; all rows of these settings."""
    settings |= {"cells": len(subjects) * len(epsilons)}
    cells = [
        Cell(
            mechanism=label,
            epsilon=epsilon,
            seed=config.seed,
            unit=str(subject.make(1.0).guarantee().unit),
            config=config_hash(settings),
        )
        for label, subject in subjects.items()
        for epsilon in epsilons
    ]
    found = partial(compute, config=config, epsilons=epsilons)
    run(dict.fromkeys(cells, settings), found, results, called=f"budgets of {called}", grid=config)
    frame = results.read()
    return frame[frame.config == config_hash(settings)]


def compute(
    cell: Cell, settings: Mapping[str, Any], config: Config, epsilons: tuple[float, ...]
) -> Found:
    """Ask a subject at a budget, by a key of their place among the cells."""
    central = "central" in settings
    subjects = CENTRAL if central else SUBJECTS
    subject = subjects[cell.mechanism]
    place = list(subjects).index(cell.mechanism) * len(epsilons) + epsilons.index(cell.epsilon)
    root = jax.random.key(config.seed)
    key = jax.random.fold_in(jax.random.fold_in(root, 1 << 20) if central else root, place)
    significance = verification.statistics.SIGNIFICANCE / settings["cells"]
    start = time.perf_counter()
    if central:
        made = subject.make(cell.epsilon)
        measured = _central_audit.examine(made, cell.epsilon, key, significance)
    elif cell.epsilon in ABOVE:
        measured = above(subject, cell.epsilon)
    else:
        measured = examine(
            subject, cell.epsilon, key, config, 1 - significance, whole=not config.quick
        )
    proved = math.inf
    if subject.sound:
        proved = measured.get("supremum", measured.get("arithmetic", math.nan))
    if measured:
        measured["seconds"] = round(time.perf_counter() - start, 2)
    return Found(measured, {"epsilon_proved": proved})


def ask(config: Config) -> None:
    """Tell the verdicts on a mechanism of the user's own, at each budget."""
    made = asked_of(str(config.mechanism), QUICK if config.quick else EPSILONS)
    tell_verdicts(config.out, OWN, made, config.seed, 20_000 if config.quick else 200_000)


def tell_verdicts(
    out: Path, name: str, made: Iterable[Any], seed: int = 0, trials: int = 200_000
) -> None:
    """Print verdicts on mechanisms, and write them and their tests; exit with 1 where one fails."""
    verdicts = []
    for place, one in enumerate(made):
        key = jax.random.fold_in(jax.random.key(seed), place)
        verdict = verification.check(one, key, trials=trials)
        console.print(f"{verdict}\n", soft_wrap=True, markup=False, highlight=False)
        verdicts.append(verdict)
    tests = [
        {"mechanism": verdict.mechanism, **dataclasses.asdict(test)}
        for verdict in verdicts
        for test in verdict.tests
    ]
    text = "\n\n".join(f"```\n{verdict}\n```" for verdict in verdicts)
    write_rows(out, name, pd.DataFrame(tests))
    write_atomically(out / f"{name}.md", text + "\n")
    console.print(f"tests: {out / f'{name}.csv'}", soft_wrap=True)
    if not all(verdicts):
        raise SystemExit(1)


def asked_of(word: str, epsilons: tuple[float, ...] = EPSILONS) -> list[Any]:
    """The mechanisms that ``module:Name`` makes of each budget, or ``module:Name(1.0, n=6)``."""
    method = own_method("--mechanism", word)
    made = []
    refused = ""
    try:
        if method.complete:
            made.append(method.make())
        for epsilon in () if method.complete else epsilons:
            try:
                made.append(method.make(epsilon))
            except ValueError as error:
                refused = str(error)
                console.print(
                    f"epsilon {epsilon:g} is refused: {refused}", soft_wrap=True, markup=False
                )
        for one in made:
            require_protocol(one)
    except (AttributeError, TypeError, ValueError) as error:
        said = str(error).partition(":\n")[0]  # without the class that it shows
        raise UsageError(f"--mechanism {word}: {said}") from error
    if not made:
        raise UsageError(f"--mechanism {word}: {refused}")
    return made


def examine(
    subject: Subject,
    epsilon: float,
    key: Any,
    config: Config,
    confidence: float,
    *,
    whole: bool = True,
) -> dict[str, float]:
    """The findings about a mechanism at a budget, empty where it refuses.

    Unless ``whole``, two records alone are asked.
    """
    try:
        made = subject.make(epsilon)
    except ValueError:
        return {}  # LP-optimal: too few inputs for so large a budget
    fit_key, game_key, test_key, many_key = jax.random.split(key, 4)
    guarantee = made.guarantee()
    trials = config.trials(epsilon)
    few = min(trials, 400_000)
    with ThreadPoolExecutor(
        2
    ) as pool:  # most of the time is the compiler's, which holds no lock of Python
        losing = pool.submit(_law_loses, made)
        fitting = pool.submit(verification.matches_density, made, fit_key, trials=few)
        bounding = pool.submit(
            verification.epsilon_lower_bound,
            made,
            game_key,
            trials,
            confidence,
            delta=guarantee.delta,
        )
        varying = pool.submit(_worst_variance, made) if whole else None
    fit = fitting.result()
    bound = bounding.result()
    measured = {
        "claimed": guarantee.epsilon,
        "exact": float(guarantee.arithmetic == "exact"),
        # The law on paper says nothing where another one is drawn.
        "supremum": losing.result() if fit.fits else math.nan,
        "lower_bound": bound.epsilon,
        "lower_limit": bound.limit,
        "fit": _ratio(fit),
    }
    measured |= {"variance": varying.result()} if varying else {"defect": fit.smallest_defect}
    if whole:
        many = verification.matches_everywhere(
            made, many_key, trials=few, significance=1 - confidence
        )
        measured |= {
            "records": _ratio(many),
            "records asked": many.records,
            "region": many.smallest_defect,
        }
    if (
        whole
        and isinstance(made, (features.Discrete, HasInverse))
        and type(made) is not ReleasedSquareWave
    ):
        asked: Any = made
        low = float(asked.domain().extremes()[0])
        typical = float(asked.domain().typical())
        measured["impossible"] = verification.float_audit(asked, low, typical).impossible
    if made.domain().users:
        measured |= _relationships(made)
    elif whole:
        measured |= _tests(made, test_key, config, 1 - confidence)
    return measured


def _ratio(fit: verification.Fit) -> float:
    """How near a fit is to its threshold: at most 1 where it fits."""
    if fit.threshold:
        return fit.statistic / fit.threshold
    return 0.0 if fit.fits else math.inf


def _law_loses(made: Any) -> float:
    """The exact supremum of the loss; infinity for NaN, which no verdict would see.

    Where a delta allows more, the claim if the law keeps it, else infinity.
    """
    guarantee = made.guarantee()
    if not guarantee.delta:
        loss = verification.privacy_loss_supremum(made).epsilon
        return math.inf if math.isnan(loss) else loss
    found = delta_of(made, guarantee.epsilon, guarantee.delta)
    return guarantee.epsilon if found.holds else math.inf


def _tests(made: Any, key: Any, config: Config, significance: float) -> dict[str, float]:
    """How near the tests that look at every report are to their thresholds.

    At most 1 where all is well.
    """
    distinct_key, window_key, loss_key = jax.random.split(key, 3)
    asked = {"trials": config.reports, "significance": significance / 3}
    found = {"distinct": verification.distinct_reports(made, distinct_key, **asked)}
    if not made.guarantee().delta:  # which is what losses beyond epsilon are allowed
        found["drawn_loss"] = verification.reported_losses(made, loss_key, trials=config.reports)
    # The coordinates of these are not independent given the record.
    if not isinstance(made, features.DuchiVector) and not isinstance(made.domain(), Ball):
        found["windows"] = verification.record_windows(made, window_key, **asked)
    return {
        name: fit.statistic / fit.threshold if fit.fits else math.inf for name, fit in found.items()
    }


def _relationships(made: Any) -> dict[str, float]:
    """The cost of an edge by enumeration, for each reporting.

    The last number is the largest share of the claimed cost.
    """
    found = {p: verification.relationship_supremum(made, p).epsilon for p in made.reportings}
    share = max(loss / made.relationship(p).epsilon for p, loss in found.items())
    return {f"relationship {p}": loss for p, loss in found.items()} | {"relationship": share}


def above(subject: Subject, epsilon: float) -> dict[str, float]:
    """The loss of the drawn probabilities; continua and lists are left out.

    ``refused`` is 1 where a budget is.
    """
    try:
        made = subject.make(epsilon)
    except ValueError:
        return {"refused": 1.0}
    measured = {"refused": 0.0, "claimed": made.guarantee().epsilon}
    if not made.domain().users:
        measured["arithmetic"] = math.nan
        with contextlib.suppress(ValueError):
            measured["arithmetic"] = verification.arithmetic(made).epsilon
    return measured


def _worst_variance(made: Any) -> float:
    """The largest variance of one coordinate of the estimate, over 41 records.

    NaN without a closed form.
    """
    if not isinstance(made, HasMoments):
        return math.nan
    return float(_largest_variance(made, made.domain().grid(41)))


@jax.jit
def _largest_variance(made: HasMoments, records: jax.Array) -> jax.Array:
    return jnp.max(jax.vmap(made.variance)(records))


_RUNGS = {
    "fit": "does not draw what its density says",
    "records": "does not draw what its density says of some record",
    "distinct": "sends one report too often",
    "drawn_loss": "draws reports that lose more",
    "windows": "does not treat all records alike",
}
"""What a statistic above its threshold means."""

_METRICS = (
    "claimed",
    "exact",
    "supremum",
    "lower_bound",
    *_RUNGS,
    "defect",
    "variance",
    "records asked",
    "region",
    "impossible",
    "arithmetic",
    "refused",
    "relationship",
    *(f"relationship {p}" for p in REPORTINGS),
)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a mechanism and budget, one column a figure, in the order of :data:`SUBJECTS`."""
    return _central_audit.by_budget(frame, SUBJECTS, _METRICS)


def verdicts(wide: pd.DataFrame) -> list[str]:

    def found(row: Mapping[Any, Any]) -> dict[str, bool]:
        epsilon, claimed = row["epsilon"], row["claimed"]
        return {
            f"claims {claimed:.6g}": claimed > epsilon * (1 + SLACK),
            f"loses {row['supremum']:.6g}": row["supremum"] > claimed * (1 + SLACK),
            f"is seen to lose {row['lower_bound']:.6g} by draws": row["lower_bound"] > claimed,
            **{words: row[metric] > 1 for metric, words in _RUNGS.items()},
            "claims too little for an edge": row["relationship"] > 1 + SLACK,
            f"loses {row['arithmetic']:.6g} in the words that it draws": row["arithmetic"]
            > claimed + ROUNDING,
        }

    return _central_audit.failures(wide, SUBJECTS, found, ABOVE)


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Figures with what they are of, and what is said of a mechanism at all budgets.

    *arithmetic* is exact where the law is a table of whole numbers, *sampler* says whether draws
    follow it, *refused* names budgets that a mechanism does not take. Bounds are rounded down.
    """
    said = {}
    asked = {*frame.epsilon[frame.mechanism.isin(list(SUBJECTS))]}
    for name, part in frame.groupby("mechanism"):
        wide = part.pivot_table(index="epsilon", columns="metric", values="value")
        wide = wide.reindex(columns=list(_METRICS))
        subject = (SUBJECTS | CENTRAL)[str(name)]
        never = {*wide.index[wide.refused == 1]} | (asked - {*wide.index})
        fits = "fits" if wide.fit.notna().any() else ""
        if (wide[["windows", "drawn_loss", "records"]] > 1).any(axis=None):
            fits = "**not for every record**"
        if (wide.fit > 1).any():
            fits = "**another law**"
        often = "as the law" if wide.distinct.notna().any() else ""
        guarantee, law = _central_audit.words(subject) if name in CENTRAL else ("", "")
        said[name] = {
            "kind": "sound" if subject.sound else "published",
            "curator": "yes" if name in CENTRAL else "no",
            "arithmetic": "exact" if (wide.exact == 1).any() else "ideal",
            "sampler": fits,
            "distinct": "**too often**" if (wide.distinct > 1).any() else often,
            "refused": "" if name in CENTRAL else ", ".join(f"{one:g}" for one in sorted(never)),
            "guarantee": guarantee,
            "law": law,
        }
    rounded_down = (1000 * frame.value).floordiv(1) / 1000
    value = frame.value.mask(frame.metric == "lower_bound", rounded_down)
    words = pd.DataFrame([said[one] for one in frame.mechanism], frame.index)
    every = pd.concat([frame.assign(value=value), words], axis=1).dropna(subset="value")
    return ranked(every, [*SUBJECTS, *CENTRAL], ["mechanism", "epsilon"])


def plot(report: Any, _: Any) -> Any:
    """Loss over budget: exact (circles) and what draws show (bars), one panel a budget."""
    wide = table(report.frame)
    wide = wide[~wide.epsilon.isin(ABOVE)]
    epsilons = sorted(wide.epsilon.unique())
    count = len(epsilons)
    figure, axes = panels(count, width=max(2.6, 5.2 / count), height=5.6, columns=count)
    labels = list(dict.fromkeys(wide.mechanism))
    for place, (axis, epsilon) in enumerate(zip(axes, epsilons, strict=True)):
        part = wide[wide.epsilon == epsilon].set_index("mechanism")
        at = np.array([labels.index(label) for label in part.index])
        sound = np.array([SUBJECTS[label].sound for label in part.index])
        shown, loss = part.lower_bound / epsilon, part.supremum / epsilon
        colours = np.where(sound, "#00798c", "#d1495b")
        axis.barh(
            at,
            np.minimum(shown, 2.4),
            color=colours,
            alpha=0.35,
            height=0.7,
            label="shown by draws",
        )
        axis.scatter(
            np.minimum(loss, 2.4), at, c=colours, s=16, zorder=3, label="exact supremum of the law"
        )
        axis.axvline(1.0, color="black", linewidth=0.8)
        for height, value in zip(at, shown, strict=True):
            if value > 2.4:
                axis.text(
                    2.3, height, f"{value:.3g}", ha="right", va="center", fontsize=7
                )  # left of the dot
        axis.set(
            title=f"epsilon {epsilon:g}", xlim=(0, 2.5), xticks=(0, 1, 2), xlabel="loss / budget"
        )
        axis.set_yticks(
            range(len(labels)), labels if place == 0 else [""] * len(labels), fontsize=7
        )
        axis.invert_yaxis()
    over = set(
        wide[
            (wide.supremum > wide.epsilon * (1 + SLACK)) | (wide.lower_bound > wide.epsilon)
        ].mechanism
    )
    kept = {label for label, subject in SUBJECTS.items() if subject.sound}
    figure.suptitle(
        f"{len(over & kept)} of {len(kept)} mechanisms lose more than their budget, "
        f"{len(over - kept)} of {len(SUBJECTS) - len(kept)} published forms do",
        fontsize=10,
    )
    legend_below(figure, axes[0])
    return figure
