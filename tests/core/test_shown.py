"""What is held is not shown: private arguments, long texts and fields that say so."""

import dataclasses
from typing import Any

import numpy as np

from ldp_jax.core.shown import Hidden, HiddenArgument, by_shapes, shown


class Holder:
    """One that has private arguments."""

    records: Any = HiddenArgument()
    key: Any = HiddenArgument()


@dataclasses.dataclass(repr=False)
class Row:
    """One of private and public fields."""

    name: str
    values: Any
    secret: Any = dataclasses.field(default=1234, repr=False)

    __repr__ = by_shapes


def test_hidden_arguments_are_read_as_given_and_in_no_text():
    for value in ([1234], 1234, "1234", np.full(3, 1234)):
        held = Holder()
        assert not hasattr(held, "records")
        held.records = value
        assert held.records is value
        assert "1234" not in str(vars(held))
        held.records = vars(held)["records"]  # as a copy of all arguments sets it
        assert held.records is value
        assert not isinstance(value, Hidden)
    held.key = None
    assert vars(held)["key"] is None
    assert isinstance(Holder.records, HiddenArgument)


def test_fields_are_shown_by_shape_and_texts_up_to_a_length():
    assert str(Row("ana", np.zeros((2, 3), np.int8))) == "Row(name='ana', values=int8[2, 3])"
    for length in (197, 198, 199, 500):
        text = shown("a" * length)
        whole = repr("a" * length)
        assert text == (whole if length <= 198 else whole[:197] + "...")
