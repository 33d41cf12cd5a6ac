"""Whether a guarantee holds, asked of the mechanism itself rather than of its author.

Tests take a mechanism with one budget, a typed threefry key, how many draws (``trials``) and how
often an honest sampler may be rejected (``significance``); the record is by default one off the
centre. The list says what each test finds: a defect of the given size is missed with probability
1e-6 at the default number of draws, and an honest sampler is rejected as rarely. Each leak has a
twin in the tests; those of ``reported_losses``, ``record_windows``, ``matches_reference``,
``distinct_reports`` leak no more than the list says.

* :func:`privacy_loss_supremum` finds 1e-9 of epsilon, in the *density*. It cannot see: a spike
  between the points tried; what the sampler does.
* :func:`reported_losses` finds a spike of mass 1.4e-5 that density and sampler share. It cannot
  see: rarer; a leak that the density does not tell.
* :func:`matches_density` finds total variation 0.01 to 0.06 at one record; every owner of a list.
  It cannot see: one report in a thousand; other records.
* :func:`matches_everywhere` finds a region of 0.1 of the records, or one of at most 128, that is
  far from its law. It cannot see: smaller regions; at each record what 1/128 of the draws hide.
* :func:`record_windows` finds no noise in a window of 6e-5 of the records; one raw report in a
  hundred anywhere; a value that follows another coordinate, or the sum. It cannot see: narrower;
  one raw in a thousand that its law can give anyway.
* :func:`matches_reference` finds 6.6e-6 of (words, record) pairs. It cannot see: rarer; vectors;
  less than a float32 spacing; unknown laws.
* :func:`distinct_reports` finds noise of 19 bits or fewer; a value that is sent with probability
  3e-5. It cannot see: noise of 20 bits and more; finite reports of few values.
* :func:`uses_the_whole_key` finds one bit of the key that is not read. It cannot see: 64 bits mixed
  into few.
* :func:`record_in_bits` finds one of the last 8 bits that is a statistic of the record, up to
  epsilon 7. It cannot see: a bit that follows the record no more than float32 rounding might.
* :func:`is_total` finds NaN, infinities or numbers beyond the ends that are reported as another
  record; float16. It cannot see: other values.
* :func:`sums_to_one` finds 1e-8 of the mass, at four records; four float64 spacings where it is
  densest. It cannot see: other records.
* :func:`matches_moments` finds 1e-8 of a mean or a variance, at four records. It cannot see: other
  records.
* :func:`draws_have_moments` finds ten standard errors of the draws. It cannot see: less.
* :func:`is_pure` finds state that changes within 48 reports; a plain call that raises for half of
  the records; -0, or NaN of two kinds, in one report of 300. It cannot see: state that waits
  longer.
* :func:`independent_coordinates` finds a mean product of two or three signs of 0.06; an exact
  product of any number. It cannot see: four and more that are not exact; triples beyond 64
  coordinates.
* :func:`relationship_supremum` finds 1e-9 of epsilon, on all graphs of four nodes. It cannot see:
  what larger graphs alone do.
* :func:`arithmetic` finds one word of 2^64 beside a step; a set of words of mass 1e-3 anywhere; one
  word of a table, at two records. It cannot see: a smaller set far from every step; other rows;
  beyond 8 tables of a vector.
* :func:`float_audit` finds 2^-22 of the mass of two records. It cannot see: other records.
* :func:`epsilon_lower_bound` finds 4 % of epsilon at 1 (2e5 draws). It cannot see: epsilon above 9
  (4e5 draws).
* :func:`private_edge_supremum` finds 1e-9 of epsilon, in the law of a curator's release, on all
  graphs of four or five nodes. It cannot see: what the curator draws; more than five nodes.
* :func:`matches_release` finds total variation 0.13 of a curator's releases or dendrograms (2 000
  draws). It cannot see: other graphs; counts of a dendrogram's groups.
* :func:`private_edge_lower_bound` finds 1.5 times the claim, 1 to 3, in releases of four nodes (4
  000 draws). It cannot see: what so small a release hides; more than 4.9.

:func:`check` asks all of them that apply, and whether whole graphs and curves that a mechanism
makes itself are of its law, compares with the claim by itself, and is true or false:
``bool(check(features.Duchi(1.0), jax.random.key(0)))``. Module ``plot`` draws variances and
densities. No test proves anything about a sampler that means to deceive: one that leaks with
probability 1e-12, for one record of 2^24, or after a million reports, passes all of them. Only
reading the sampler proves it: a table of whole numbers (:class:`~ldp_jax.features.Discrete`), whose
sampler is a search of thresholds, leaves least to read.
"""

from ldp_jax.core.spaces import NotApplicable
from ldp_jax.verification import plot as plot
from ldp_jax.verification.arithmetic import FloatAudit, arithmetic, float_audit, follows_table
from ldp_jax.verification.central import (
    HasReleaseLaw,
    matches_release,
    private_edge_lower_bound,
    private_edge_supremum,
)
from ldp_jax.verification.coordinates import independent_coordinates
from ldp_jax.verification.empirical import matches_density, matches_everywhere
from ldp_jax.verification.exact import hockey_stick, privacy_loss_supremum
from ldp_jax.verification.game import epsilon_lower_bound, largest_lower_bound
from ldp_jax.verification.lists import relationship_supremum
from ldp_jax.verification.moments import draws_have_moments, matches_moments, sums_to_one
from ldp_jax.verification.purity import is_pure, is_total, uses_the_whole_key
from ldp_jax.verification.rare import distinct_reports, record_windows, reported_losses
from ldp_jax.verification.statistics import Fit
from ldp_jax.verification.verdict import Verdict, check

__all__ = [
    "Fit",
    "FloatAudit",
    "HasReleaseLaw",
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
