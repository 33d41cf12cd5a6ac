"""Compiled programs: kept on disk for later processes, and forgotten before they are too many."""

import gc
import os
from pathlib import Path

import jax

_MAPPED = Path("/proc/self/maps")
_MOST = Path("/proc/sys/vm/max_map_count")


def compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Turn JAX's persistent compilation cache on for the whole process.

    It is called before the first program is compiled. The folder is by default where JAX keeps
    programs already (``JAX_COMPILATION_CACHE_DIR``), else ``ldp_jax`` in the user's cache folder
    (``XDG_CACHE_HOME`` or ``~/.cache``). ``JAX_ENABLE_COMPILATION_CACHE=0`` turns it off.

    >>> import tempfile
    >>> before = jax.config.jax_compilation_cache_dir
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     compilation_cache(folder) == compilation_cache() == Path(folder)
    True
    >>> jax.config.update("jax_compilation_cache_dir", before)
    """
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(folder or jax.config.values["jax_compilation_cache_dir"] or Path(user, "ldp_jax"))
    options = {
        "jax_compilation_cache_dir": str(path),
        # The caches of a GPU would name each program by a path.
        "jax_persistent_cache_enable_xla_caches": "none",
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for option, value in options.items():
        jax.config.update(option, value)
    return path


def leave_room_for_programs() -> None:
    """Forget all compiled programs once this process has half of the mappings that Linux allows.

    A training that XLA compiles for the CPU takes about 1 000 mappings, and a process that has
    ``vm.max_map_count`` of them, by default 65 530, is aborted as it compiles. Long runs over
    several data sets call this between two jobs: programs for new shapes come, and old ones stay.
    What is forgotten is compiled again, or read where :func:`compilation_cache` keeps it. Only
    Linux counts mappings; elsewhere nothing is done.

    >>> leave_room_for_programs()
    """
    if not _MOST.exists():
        return
    if _MAPPED.read_bytes().count(b"\n") > int(_MOST.read_text()) / 2:
        jax.clear_caches()
        gc.collect()
