"""Hyperparameters of PrivGE, chosen by Optuna on validation data; what the choice asks of users is counted.

A report depends on the mechanism alone. What is computed from one is post-processing, so trials that share a
mechanism (the k of HDS) share its reports, and another alpha, r or classifier asks nobody. Reports of another k are
new ones, with noise of their own, and add their epsilon; that k was chosen by looking at earlier reports changes
nothing, because epsilon is the same for all k.
"""

import contextlib
import dataclasses
import importlib.util
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import pandas as pd
from filelock import FileLock, Timeout

from experiments import _common, _runner
from experiments import _report as show
from experiments.privge import accuracy, cells
from experiments.privge import settings as privge
from ldp_jax.accounting.guarantee import RECORD, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger

if TYPE_CHECKING:
    import optuna

NAME = "tune"
REPORTS = "reports"
"""A trial's attribute: the reports that it uses. It is stored before they are asked for: a killed trial counts."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Choose alpha, r and k of a private embedding by HDS, and the classifier on it, by validation (Optuna).

    Trials of one k share its reports: the first asks every user once more, the others cost nothing. Labels, edges
    and the split are public and not protected, in training and in validation alike. Writes tune.db (the study, with
    which a killed run goes on) and tune.csv; the last lines say what was spent and how the best trial does in test.
    """

    datasets: tuple[str] = ("debian",)
    """one name, or path of an .npz file"""
    parts: tuple[privge.Task] = ("node",)
    """node or link"""
    epsilons: tuple[float] = (1.0,)
    """of one report"""
    total: float = 8.0
    """what all reports of a user may cost together; a trial that would ask for more is pruned before it asks"""
    trials: int = 20
    """how many the study has in the end, those of earlier runs too"""
    fresh: bool = False
    """every trial asks new reports, as one would who cannot keep them: epsilons add, trial by trial"""
    epochs: int = 30
    """of each training, at most"""
    seed: int = 0
    """of the split, the noise, the training and the search"""
    out: Path = _runner.DEFAULT_OUT
    """where the study is, and is looked for"""

    @property
    def study(self) -> str:
        """The study's name in its file: what makes trials comparable."""
        fresh = ", fresh reports" if self.fresh else ""
        data = _common.fingerprint(accuracy.load(self.datasets[0]))
        where = f"{self.datasets[0]} {data}, {self.parts[0]}, epsilon {self.epsilons[0]!r}"
        return f"{where}, {self.epochs} epochs, seed {self.seed}{fresh}"


def main(config: Config) -> None:
    _common.check_words(config, positive=("epsilons", "total", "trials", "epochs"))
    if importlib.util.find_spec("optuna") is None:
        raise _runner.UsageError("tune needs optuna: pip install optuna, or the extra tune of this project")
    accuracy.load(config.datasets[0])
    try:
        # The system releases the lock when a run is killed.
        with FileLock(config.out / f"{NAME}.lock", timeout=0), _stored(config.out / f"{NAME}.db") as storage:
            _report(config, _searched(config, storage))
    except Timeout as error:
        raise _runner.UsageError(f"--out {config.out}: another tune is at work there") from error


@contextlib.contextmanager
def _stored(path: Path) -> Iterator["optuna.storages.RDBStorage"]:
    """The file of a study, whose connections are closed in the end."""
    import optuna

    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _searched(config: Config, storage: "optuna.storages.RDBStorage") -> "optuna.Study":
    import optuna
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=storage, study_name=config.study, direction="maximize", load_if_exists=True)
    for killed in study.get_trials(states=(TrialState.RUNNING,)):
        study.tell(killed.number, state=TrialState.FAIL)
    study.sampler = optuna.samplers.TPESampler(seed=config.seed + len(study.trials))
    ended = len(study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED)))
    _runner.console.print(f"{max(config.trials - ended, 0)} of {config.trials} trials to run; study: {storage.url}")
    ledger(config, study.trials)  # what was spent must fit --total
    study.optimize(lambda trial: _score(trial, config, study), n_trials=max(config.trials - ended, 0))
    return study


def _mechanism(config: Config, k: int) -> cells.Mechanism:
    return cells.make_mechanism("hds", config.epsilons[0], accuracy.load(config.datasets[0]).num_features, k)


