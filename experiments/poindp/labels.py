"""What the rows of PoinDP are called and coloured in tables and figures."""

from experiments._common import row_names
from experiments.poindp.settings import FEATURES, PRINTED, PUBLIC, PUBLISHED, STRUCTURE

_NETWORKS, _ = row_names("poindp")

COLOURS = {
    f"{PUBLISHED}poindp": "#d1495b",
    f"{PRINTED}poindp": "#e8a0a9",
    f"{PUBLISHED}vanpd": "#7a7a7a",
    f"{PUBLISHED}lap": "#00798c",
    f"{PUBLISHED}rddp": "#edae49",
    f"{PUBLISHED}atdp": "#8d6b94",
    "radial": "#4f9d69",
    f"{STRUCTURE}radial": "#a9cdb5",
}


def label(name: str) -> str:
    """A row's name in words."""
    if name == PUBLIC:
        return "graph and labels alone"
    for prefix, words in ((STRUCTURE, "structure-only "), (FEATURES, "features-only ")):
        if name.startswith(prefix):
            return words + label(name.removeprefix(prefix))
    if name.startswith(PRINTED):
        return f"{label(name.removeprefix(PRINTED))}, eq. 12"
    name = name.removeprefix(PUBLISHED)
    first, _, rest = name.partition(" ")
    return f"{_NETWORKS.get(first, first)} {rest}".strip()


LABELS = {name: label(name) for name in COLOURS}
