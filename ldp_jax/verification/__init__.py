"""Whether a guarantee holds, asked of the mechanism itself rather than of its author.

:func:`check` asks all tests that apply, compares with the claim by itself, prints a table (test,
records, views, the smallest leak that would have been found, result) and is true or false:
``bool(check(features.Duchi(1.0), jax.random.key(0)))``.

A verdict is the product of three things:

* **Records.** Half are of the kind that tables hold: multiples of 0.1 and of 1/4, whole numbers,
  the ends, the centre, zeros, one-hot and binary vectors, repeated and missing coordinates, lists
  of every degree; each in every type that holds it. The others are random. ``records=`` adds the
  caller's own.
* **Views.** Every number of a raw report, each leaf and column, sums, differences and products, the
  place at which two records differ, every bit, and the declared loss.
* **Tests.** A game about pairs of records is played in all views: rounds of draws choose suspects,
  and fresh draws bound their probabilities. Beside it the law and the sampler are asked:

  * :func:`privacy_loss_supremum`, :func:`hockey_stick`: the largest loss of the density, or its
    delta, over critical, natural and random records. A spike between the reports that are tried is
    not seen; :func:`reported_losses` finds one of mass 14 / ``trials``.
  * :func:`matches_density`, :func:`matches_everywhere`: reports follow the density, at one record
    by ``trials`` draws and at 128 by as many together.
  * :func:`record_windows`: reports follow their law in each window of records and of places in the
    law, from the whole down to 2^-17, of numbers and of coordinates with laws of their own.
  * :func:`distinct_reports`: no report is sent too often: noise of 19 bits or fewer is refused.
  * :func:`independent_coordinates`: places of two to five coordinates are independent.
  * :func:`arithmetic`, :func:`follows_table`: whole random words give the masses that are claimed.
  * :func:`matches_moments`, :func:`draws_have_moments`, :func:`sums_to_one`: mean, variance, mass.
  * :func:`is_pure`, :func:`is_total`, :func:`uses_the_whole_key`: a report is a function of its key
    and of the record's value, in every form and number of users, and a call does nothing else.
  * :func:`relationship_supremum`, and whole graphs of every shape: what an edge costs.
  * :func:`private_edge_supremum`, :func:`matches_release`, :func:`private_edge_lower_bound`: the
    same of a curator's release, on all graphs of four or five nodes.

**What a verdict cannot show.** Each test states the smallest leak that it would have found, and all
that is smaller is not shown: at 200 000 trials and epsilon 1 a report of mass 0.001 that its record
alone gives, if any pair of records shows it, or one of mass 0.4 if one pair of 512 does. Both
masses fall as 1 / ``trials``, and grow as e^epsilon. An honest sampler is refused once in a million
times (``significance``).

No test proves anything about a sampler that means to deceive: one that leaks with probability
1e-12, for one record of 2^24, or after a million reports, passes all of them. Only reading the
sampler proves it: a table of whole numbers (:class:`~ldp_jax.features.Discrete`), whose sampler is
a search of thresholds, leaves least to read.
"""

from ldp_jax.core.spaces import NotApplicable
from ldp_jax.curators.release_laws import HasReleaseLaw
from ldp_jax.verification.arithmetic import FloatAudit, arithmetic, float_audit, follows_table
from ldp_jax.verification.empirical import (
    distinct_reports,
    independent_coordinates,
    matches_density,
    matches_everywhere,
    record_windows,
    reported_losses,
)
from ldp_jax.verification.exact import (
    HasInverse,
    HasTable,
    HasWordRuns,
    HasWords,
    draws_have_moments,
    hockey_stick,
    matches_moments,
    privacy_loss_supremum,
    sums_to_one,
)
from ldp_jax.verification.game import epsilon_lower_bound, largest_lower_bound
from ldp_jax.verification.graphs import (
    matches_release,
    private_edge_lower_bound,
    private_edge_supremum,
    relationship_supremum,
)
from ldp_jax.verification.purity import is_pure, is_total, uses_the_whole_key
from ldp_jax.verification.statistics import Fit
from ldp_jax.verification.verdict import Verdict, check

__all__ = [
    "Fit",
    "FloatAudit",
    "HasInverse",
    "HasReleaseLaw",
    "HasTable",
    "HasWordRuns",
    "HasWords",
    "NotApplicable",
    "Verdict",
    "arithmetic",
    "check",
    "distinct_reports",
    "draws_have_moments",
    "epsilon_lower_bound",
    "float_audit",
    "follows_table",
    "hockey_stick",
    "independent_coordinates",
    "is_pure",
    "is_total",
    "largest_lower_bound",
    "matches_density",
    "matches_everywhere",
    "matches_moments",
    "matches_release",
    "privacy_loss_supremum",
    "private_edge_lower_bound",
    "private_edge_supremum",
    "record_windows",
    "relationship_supremum",
    "reported_losses",
    "sums_to_one",
    "uses_the_whole_key",
]

__dir__ = lambda: __all__