def ledger(config: Config, trials: Any) -> Ledger:
    """What the trials have asked of every user: reports of one name once, however many trials use them."""
    spent = Ledger(Budget(config.total))
    asked = {trial.user_attrs[REPORTS]: trial.params["k"] for trial in trials if REPORTS in trial.user_attrs}
    try:
        for name, k in asked.items():
            cost = _mechanism(config, k).value.guarantee()
            spent = spent.spend(name, cost, protects=("features",), exposes=("edges", "labels"))
    except BudgetExceededError as error:
        raise _runner.UsageError(f"--total {config.total:g}: the reports of this study cost more") from error
    return spent


def settings(config: Config, trial: "optuna.Trial | optuna.trial.FrozenTrial") -> tuple[privge.Settings, int, str]:
    """Suggested settings, k and preprocessing; the published choice is among them."""
    task, dataset = config.parts[0], config.datasets[0]
    data, todo = accuracy.load(dataset), privge.Plan(config.epsilons, 1, epochs=config.epochs)
    k = trial.suggest_categorical("k", [k for k in privge.KS if k <= data.num_features])
    published = privge.settings(privge.Config(), task, dataset, _common.fingerprint(data), todo)
    asked = {"alpha": trial.suggest_float("alpha", 0.01, 0.9, log=True), "r": trial.suggest_float("r", 0.0, 1.0)}
    if published.head == "mlp":
        asked["hidden"] = trial.suggest_categorical("hidden", [64, 128, 256])
        asked["dropout"] = trial.suggest_categorical("dropout", [0.1, 0.5, 0.7])
    preprocessing = trial.suggest_categorical("preprocessing", list(cells.EMBEDDINGS))
    return dataclasses.replace(published, **asked), int(k), preprocessing


def _score(trial: "optuna.Trial", config: Config, study: "optuna.Study") -> float:
    import optuna

    chosen, k, preprocessing = settings(config, trial)
    name = f"reports of k {k}" + (f", trial {trial.number}" if config.fresh else "")
    known = [one for one in study.trials if REPORTS in one.user_attrs]
    if name not in {one.user_attrs[REPORTS] for one in known}:
        try:
            ledger(config, known).spend(name, _mechanism(config, k).value.guarantee(), protects=("features",))
        except BudgetExceededError as error:
            raise optuna.TrialPruned(str(error)) from error
    trial.set_user_attr(REPORTS, name)
    bench = cells.prepare(chosen, config.seed)
    asked = f"{config.study}: {name}"  # another budget, data set or name: other noise
    key = jax.random.fold_in(bench.noise_key, zlib.crc32(asked.encode()))
    z = cells.embed(dataclasses.replace(bench, noise_key=key), _mechanism(config, k))
    score = cells.train(bench, z, preprocessing)
    trial.set_user_attr("test", *score.values.values())
    return score.validation


def _report(config: Config, study: "optuna.Study") -> None:
    rows, names = [], []
    for place, trial in enumerate(study.trials):
        name = trial.user_attrs.get(REPORTS)
        reports, names = "none" if name is None else "shared" if name in names else "new", [*names, name]
        spent = ledger(config, study.trials[: place + 1]).spent(RECORD).epsilon
        shown = {"state": trial.state.name.lower(), **trial.params, "validation": trial.value}
        rows.append({"trial": trial.number, **shown, "reports": reports, "epsilon_total": spent})
    frame = pd.DataFrame(rows)
    _runner.write_atomically(config.out / f"{NAME}.csv", frame.to_csv(index=False))
    ended = [trial for trial in study.trials if trial.value is not None]
    if not ended:
        raise _runner.UsageError(f"--total {config.total:g}: it allows no report, so no trial has a score")
    best = max(ended, key=lambda trial: trial.value)
    cells_of = [f"{x:.4g}" if isinstance(x, float) else x for x in (*best.params.values(), best.value)]
    _runner.console.print(show.markdown([*best.params, "validation"], [cells_of]), soft_wrap=True)
    _runner.console.print(
        f"best of {len(ended)} trials, by validation: trial {best.number}, in test {best.user_attrs['test']:.4g}\n"
        f"{ledger(config, study.trials).explain()}\n"
        f"Trials that shared reports: {(frame.reports == 'shared').sum()}, free: they are post-processing. Labels, "
        "those of validation too, and edges are public here: nothing protects them. Reports of other studies add.\n"
        f"rows: {config.out / f'{NAME}.csv'}",
        soft_wrap=True, highlight=False, markup=False,
    )  # fmt: skip
