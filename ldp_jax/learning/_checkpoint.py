"""Checkpoints of one training in a folder, by orbax: the last two epochs, each written whole or not at all."""

from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.learning.training import Run


def import_orbax() -> ModuleType:
    """The library; ``ImportError`` with what to install."""
    try:
        import orbax.checkpoint as orbax
    except ImportError as error:
        raise ImportError(
            "checkpoints need orbax-checkpoint: pip install 'ldp_jax[experiments]', or leave checkpoint out"
        ) from error
    return orbax


class Store:
    """The checkpoints of one run; ``made_by`` are the arguments that it was started with."""

    def __init__(self, folder: Path, made_by: dict):
        orbax = import_orbax()
        self._args = orbax.args
        self._folder = folder
        self._made_by = made_by
        options = orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False, create=True)
        self._manager = orbax.CheckpointManager(folder.absolute(), options=options)

    def load(self, run: Run) -> Run:
        """The last epoch on disk, or ``run`` where there is none."""
        latest = self._manager.latest_step()
        if latest is None:
            return run
        args = self._args
        found = self._manager.restore(latest, args=args.Composite(settings=args.JsonRestore()))["settings"]
        other = [name for name in self._made_by if found.get(name) != self._made_by[name]]
        if other:
            raise ValueError(
                f"checkpoint {self._folder} is of a run with other settings: {', '.join(other)}; give this run a "
                "folder of its own"
            )
        leaves, structure = jax.tree.flatten(run)
        wanted = args.StandardRestore({str(i): leaf for i, leaf in enumerate(leaves)})
        stored = self._manager.restore(latest, args=args.Composite(run=wanted))["run"]
        # As new arrays: what orbax restores is pinned to its device, and would be another program's argument.
        fresh = [jnp.asarray(np.asarray(stored[str(i)])) for i in range(len(leaves))]
        return jax.tree.unflatten(structure, fresh)

    def save(self, run: Run) -> None:
        """Write a run after its last epoch."""
        args = self._args
        # A flat dictionary: orbax need not know the optimizer's types.
        leaves = {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(run))}
        items = args.Composite(run=args.StandardSave(leaves), settings=args.JsonSave(self._made_by))
        self._manager.save(int(run.number) - 1, args=items)

    def close(self) -> None:
        """Let go of the folder."""
        self._manager.close()
