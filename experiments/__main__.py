"""``python -m experiments``: one sub-command an experiment."""

from typing import Annotated

import tyro

from experiments import audit, benchmarks, demo, dprr, privge, report, variance

_Command = (
    Annotated[demo.Config, tyro.conf.subcommand("demo")]
    | Annotated[privge.Config, tyro.conf.subcommand("privge")]
    | Annotated[dprr.Config, tyro.conf.subcommand("dprr")]
    | Annotated[audit.Config, tyro.conf.subcommand("audit")]
    | Annotated[variance.Config, tyro.conf.subcommand("variance")]
    | Annotated[report.Config, tyro.conf.subcommand("report")]
    | Annotated[benchmarks.Config, tyro.conf.subcommand("benchmarks")]
)


def main() -> None:
    """Parse the command line and run one experiment."""
    config = tyro.cli(_Command, prog="python -m experiments", description=__doc__)
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
        case benchmarks.Config():
            benchmarks.main(config)


if __name__ == "__main__":
    main()
