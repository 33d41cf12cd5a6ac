"""A picture of a protocol: who asks whom, what leaves a device, and what it costs.

:func:`diagram` draws the rounds of a released result, so a protocol of one's own has a picture
too. The picture is SVG text with a background of its own, for light and dark pages.
"""

import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.rounding import digits_up
from ldp_jax.servers.driver import Released

Number = int | float

WIDTH = 720
_LEFT = 130  # the line of the users
_RIGHT = WIDTH - _LEFT  # the line of the server
_LINE = 17  # between two lines of text
_TEXT = 62  # letters between the two lines of life
_BOX = 30  # letters in a party's box
_WIDE = 92  # letters in a box over the whole width
_TRUSTED = {"local": "nobody", "shuffled": "a shuffler", "central": "a curator"}
_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2937 }
.name { font-weight: 600; font-size: 14px }
.small { font-size: 12px; fill: #4b5563 }
.cost { font-weight: 600; fill: #9f1239 }
.card { fill: #ffffff; stroke: #d1d5db }
.private { fill: #ffe4e6; stroke: #be123c }
.public { fill: #e0f2fe; stroke: #0369a1 }
.life { stroke: #9ca3af; stroke-dasharray: 2 4 }
.asks { stroke: #0369a1; stroke-width: 1.6; stroke-dasharray: 6 4; fill: none }
.sends { stroke: #be123c; stroke-width: 2; fill: none }
"""


class Party(NamedTuple):
    """One side of a protocol.

    Attributes:
      name: the title of its box.
      words: what it holds and whom it trusts, a line each.
    """

    name: str
    words: Sequence[str]


class Message(NamedTuple):
    """An arrow between the two parties.

    Attributes:
      private: whether it comes from the users' devices; else the server sends it, in public.
      words: what it says.
      cost: what it costs a user; empty for a public message.
    """

    private: bool
    words: str
    cost: str = ""


def diagram(released: Released[Any], title: str = "") -> str:
    """The rounds of a protocol as a picture: SVG text.

    It holds what :class:`~ldp_jax.servers.driver.Released` holds of the rounds, and no result.

    Args:
      released: the result of :func:`ldp_jax.servers.simulate`, or of a service.
      title: above the picture; by default the name of the result's class.

    >>> import jax, numpy as np
    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Share, Users, simulate
    >>> users = Users(labels=np.arange(500) % 2)
    >>> found = simulate(
    ...     jax.random.key(0), Share(GeneralizedRR(2.0, 2), 500), users
    ... )
    >>> picture = diagram(found)
    >>> picture[:4], "500 users" in picture, "epsilon 2 per label" in picture
    ('<svg', True, True)
    """
    messages = []
    for number, one in enumerate(released.rounds, 1):
        asks = f"Round {number}, {one.asked:,} users, {_size(one.download)} to each: {one.asks}"
        messages.append(Message(False, asks))
        sends = f"{one.reported:,} reports of {_size(one.upload)}: all that leaves a device"
        messages.append(Message(True, sends, _short(one.cost)))
    guarantee = released.guarantee
    fields = ", ".join(guarantee.protected) or "nothing"
    trusts = sorted({one.trust for one in guarantee.values()})
    trusted = ", ".join(_TRUSTED[one] for one in trusts)
    users = Party("Users' devices", [f"hold {fields}", f"trust {trusted}"])
    server = Party("Server", ["holds public facts", "sees reports alone"])
    result = ["Stated before the first question:", *map(_short, guarantee.values())]
    if guarantee.unprotected:
        result.append(f"NOT protected: {', '.join(guarantee.unprotected)}")
    return draw(title or type(released.value).__name__, users, server, messages, result)


def draw(
    title: str, users: Party, server: Party, messages: Sequence[Message], result: Sequence[str]
) -> str:
    """Two parties, the messages between them from top to bottom, and a box for the result."""
    middle = WIDTH / 2
    parts = [_text(middle, 28, title, "name")]
    words = [_wrapped(party.words, _BOX) for party in (users, server)]
    top = 44
    bottom = top + 30 + _LINE * max(map(len, words))
    width = 2 * _LEFT - 40
    sides = ((_LEFT, users.name, "private"), (_RIGHT, server.name, "public"))
    for (x, name, kind), lines in zip(sides, words, strict=True):
        parts.append(_rect(kind, x - width / 2, top, width, bottom - top, 8))
        parts.append(_text(x, top + 20, name, "name"))
        parts += _column(x, top + 38, lines, "small")

    at = bottom + 12
    for message in messages:
        lines = textwrap.wrap(message.words, _TEXT)
        parts += _column(middle, at + 14, lines, "small")
        at += _LINE * len(lines)
        if message.cost:
            parts.append(_text(middle, at + 14, message.cost, "cost"))
            at += _LINE
        y = at + 10
        kind = "sends" if message.private else "asks"
        start, end = (_LEFT, _RIGHT) if message.private else (_RIGHT, _LEFT)
        barb = end - 8 if message.private else end + 8
        parts.append(f'<line class="{kind}" x1="{start}" x2="{end}" y1="{y}" y2="{y}"/>')
        tip = f"M {barb} {y - 5} L {end} {y} L {barb} {y + 5}"
        parts.append(f'<path class="{kind}" stroke-dasharray="none" d="{tip}"/>')
        at = y + 16

    lives = []
    for x in (_LEFT, _RIGHT):
        lives.append(f'<line class="life" x1="{x}" x2="{x}" y1="{bottom}" y2="{at}"/>')
    lines = _wrapped(result, _WIDE)
    end = at + 16 + _LINE * len(lines)
    parts.append(_rect("card", 20, at, WIDTH - 40, end - at, 6))
    for number, line in enumerate(lines):
        kind = "cost" if line.startswith("epsilon ") else ""
        parts.append(_text(middle, at + 20 + _LINE * number, line, kind))
    height = end + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">'
    )
    card = _rect("card", 1, 1, WIDTH - 2, height - 2, 10)
    return "\n".join([head, f"<style>{_STYLE}</style>", card, *lives, *parts, "</svg>"]) + "\n"


def _wrapped(texts: Sequence[str], letters: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, letters)]


def _rect(kind: str, x: Number, y: Number, width: Number, height: Number, radius: int) -> str:
    size = f'width="{width}" height="{height}" rx="{radius}"'
    return f'<rect class="{kind}" x="{x}" y="{y}" {size}/>'


def _column(x: Number, top: Number, lines: Sequence[str], kind: str) -> list[str]:
    """Lines of text below each other."""
    return [_text(x, top + _LINE * number, line, kind) for number, line in enumerate(lines)]


def _text(x: Number, y: Number, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" text-anchor="middle" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _short(guarantee: Guarantee) -> str:
    delta = f", delta {digits_up(guarantee.delta)}" if guarantee.delta else ""
    return f"epsilon {digits_up(guarantee.epsilon)}{delta} per {guarantee.unit}"


def _size(many: int) -> str:
    """Bytes in words.

    >>> _size(36), _size(40_000), _size(2_500_000)
    ('36 bytes', '40 kB', '2.5 MB')
    """
    for unit, least in (("MB", 10**6), ("kB", 10**3)):
        if many >= least:
            return f"{many / least:.3g} {unit}"
    return f"{many} bytes"
