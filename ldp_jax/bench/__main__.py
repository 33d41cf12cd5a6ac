"""``python -m ldp_jax.bench``: the table from a shell."""

import argparse
import sys

from ldp_jax.bench.comparison import compare
from ldp_jax.bench.draws import HIDES


def main(words: list[str]) -> int:
    """Compare, print, and say where the page is; 1 where a verdict is not that the claim holds."""
    parser = argparse.ArgumentParser(
        "python -m ldp_jax.bench", description=(compare.__doc__ or "").split("\n")[0]
    )
    parser.add_argument("method", help="module:Name, or a call with literals, module:Name(steps=5)")
    parser.add_argument("--on", default="debian", help="a data set by name, or a path")
    parser.add_argument("--hides", choices=HIDES, default="features", help="what is private")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=3, help="how many draws")
    parser.add_argument("--panel", type=float, default=0.1, help="share of labels that are public")
    parser.add_argument(
        "--against", nargs="*", default="all", help="names of methods, or module:Name"
    )
    parser.add_argument(
        "--model", help="your own model of nodes, module:Name, of a mechanism's rows"
    )
    parser.add_argument("--no-verify", dest="verify", action="store_false", help="no verdict")
    parser.add_argument("--out", default="bench", help="folder of rows, picture and page")
    given = vars(parser.parse_args(words))
    sys.path.insert(0, "")  # a module beside the shell's folder, as python -m has it
    try:
        found = compare(given.pop("method"), given.pop("on"), **given)
    except (TypeError, ValueError, OSError, ImportError) as error:
        parser.error(str(error))
    print(found)  # noqa: T201
    print(f"\npage: {given['out']}/bench.html")  # noqa: T201
    return 0 if all(found.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
