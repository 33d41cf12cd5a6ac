"""``python -m experiments``: one sub-command an experiment."""

from typing import Annotated

import tyro

from experiments import privge


def main() -> None:
    """Parse the command line and run one experiment."""
    commands = {
        "privge": (privge.Config, privge.main),
    }
    parsed = tyro.extras.subcommand_cli_from_dict({name: _command(c, f) for name, (c, f) in commands.items()})
    return parsed


def _command(config_type: type, function):
    def command(config) -> None:
        function(config)

    command.__annotations__["config"] = Annotated[config_type, tyro.conf.arg(name="")]
    command.__doc__ = config_type.__doc__
    return command


if __name__ == "__main__":
    main()
