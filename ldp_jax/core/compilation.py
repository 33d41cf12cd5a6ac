"""Compiled programs kept on disk, so that a later process reads what an earlier one compiled."""

import os
from pathlib import Path

import jax


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
