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
    users = Party("Users' devices", [f"hold {fields}", f"trust {', '.join(map(_trusted, trusts))}"])
    server = Party("Server", ["holds public facts", "sees reports alone"])
    result = ["Stated before the first question:", *map(_short, guarantee.values())]
    if guarantee.unprotected:
        result.append(f"NOT protected: {', '.join(guarantee.unprotected)}")
    return draw(title or type(released.value).__name__, users, server, messages, result)


def draw(
    title: str, users: Party, server: Party, messages: Sequence[Message], result: Sequence[str]
) -> str:
    """Two parties, the messages between them from top to bottom, and a box for the result."""
    parts = [_text(WIDTH / 2, 28, title, "name")]
    users, server = (_wrapped(party) for party in (users, server))
    top = 44
    bottom = top + 30 + _LINE * max(len(users.words), len(server.words))
    parts += _box(_LEFT, top, bottom, users, "private")
    parts += _box(_RIGHT, top, bottom, server, "public")
    at = bottom + 12
    for message in messages:
        drawn, at = _arrow(message, at)
        parts += drawn
    lives = [
        f'<line class="life" x1="{x}" x2="{x}" y1="{bottom}" y2="{at}"/>' for x in (_LEFT, _RIGHT)
    ]
    lines = [line for text in result for line in textwrap.wrap(text, _WIDE)]
    kinds = ["cost" if line.startswith("epsilon ") else "" for line in lines]
    end = at + 16 + _LINE * len(lines)
    parts.append(
        f'<rect class="card" x="20" y="{at}" width="{WIDTH - 40}" height="{end - at}" rx="6"/>'
    )
    for number, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
        parts.append(_text(WIDTH / 2, at + 20 + _LINE * number, line, kind))
    height = end + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">'
    )
    card = f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", card, *lives, *parts, "</svg>"]) + "\n"


def _arrow(message: Message, top: Number) -> tuple[list[str], Number]:
    """The text and the line of a message that begins at ``top``, and where it ends."""
    lines = textwrap.wrap(message.words, _TEXT)
    kinds = [""] * len(lines)
    if message.cost:
        lines.append(message.cost)
        kinds.append("cost")
    middle = WIDTH / 2
    parts = []
    for number, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
        parts.append(_text(middle, top + 14 + _LINE * number, line, kind or "small"))
    y = top + 10 + _LINE * len(lines)
    start, end, kind = (_LEFT, _RIGHT, "sends") if message.private else (_RIGHT, _LEFT, "asks")
    back = -8 if end > start else 8
    parts.append(f'<line class="{kind}" x1="{start}" x2="{end}" y1="{y}" y2="{y}"/>')
    tip = f"M {end + back} {y - 5} L {end} {y} L {end + back} {y + 5}"
    parts.append(f'<path class="{kind}" stroke-dasharray="none" d="{tip}"/>')
    return parts, y + 16


def _wrapped(party: Party) -> Party:
    """The same party in lines that its box holds."""
    words = [line for text in party.words for line in textwrap.wrap(text, _BOX)]
    return Party(party.name, words)


def _box(x: Number, top: Number, bottom: Number, party: Party, kind: str) -> list[str]:
    width = 2 * _LEFT - 40
    rect = (
        f'<rect class="{kind}" x="{x - width / 2}" y="{top}" width="{width}" '
        f'height="{bottom - top}" rx="8"/>'
    )
    words = [
        _text(x, top + 38 + _LINE * number, line, "small")
        for number, line in enumerate(party.words)
    ]
    return [rect, _text(x, top + 20, party.name, "name"), *words]


def _text(x: Number, y: Number, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" text-anchor="middle" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _short(guarantee: Guarantee) -> str:
    delta = f", delta {guarantee.delta:.2g}" if guarantee.delta else ""
    return f"epsilon {digits_up(guarantee.epsilon)}{delta} per {guarantee.unit}"


def _trusted(trust: str) -> str:
    return {"local": "nobody", "shuffled": "a shuffler", "central": "a curator"}[trust]


def _size(many: int) -> str:
    """Bytes in words.

    >>> _size(36), _size(40_000), _size(2_500_000)
    ('36 bytes', '40 kB', '2.5 MB')
    """
    for unit, least in (("MB", 10**6), ("kB", 10**3)):
        if many >= least:
            return f"{many / least:.3g} {unit}"
    return f"{many} bytes"
