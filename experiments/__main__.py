"""``python -m experiments``: one sub-command an experiment."""

import sys
from typing import Annotated

import tyro

from experiments import audit, benchmarks, demo, dprr, privge, repeat, report, variance
from experiments._runner import UsageError, check_out

_Command = (
    Annotated[demo.Config, tyro.conf.subcommand("demo")]
    | Annotated[privge.Config, tyro.conf.subcommand("privge")]
    | Annotated[dprr.Config, tyro.conf.subcommand("dprr")]
    | Annotated[audit.Config, tyro.conf.subcommand("audit")]
    | Annotated[variance.Config, tyro.conf.subcommand("variance")]
    | Annotated[report.Config, tyro.conf.subcommand("report")]
    | Annotated[repeat.Config, tyro.conf.subcommand("repeat")]
    | Annotated[benchmarks.Config, tyro.conf.subcommand("benchmarks")]
)


def main() -> None:
    """Parse the command line and run one experiment; a wrong option is one line and exit code 2."""
    config = tyro.cli(_Command, prog="python -m experiments", description=__doc__)
    try:
        check_out(config.out)  # before minutes of computing, not after them
        run(config)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def run(config: _Command) -> None:
    """Run the experiment that a configuration is for."""
    match config:
        case demo.Config():
            demo.main(config)
        case privge.Config():
            privge.main(config)
        case dprr.Config():
            dprr.main(config)
        case audit.Config():
            audit.main(config)
        case variance.Config():
            variance.main(config)
        case report.Config():
            report.main(config)
        case repeat.Config():
            repeat.main(config)
        case benchmarks.Config():
            benchmarks.main(config)


if __name__ == "__main__":
    main()
