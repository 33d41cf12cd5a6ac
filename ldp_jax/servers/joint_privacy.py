"""The cost of records, lists and labels where all of them are private."""

import dataclasses
from fractions import Fraction

from ldp_jax.core import validate
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.whole_noise import MIN_EPSILON
from ldp_jax.servers.parts.panel import MOST_EPSILON


@dataclasses.dataclass(frozen=True)
class JointPrivacy:
    """The cost of each report; 0 where it is not asked for.

    ``JointPrivacy(both=4.0)`` asks for one class of the record and the whole list, and for nothing
    else.

    Attributes:
      record: epsilon of a private user's record, in [0, 20].
      list: epsilon of a bit of a list, 0 or in [0.001, 20].
      labels: epsilon of a label of the panel, in (0, 20]; None where labels are public.
      check: share of the panel that reports as private users do, in [0, 0.5]
        (:func:`~ldp_jax.servers.from_both.checked_members`). It teaches nothing else; where labels
        are private it is 0. Fewer
        than some 25 users cost more than they mend.
      both: epsilon of one report of the record and the whole list together, in [0, 20]; labels are
        then public.
      rehearsed: whether stated facts of friendships chose this split; :func:`ldp_jax.rehearse` sets
        it. The guarantee then names these facts as public, because no budget pays for them.

    ``ValueError`` for a number out of its range, or where nothing is asked for.
    """

    record: float = 0.0
    list: float = 0.0
    labels: float | None = None
    check: float = 0.0
    both: float = 0.0
    rehearsed: bool = dataclasses.field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("record", "list", "both", "check"):
            most = 0.5 if name == "check" else MOST_EPSILON
            made = validate.number(0.0, most, **{name: getattr(self, name)})
            object.__setattr__(self, name, made)
        private = self.labels is not None
        if private:
            validate.number(0.0, MOST_EPSILON, open_lower=True, labels=self.labels)
        rule = f"list must be 0 or at least {MIN_EPSILON:g}"
        validate.require(not 0.0 < self.list < MIN_EPSILON, rule, self.list)
        rule = "check must be 0 where labels are private: it is true labels that bear reports out"
        validate.require(not (self.check and private), rule)
        rule = "record and list must be 0, and labels None, beside both: that is the one report"
        validate.require(not (self.both and (self.record or self.list or private)), rule)
        asked = self.record or self.list or self.both
        validate.require(asked, "record, list or both must be above 0, or nothing is asked for")

    @classmethod
    def split(cls, total: float, share: float, labels: float | None = None) -> "JointPrivacy":
        """``share`` of a total for the record, in [0, 1], and the rest for a bit of the list.

        Together no more.

        >>> JointPrivacy.split(4.0, 0.75)
        JointPrivacy(record=3.0, list=1.0, labels=None, check=0.0, both=0.0)
        """
        validate.number(0.0, MOST_EPSILON, open_lower=True, total=total)
        validate.number(0.0, 1.0, share=share)
        record = min(total, total * share)
        return cls(record, rounded_down(Fraction(total) - Fraction(record)), labels)
