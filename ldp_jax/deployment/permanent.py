"""Permanent answers of a device: one report for good, which a session's memory keeps.

A device that is asked for the same datum in every round, and answers with fresh noise, spends epsilon in each; the
mean of its answers is its datum in the end. A permanent answer is drawn once, in :data:`FIRST`, from what the datum
is then, and is sent in every later round under that round's number: epsilon once, whatever becomes of the datum,
which no later report shows. (To draw anew where the datum has changed would show that it has.)

The output of a table on an alphabet is a place in it: whoever asks keeps the alphabet of the first round too, since
another one of that size has the same table.

What is kept is the output alone, in the memory that :meth:`~ldp_jax.deployment.device.Session.to_bytes` stores; a
device that loses it must not begin another session.
"""

import contextlib
from typing import SupportsIndex

from ldp_jax.core.integer_tables import Table
from ldp_jax.deployment import wire
from ldp_jax.deployment.device import Number, ReplayError, Session

__all__ = ["FIRST", "report_permanently"]


def __dir__() -> list[str]:
    return __all__


FIRST = 0
"""The round under whose words a permanent answer is drawn, whichever round asks first."""


def report_permanently(
    session: Session,
    table: Table,
    x: Number,
    *,
    user: SupportsIndex,
    round: SupportsIndex,
    field: SupportsIndex = 0,
) -> bytes:
    """The report of a datum, the same output in every round; only the first one costs anything.

    Args:
      session: the device's, which keeps its budget and the answer.
      table: the mechanism; another table is another datum, and another cost.
      x: the datum, which is looked at once.
      user: who.
      round: when; the number that the report carries.
      field: which datum of the user's.

    Returns:
      36 bytes.

    Raises:
      ValueError: as :meth:`Session.report <ldp_jax.deployment.device.Session.report>`.
      TypeError: if x is no real number, where it is looked at.
      BudgetError: if the first answer does not fit the budget; later ones always do.

    >>> from ldp_jax.deployment import Device, alphabet_table, decode
    >>> table, session = alphabet_table(1.0, 3, 3), Session(Device.new(), budget=1.0)
    >>> sent = [report_permanently(session, table, x, user=7, round=t) for t, x in enumerate((2, 2, 0, 1))]
    >>> len({decode(one, table).output.tolist()[0] for one in sent}), session.counter
    (1, 1)
    """
    label = wire.checked_round(round)  # before anything is spent
    with contextlib.suppress(ReplayError):  # it was drawn before
        session.report(table, x, user=user, round=FIRST, field=field)
    return session.resend(table, user=user, round=FIRST, field=field, as_round=label)
