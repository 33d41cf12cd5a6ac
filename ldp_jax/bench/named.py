"""Anybody's own method by its name: ``module:Name``, or a call of it with literals."""

import ast
import dataclasses
import hashlib
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["Named", "named"]

__dir__ = lambda: __all__


@dataclasses.dataclass(frozen=True)
class Named:
    """The object that a word names.

    Attributes:
      word: as it was given.
      make: called with an epsilon, or with nothing where the word says all that its call needs.
      complete: whether the word says all, its epsilon included.
    """

    word: str
    make: Callable[..., Any]
    complete: bool

    @property
    def digest(self) -> str:
        """Ten digits of the file that the word's module is; empty where it is none."""
        module = importlib.import_module(self.word.partition(":")[0])
        path = Path(getattr(module, "__file__", None) or "")
        return hashlib.sha256(path.read_bytes()).hexdigest()[:10] if path.is_file() else ""


def named(word: str) -> Named:
    """Read ``module:Name``, ``module:Name(n=6)`` or ``module:Name(1.0, n=6)``.

    Literals are read, no code. A call that lacks an argument takes the epsilon first.
    ``ValueError`` for other words, and for a module or name that is not there.

    >>> named("ldp_jax.features:Duchi").make(1.0).guarantee().epsilon
    1.0
    """
    module, _, rest = word.partition(":")
    try:
        tree = ast.parse(rest, mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        name = ast.unparse(call.func if call else tree)
        if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
            raise SyntaxError(word)
        arguments = [ast.literal_eval(one) for one in call.args] if call else []
        options = (
            {str(one.arg): ast.literal_eval(one.value) for one in call.keywords} if call else {}
        )
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"must be module:Name, module:Name(n=6) or module:Name(1.0, n=6), got {word!r}"
        ) from error
    try:
        maker: Any = importlib.import_module(module)
        for part in name.split("."):
            maker = getattr(maker, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{word}: {error}") from error
    complete = bool(arguments)
    if call is not None and not arguments:
        try:
            inspect.signature(maker).bind(**options)
            complete = True
        except TypeError:  # the call lacks an argument
            complete = False
    return Named(word, partial(maker, *arguments, **options), complete)
