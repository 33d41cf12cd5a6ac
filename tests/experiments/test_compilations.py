"""Further seeds, budgets and mechanisms on the same data run the programs that are there."""

import dataclasses
from pathlib import Path

import pytest

from experiments import dprr, frontier, heterorr, poindp, privge
from experiments.dprr import cells
from tests.experiments import contract
from tests.servers.planted import compiled

NOISE = 2
"""Programs that draw numbers for a capacity of places, which a further graph may exceed."""


def runs(graph_file):
    """A configuration of each experiment, and what it is asked for besides a second seed."""
    of_file = {"datasets": (str(graph_file),), "epsilons": (1.0,), "seeds": 1}
    alone = {"epsilons": (1.0,), "seeds": 1, "preset": "smoke"}
    return {
        "privge": (
            privge,
            privge.Config(**of_file, mechanisms=("laplace",), preset="smoke"),
            {"epsilons": (1.0, 2.0)},
        ),
        "dprr": (
            dprr,
            dprr.Config(
                datasets=("communities",),
                classifiers=("gin",),
                mechanisms=("dprr",),
                epsilons=(1.0,),
                public_shares=(0.0,),
                seeds=1,
                preset="smoke",
            ),
            {"epsilons": (1.0, 2.0)},
        ),
        "heterorr": (
            heterorr,
            heterorr.Config(
                **of_file,
                parts=("features", "edges", "attacks"),
                mechanisms=("featurerr", "binned-pairs"),
                private_shares=(0.2,),
                attacked_nodes=60,
                preset="smoke",
            ),
            {"epsilons": (1.0, 2.0)},
        ),
        "inversion": (heterorr, heterorr.Config(**alone, parts=("inversion",)), {}),
        "poindp": (
            poindp,
            poindp.Config(
                **of_file,
                parts=("table1", "membership"),
                mechanisms=("=gcn", "=structure-only:stack", "hyperbolic"),
                splits=("random",),
                targets=3,
                protocols=("TSTF",),
                preset="smoke",
            ),
            {"epsilons": (1.0, 2.0)},
        ),
        "frontier": (
            frontier,
            frontier.Config(**of_file, mechanisms=("piloted",), labels=("20",), units=("list",)),
            {"epsilons": (1.0, 2.0)},
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "privge",
        "dprr",
        "heterorr",
        pytest.param("inversion", marks=pytest.mark.slow),
        "poindp",
        "frontier",
    ],
)
def test_a_second_and_third_seed_compile_nothing(name, graph_file, tmp_path, monkeypatch):
    """Nor does another budget; where the noise follows the graph, no training does."""
    monkeypatch.setattr(cells, "COMMUNITY_GRAPHS", 60)
    cells.load.cache_clear()
    module, config, more = runs(Path(graph_file))[name]
    config = dataclasses.replace(config, out=tmp_path)
    counts = [
        compiled(lambda seeds=seeds: contract.run(module, dataclasses.replace(config, seeds=seeds)))
        for seeds in (1, 2, 3)
    ]
    counts.append(compiled(lambda: contract.run(module, dataclasses.replace(config, **more))))
    most = NOISE if name in ("dprr", "heterorr") else 0
    assert counts[0] > 5  # what is counted is there
    assert max(counts[1:]) <= most
    cells.load.cache_clear()
