"""Made-up rows, and pages of them."""

from pathlib import Path

import pandas as pd

from experiments import _common, _declared


def page(paper, name, frame, configs=None):
    """A paper's declared page of these rows."""
    file = f"{paper}/report.toml"
    spec = _common.told(file, name)
    return _declared.Report(name, spec, frame, Path(_common.__file__).parent / file, configs)


def made(rows, **columns):
    """A frame of rows that are a method, an epsilon and values in per cent by seed; with further
    columns.
    """
    return pd.DataFrame(
        [
            {
                "dataset": "g",
                "mechanism": name,
                "epsilon": epsilon,
                "seed": seed,
                "value": value / 100,
                **columns,
            }
            for name, epsilon, values in rows
            for seed, value in (values.items() if isinstance(values, dict) else enumerate(values))
        ]
    )


def of_panel(rows, panel="20"):
    """Rows of a panel of 60."""
    return made(rows, panel=panel, members=60, metric="accuracy", strength=float("nan"))
