"""Docstrings as Markdown.

Roles become links, formulas mathematics, literal blocks and doctests code.
"""

import logging
import re
import textwrap
from typing import Any

import griffe

_LOG = logging.getLogger("mkdocs.plugins.docstrings")  # a warning there stops a strict build
_ROLE = re.compile(r":([a-z]+):`([^`]+?)(?:\s+<([^`>]+)>)?`")
_ROLES = ("func", "mod", "class", "attr", "meth", "data")
_DOCTEST = re.compile(r"^( *)>>> .*\n?(?:\1\S.*\n?|\1 +\S.*\n?)*", re.MULTILINE)
_LITERAL = re.compile(r"^( *)(.*?)::\n\n((?:\1 +.*\n?|\n(?=\n*\1 +))+)", re.MULTILINE)
_BLOCK = re.compile(r"^\.\. math:: (.*(?:\n +.*)*)", re.MULTILINE)
_TABLE = re.compile(r"^(=+(?: +=+)+)\n(.*?)^\1\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(
    r"(?<=\S)\n( *)(?=(?:Guarantee|Utility|Numerics|Reference): )"
)  # a paragraph of its own
_OPTION = re.compile(r" *# doctest:.*")
_MAKERS = (
    "ldp_jax.core.mechanism.mechanism",
    "ldp_jax.core.pytree.mechanism",
    "ldp_jax.core.pytree.pytree",
)
_DATACLASS = griffe.Decorator(griffe.ExprName("dataclasses.dataclass"), lineno=None, endlineno=None)


class Markdown(griffe.Extension):
    """Rewrites every docstring of a package once it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """All modules, classes, functions and attributes of it."""
        self._rewrite(pkg)

    def _rewrite(self, found: griffe.Object) -> None:
        if found.docstring:
            found.docstring.value = markdown(found.docstring.value, found)
        if isinstance(found, griffe.Class) and any(
            one.callable_path in _MAKERS for one in found.decorators
        ):
            found.decorators.append(_DATACLASS)
            for field in found.attributes.values():
                field.value = _default(field.value)
        for member in found.members.values():
            if not member.is_alias:
                self._rewrite(member)


def _default(value: Any) -> Any:
    """What a field is without an argument: of ``static(default=...)``, that."""
    if isinstance(value, griffe.ExprCall) and str(value.function) == "static":
        return next(
            (given.value for given in value.arguments if getattr(given, "name", "") == "default"),
            None,
        )
    return value


def markdown(text: str, scope: griffe.Object) -> str:
    """A docstring in Markdown; ``scope`` is whose it is, where names are looked up."""
    text = _TABLE.sub(_table, text)
    text = _SECTION.sub(r"\n\n\1", text)
    text = _BLOCK.sub(lambda m: rf"\[{' '.join(m[1].split())}\]", text)
    text = _LITERAL.sub(lambda m: _fenced(m[1], m[3], "text", m[2] and f"{m[1]}{m[2]}:\n\n"), text)
    text = _DOCTEST.sub(lambda m: _fenced(m[1], _OPTION.sub("", m[0]), "pycon"), text)
    return _ROLE.sub(lambda m: _role(m[1], m[2], m[3], scope), text)


def _table(match: re.Match[str]) -> str:
    """A simple table; a line whose first cell is empty goes on with the row above."""
    starts = [column.start() for column in re.finditer("=+", match[1])]
    rows: list[list[str]] = []
    for line in (match[2] + match[3]).splitlines():
        cells = [line[at:end].strip() for at, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(both).strip() for both in zip(rows[-1], cells, strict=True)]
    rows.insert(1, ["---"] * len(starts))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fenced(indent: str, block: str, language: str, before: str = "") -> str:
    code = textwrap.dedent(block).strip("\n")
    return before + textwrap.indent(f"```{language}\n{code}\n```\n", indent)


def _role(role: str, text: str, target: str | None, scope: griffe.Object) -> str:
    if role == "math":
        return rf"\({' '.join(text.split())}\)"
    if role not in _ROLES:
        _LOG.warning("%s: no role is called %s", scope.path, role)
    name = (target or text).removeprefix("~")
    path = _path(name, scope)
    if path is None:
        _LOG.warning("%s: no object is called %s", scope.path, name)
    shown = (
        text
        if target
        else f"<code>{name.rpartition('.')[2] if text.startswith('~') else name}</code>"
    )
    return f'<autoref optional identifier="{path}">{shown}</autoref>'


def _path(name: str, scope: griffe.Object) -> str | None:
    """Where the object stands that a docstring calls by this name."""
    first, dot, rest = name.partition(".")
    owner = scope if scope.is_class else scope.parent
    if owner is not None and owner.is_class and name in owner.all_members:  # its own, or inherited
        return owner.all_members[name].canonical_path
    try:
        path = f"ldp_jax.{rest}" if first == "ldp_jax" else f"{scope.resolve(first)}{dot}{rest}"
        return scope.package[path.removeprefix("ldp_jax.")].canonical_path
    except (griffe.NameResolutionError, griffe.AliasResolutionError, KeyError):
        return None
