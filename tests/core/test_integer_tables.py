"""Integer tables against arithmetic written twice: mpmath at 120 digits, fractions, and every
boundary word.
"""

import dataclasses
import functools
import itertools
import json
import math
from fractions import Fraction

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from ldp_jax.core import integer_tables, rounding
from ldp_jax.core.checksum import sealed
from ldp_jax.core.integer_tables import MAX_OUTPUTS, Table, integer_masses
from ldp_jax.features.discrete import Discrete

WORDS = 2**32
STEPS = 2**23
ENCODINGS = ("grid", "bins", "category")
TOP_WORD = WORDS - 1


def power(epsilon, digits=120):
    """Rational bounds of e^epsilon, 1e-100 of it apart, by mpmath (the library uses decimal at 60
    digits).
    """
    with mpmath.workdps(digits):
        value = mpmath.exp(mpmath.mpf(float(epsilon)))
        sign, man, exp, _ = value._mpf_
    exact = Fraction(man) * Fraction(2) ** exp
    return exact * (1 - Fraction(1, 10**100)), exact * (1 + Fraction(1, 10**100))


def check(law, epsilon):
    """Every promise of the rounding rule for one law."""
    masses = integer_tables.integer_masses(law, epsilon)
    assert masses.dtype == np.uint32
    assert masses.shape == law.shape
    rows = masses.tolist()
    assert [sum(row) for row in rows] == [WORDS] * len(law)
    below, above = power(epsilon)
    for column, p in zip(masses.T.tolist(), law.min(0).tolist(), strict=True):
        least = max(1, math.ceil(Fraction(p) * WORDS))
        most = math.floor(below * least)
        assert most == math.floor(above * least), "the oracle cannot tell: more digits"
        assert least <= min(column)
        assert max(column) <= min(WORDS, most)
        assert Fraction(max(column), min(column)) <= below  # a lower bound of e^epsilon
    # floor, the lift to 1 and the cut at the box move an entry by less than 2; the rest of a row,
    # one entry by all
    slack = 2 * law.shape[1] + 2 + WORDS * np.abs(law.sum(1) - 1).max()
    assert np.abs(masses.astype(np.float64) - law * WORDS).max() <= slack
    return masses


def laws(inside):
    """Random laws whose loss is at most ``inside`` * epsilon: weights e^(inside * epsilon * s / 2),
    0 <= s <= 1.
    """

    @st.composite
    def draw(d):
        inputs = d(st.integers(2, 6))
        outputs = d(st.integers(2, 9))
        epsilon = 10 ** d(st.floats(-5.9, math.log10(20.0)))
        seed = d(st.integers(0, 2**32 - 1))
        rng = np.random.default_rng(seed)
        base = rng.dirichlet(np.full(outputs, 10 ** rng.uniform(-1, 1))) + 1e-6
        shift = rng.choice([0.0, 1.0, rng.uniform()], (inputs, outputs))
        weight = base * np.exp(inside * epsilon / 2 * shift)
        law = weight / weight.sum(1, keepdims=True)
        # rows that differ by less than words can tell have no room in their boxes, and are refused
        hypothesis.assume((law.max(0) - law.min(0)).sum() > 10 * outputs / WORDS)
        return law, epsilon

    return draw()


@hypothesis.settings(max_examples=75)
@hypothesis.given(laws(0.98))
def test_laws_within_epsilon_are_rounded_within_their_boxes(drawn):
    check(*drawn)


def subset_law(categories, subset, epsilon):
    """Outputs are subsets of the categories, e^epsilon likelier where they hold the record: all at
    the edge.
    """
    subsets = list(itertools.combinations(range(categories), subset))
    held = (np.array(subsets) == np.arange(categories)[:, None, None]).any(-1)
    weight = np.where(held, 1.0, math.exp(-epsilon))
    return weight / weight.sum(1, keepdims=True)


@pytest.mark.parametrize(("categories", "subset"), [(2, 1), (7, 3), (17, 1)])
def test_laws_at_the_edge_lose_all_of_epsilon_and_no_more(categories, subset):
    for epsilon in (1e-6, 0.1, 4.0, 20.0):
        masses = check(subset_law(categories, subset, epsilon), epsilon)
        loss = max(
            Fraction(int(a), int(b)) for a, b in zip(masses.max(0), masses.min(0), strict=True)
        )
        # of the box [m, floor(e^eps m)] nearly all is used: one part in m is lost
        assert rounding.log_up(loss) >= epsilon - 200 / float(masses.min()) - 1e-12


def test_a_budget_at_the_logarithm_of_an_integer_is_never_exceeded():
    """e^epsilon is within 1e-13 of the number, above or below: floor(e^epsilon m) is m * number, or
    one less.
    """
    numbers = [2, 3, 7, 10, 1.5, 1000, 12345]
    for outputs, number, ulps in itertools.product([2, 3], numbers, [-1, 0, 1]):
        epsilon = math.log(number)
        epsilon = math.nextafter(epsilon, ulps * math.inf) if ulps else epsilon
        masses = check(subset_law(outputs, 1, epsilon), epsilon)
        below, _ = power(epsilon)
        m = int(masses.min())
        most = math.floor(below * m)
        if number == int(number):
            assert most == (m * number if below > number else m * number - 1)
        assert int(masses.max()) <= most


def test_equal_rows_say_nothing():
    """Nor do rows that differ by less than a word, or have an output below one."""
    for outputs, epsilon in ((2, 0.0), (256, 20.0)):
        law = np.repeat(np.random.default_rng(outputs).dirichlet(np.ones(outputs))[None], 4, 0)
        masses = integer_tables.integer_masses(law, epsilon)
        table = Table("constant", masses, np.zeros(outputs, np.float32), "category")
        assert (table.loss, table.epsilon) == (1, 0.0)
        assert np.abs(masses / WORDS - law).max() <= (outputs + 1) / WORDS
    masses = integer_tables.integer_masses(np.array(subset_law(3, 1, 1e-10)), 1e-10)
    assert (masses == masses[0]).all()
    masses = integer_tables.integer_masses(np.array([[1.0, 1e-30, 0.0]] * 2), 0.0)
    assert masses.tolist() == [[WORDS - 2, 1, 1]] * 2


NO_LAWS = [
    ([[0.5, 0.50001]] * 2, 1.0, "sum to 1"),
    ([[1.5, -0.5]] * 2, 1.0, "finite and >= 0"),
    ([[math.nan, 1.0]] * 2, 1.0, "finite and >= 0"),
    ([[0.75, 0.25], [0.25, 0.75]], 1.0, "loses more than epsilon"),  # it would be bent to fit
    ([[0.75, 0.25], [0.25, 0.75]], 0.5, "no table over"),  # loses log 3: 0.25 e^0.5 twice is no row
    ([[1.0, 0.0], [0.0, 1.0]], 20.0, "no table over"),
    (subset_law(200, 1, 5e-8), 5e-8, "no table over"),  # the integers are too coarse
    *(
        ([[0.5, 0.5]] * 2, epsilon, "epsilon of a table")
        for epsilon in (20.000001, math.nan, -1e-9)
    ),
]


@pytest.mark.parametrize(("law", "epsilon", "words"), NO_LAWS)
def test_what_is_no_law_is_refused(law, epsilon, words):
    with pytest.raises(ValueError, match=words):
        integer_tables.integer_masses(np.array(law), epsilon)


def test_a_table_takes_one_concrete_epsilon():
    for bad in (True, "1", None, 1j, [1.0, 2.0], 0.0, 20.000001, math.nan, -1e-9):
        with pytest.raises(ValueError, match="epsilon"):
            integer_tables.checked_epsilon(bad)
    for one in (1, np.float32(1), np.array(1.0), jnp.float32(1)):
        assert type(integer_tables.checked_epsilon(one)) is float


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.integers(1, TOP_WORD), st.integers(1, TOP_WORD))
@hypothesis.example(TOP_WORD, TOP_WORD - 1)
@hypothesis.example(7, 7)
def test_log_up_is_an_upper_bound_and_the_least_float(a, b):
    ratio = Fraction(max(a, b), min(a, b))
    got = rounding.log_up(ratio)
    with mpmath.workdps(100):
        exact = mpmath.log(mpmath.mpf(ratio.numerator) / mpmath.mpf(ratio.denominator))
        assert mpmath.mpf(got) >= exact
        if ratio > 1:
            assert mpmath.mpf(math.nextafter(got, 0.0)) < exact


def random_table(inputs, outputs, *, size=None, encoding="category", seed=0):
    """A table with masses of all sizes, 1 among them."""
    rng = np.random.default_rng(seed + 1000 * outputs + inputs)
    masses = []
    for _ in range(inputs):
        scale = 2 ** rng.uniform(0, 30, outputs)
        row = [max(1, int(v)) for v in scale / scale.sum() * (WORDS - outputs)]
        row[rng.integers(outputs)] += WORDS - sum(row)
        masses.append(row)
    shape = (outputs,) if size is None else (outputs, size)
    values = rng.normal(size=shape).astype(np.float32)
    return Table(
        f"random {outputs}", np.array(masses, np.uint64).astype(np.uint32), values, encoding
    )


of_words = jax.jit(lambda m, words, rounding, x: m.from_words(words, rounding, x))


def count_words(table, row, device=False):
    """How many of all 2^32 words give each output: exact, from the boundaries and what lies on both
    their sides.

    The output never falls as the word grows (checked at the boundaries), so the words of an output
    are an interval.
    """
    at = np.cumsum(table.masses[row].astype(np.uint64))[:-1].astype(np.int64)
    words = np.unique(np.concatenate([[0, TOP_WORD], at - 1, at, at + 1]).clip(0, TOP_WORD))
    rows = dataclasses.replace(table, encoding="category")
    words = words.astype(np.uint32)
    if device:  # the last word again: one program for tables of one shape
        words = np.append(words, np.full(3 * table.outputs - len(words), TOP_WORD, np.uint32))
        got = np.asarray(of_words(Discrete.of(rows), words, np.uint32(0), np.float32(row)))
    else:
        got = rows.report(row, words)
    assert (np.diff(got) >= 0).all()
    assert (np.diff(got) <= 1).all()
    assert (got[0], got[-1]) == (0, table.outputs - 1)
    # where the output changes, the two words are neighbours: then the first word of each output is
    # known
    change = np.flatnonzero(np.diff(got))
    assert (words[change + 1] - words[change] == 1).all()
    first = np.concatenate([[0], words[change + 1], [WORDS]])
    return np.diff(first)


def single(outputs, where):
    """One output has nearly all words, every other exactly one: thresholds meet both ends of the
    words.
    """
    row = np.ones(outputs, np.uint64)
    row[where] = WORDS - outputs + 1
    return Table("single", row[None].astype(np.uint32), np.zeros(outputs, np.float32), "category")


@pytest.mark.parametrize(
    "outputs",
    [
        2,
        3,
        4,
        8,
        9,
        257,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 7, 16, 17, 63, 64, 65, 255, 256)),
    ],
)
def test_the_words_of_every_output_are_its_mass(outputs):
    table = random_table(3, outputs)
    assert table.thresholds.shape == (3, max(2, 1 << (outputs - 1).bit_length()) - 1)
    assert table.thresholds.dtype == np.uint32
    for one in (table, *(single(outputs, where) for where in (0, outputs // 2, -1))):
        for row in range(one.inputs):
            assert count_words(one, row).tolist() == one.masses[row].tolist()
        assert count_words(one, one.inputs - 1, device=True).tolist() == one.masses[-1].tolist()
    # Padding is never an output: the largest word reaches it, and stays the last one.
    assert (table.thresholds[:, outputs - 1 :] == TOP_WORD).all()
    assert table.report([0, 1], [TOP_WORD, TOP_WORD]).tolist() == [outputs - 1] * 2


def extreme_numbers():
    kind = np.finfo(np.float32)
    steps = [2.0**-22, 2.0**-23, 1.5 * 2.0**-22, 3 * 2.0**-23, 2.5 * 2.0**-22]
    x = [0.0, 1, 0.5, 2, 1e9, kind.tiny, kind.smallest_subnormal, kind.max, np.inf, np.nan]
    x = np.float32([*x, *steps, 1 - 2.0**-22, 1 - 2.0**-23])
    beside = [np.nextafter(np.float32([1, 0.5, 0]), np.float32(to)) for to in (-2, 2)]
    return np.concatenate([x, -x, *beside, -beside[0]])


def random_numbers(n=100_000):
    """Records of every kind: inside, at grid points and bin edges, far outside, and any pattern of
    32 bits.
    """
    rng = np.random.default_rng(7)
    near = (rng.integers(-64, 129, n // 4) / rng.integers(1, 65, n // 4)).astype(np.float32)
    parts = [
        extreme_numbers(),
        rng.uniform(-1.2, 1.2, n // 4).astype(np.float32),
        near,
        np.nextafter(near, np.float32(np.inf)),
        np.float32(10) ** rng.uniform(-45, 38, n // 8).astype(np.float32)
        * rng.choice(np.float32([-1, 1]), n // 8),
        rng.integers(0, WORDS, n // 8, np.uint64).astype(np.uint32).view(np.float32),
    ]
    x = np.concatenate(parts)
    x[np.isnan(x)] = np.nan  # quiet ones: on signalling NaNs NumPy itself warns
    return x


def exact_split(x, inputs):
    """The rule in fractions: to a multiple of 2^-22 (ties to even), then (x + 1)/2 (n - 1)."""
    x = 0.0 if math.isnan(x) else min(max(x, -1.0), 1.0)
    return Fraction(round(Fraction(x) * 2**22) + 2**22) * (inputs - 1) / STEPS


@pytest.mark.parametrize("inputs", [2, 512])
def test_rounding_to_the_grid_keeps_the_mean_exactly(inputs):
    """row + part / 2^23 is the position of the record, a fraction; the words above it are counted,
    not sampled.
    """
    x = np.concatenate([extreme_numbers(), random_numbers()[::97]])
    row, part = integer_tables.split(np, x, inputs, "grid")
    assert row.dtype == np.int32
    assert part.dtype == np.uint32
    assert row.min() >= 0
    assert part.max() < STEPS
    assert (row + (part > 0) <= inputs - 1).all()
    for a, p, value in zip(row.tolist(), part.tolist(), x.tolist(), strict=True):
        assert a + Fraction(p, STEPS) == exact_split(value, inputs)
    # how many of the 2^32 rounding words go up: exactly part * 2^9
    for p in {0, 1, 2, STEPS - 1, *part[:50].tolist()}:
        at = np.array([0, max(512 * p - 1, 0), min(512 * p, TOP_WORD), TOP_WORD], np.uint32)
        assert integer_tables.rounds_up(at, np.uint32(p)).tolist() == [p > 0, p > 0, False, False]


@pytest.mark.parametrize("bins", [1, 7, 64])
def test_bins_are_those_of_the_paper(bins):
    """Edges that float32 holds belong to the lower bin."""
    x = np.random.default_rng(bins).uniform(0, 1, 5000).astype(np.float32)
    exact = [max(math.ceil(Fraction(v) * bins) - 1, 0) for v in x.tolist()]
    inside = np.abs(x * bins - np.rint(x * bins)) > 1e-4
    row, part = integer_tables.split(np, x, bins, "bins")
    assert not part.any()
    assert (row == exact)[inside].all()
    ends = integer_tables.split(np, np.float32([-3, 0, 1e-30, 1, 2, np.nan]), bins, "bins")[0]
    middle = max(math.ceil(bins / 2) - 1, 0)
    assert ends.tolist() == [0, 0, 0, bins - 1, bins - 1, middle]
    if bins & (bins - 1) == 0:
        edges = np.arange(1, bins + 1) / bins
        assert integer_tables.split(np, edges, bins, "bins")[0].tolist() == list(range(bins))
        above = np.nextafter(edges[:-1].astype(np.float32), np.float32(2))
        assert integer_tables.split(np, above, bins, "bins")[0].tolist() == list(range(1, bins))


STRANGE = [
    [math.nan, math.inf, -math.inf, 1e300, 5e-324],
    [2**63 - 1, -(2**63)],
    np.array([2**64 - 1], np.uint64),
    np.array([True, False]),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_split_is_total_and_silent(encoding):
    """Warnings are errors here: none depends on a record. Categories are taken as they are.

    Float64 records that are 0 in float32 raised under ``np.seterr``; others did not.
    """
    for x, inputs in itertools.product(STRANGE, (2, 5, 512)):
        row, part = integer_tables.split(np, x, inputs, encoding)
        assert ((row >= 0) & (row + (part > 0) < inputs)).all()
    x = np.array([0, 1, 4, 5, -1, 0.5, 1.5, 0.49999, math.nan, math.inf, 1e300, 5e-324])
    row, part = integer_tables.split(np, x, 5, "category")
    assert row.tolist() == [0, 1, 4, 4, 0, 0, 2, 0, 2, 4, 4, 0]
    assert not part.any()
    table = random_table(4, 3, encoding=encoding)
    calm = table.report(x, 2**31, 2**30)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(table.report(x, 2**31, 2**30), calm)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_numpy_and_jax_agree_on_every_record_and_word(encoding):
    """Rows and parts to the bit, on few points and on many; and reports, at every boundary word
    too.
    """
    x = random_numbers()
    rng = np.random.default_rng(5)
    of_jax = jax.jit(functools.partial(integer_tables.split, jnp), static_argnums=(1, 2))
    for inputs in (2, 129):
        for a, b in zip(
            integer_tables.split(np, x, inputs, encoding), of_jax(x, inputs, encoding), strict=True
        ):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    table = random_table(11, 257, encoding=encoding)
    words = rng.integers(0, WORDS, (2, len(x)), np.uint64).astype(np.uint32)
    edges = np.concatenate([table.thresholds.ravel(), table.thresholds.ravel() - np.uint32(1)])
    words[0, ::3] = rng.choice(edges, len(words[0, ::3]))
    expected = table.report(x, *words)
    got = of_words(Discrete.of(table), *words, x)
    assert got.dtype == expected.dtype == np.int32
    np.testing.assert_array_equal(got, expected)


_TABLE = random_table(3, 4)
_M, _V = _TABLE.masses, _TABLE.values
_ZERO = np.concatenate([np.uint32([[0, 2**31, 2**30, 2**30]]), _M[1:]])
_WIDE = np.ones((1, 2**16 + 1), np.uint32)
_WRONG = [
    *(("uint32", {"masses": m}) for m in (_M.astype(np.int64), _M[0], _M.astype(">u4"))),
    *(("1 to 512 inputs", {"masses": m}) for m in (_M[:0], np.repeat(_M[:1], 513, 0), _WIDE)),
    (r"sum to 2\^32", {"masses": _M ^ np.uint32(np.eye(3, 4))}),
    (r"sum to 2\^32", {"masses": np.full((3, 4), 2**31, np.uint32)}),  # 2 * 2^32
    ("drop or lift", {"masses": _ZERO}),
    *(
        ("finite float32", {"values": v})
        for v in (_V.astype(float), _V[:3], _V * np.float32("nan"))
    ),
    ("one of grid, bins, category", {"encoding": "circle"}),
    ("two points", {"masses": _M[:1], "encoding": "grid"}),
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(("words", "parts"), _WRONG)
def test_what_is_no_table_is_refused(words, parts):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(_TABLE, **parts)


def test_bytes_there_and_back():
    for size, name in ((None, '"größer ε"\nand lines'), (4, "")):
        table = dataclasses.replace(random_table(5, 6, size=size, encoding="bins"), name=name)
        back = Table.from_bytes(table.to_bytes())
        assert back == table
        assert (back.to_bytes(), hash(back)) == (table.to_bytes(), hash(table))
        assert (back.name, back.encoding) == (name, "bins")
        np.testing.assert_array_equal(back.masses, table.masses, strict=True)
        np.testing.assert_array_equal(back.values, table.values, strict=True)


def test_any_other_field_is_another_digest():
    table = random_table(5, 6, encoding="bins")
    masses = table.masses.copy()
    masses[2, :2] += np.uint32([-1 % WORDS, 1])
    zeros = np.zeros(6, np.float32)
    parts = [{"masses": one} for one in (masses, table.masses[::-1].copy())]
    parts += [{"values": one} for one in (table.values[:, None], zeros, -zeros)]
    parts += [{"name": "other"}, {"encoding": "grid"}, {"encoding": "category"}]
    made = [table, *(dataclasses.replace(table, **part) for part in parts)]
    assert len({one.digest for one in made}) == len(set(made)) == len(made)


START = b"ldp-table 2\n"
_HEAD, _, _BODY = random_table(2, 3).to_bytes()[len(START) : -8].partition(b"\n")
_FIELDS = json.loads(_HEAD)


_SPOILT = {
    "masses": (
        [3, 2],
        [-2, -3],
        [6],
        [],
        None,
        ["two", 3],
        [2**70, 3],
        [2.0, 3],
        "23",
        [9] * 10**5,
    ),
    "values": ([2], [0]),
    "encoding": ("circle", None),
    "name": (None, ["a"], True),
}


@pytest.mark.usefixtures("untyped")
def test_damaged_headers_are_refused_before_anything_is_computed():
    """Sizes are compared with the bytes that are there.

    A table has one spelling: another one would give one law two digests, and so random bits and
    budgets of its own.
    """
    text = _HEAD.decode()
    heads = [_FIELDS | {name: bad} for name, wrong in _SPOILT.items() for bad in wrong]
    heads += [{name: _FIELDS[name] for name in _FIELDS.keys() - {left}} for left in _FIELDS]
    damaged = [json.dumps(head, sort_keys=True) for head in heads]
    damaged += ["{}", "null", "[]", "{", "[" * 100_000, text + " ", text.replace("[2, 3]", "[2,3]")]
    damaged += [json.dumps(_FIELDS | {"more": 1}, sort_keys=True), json.dumps(_FIELDS)[::-1]]
    damaged += [json.dumps(dict(sorted(_FIELDS.items(), reverse=True)))]
    damaged += [text.replace('"name"', '"name": "", "name"')]
    for head in [*map(str.encode, damaged), b"\xff", b"\xef\xbb\xbf" + _HEAD]:
        with pytest.raises(ValueError, match="damaged table"):
            Table.from_bytes(sealed(START + head + b"\n" + _BODY))
    for data in (b"", b"ldp-table 3\n", b"LDP-TABLE 2\n", b"ldp-table 2\r\n"):
        with pytest.raises(ValueError, match="not a table of this version"):
            Table.from_bytes(data)
    assert Table.from_bytes(sealed(START + _HEAD + b"\n" + _BODY)) == random_table(2, 3)


def test_nothing_of_a_table_can_be_written_to():
    """Nor what a view is of, nor by asking for it: what is sampled from is what the loss was
    computed from.
    """
    masses = np.array([[3, 2**32 - 3], [2**32 - 3, 3]], np.uint32)
    values = np.array([-1.0, 1.0], np.float32)
    table = Table("bit", masses, values, "category")
    seen = lambda: (table.report([0, 1], [7, 2**31]).tolist(), table.thresholds.tolist())
    before = seen()
    masses[:], values[:] = 2**31, 0.0  # the caller's own
    read = Table.from_bytes(table.to_bytes())
    for array in (table.masses, table.values, table.thresholds, read.thresholds):
        while isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                array.flags.writeable = True
            array = array.base
        assert isinstance(array, bytes)
    assert seen() == before


@hypothesis.given(
    st.lists(st.lists(st.floats(0.0, 1e307), min_size=3, max_size=3), min_size=1, max_size=30)
)
@hypothesis.example([[0.1] * 3] * 3)
def test_sums_by_user_are_never_below_the_exact_ones(rows):
    """And at most a rounding a step above."""
    sums = integer_tables.sum_up(np.array(rows))
    for found, column in zip(sums.tolist(), zip(*rows, strict=True), strict=True):
        exact = sum(map(Fraction, column), Fraction(0))
        assert found == np.inf or Fraction(found) >= exact
        if exact < Fraction(1e308):
            assert Fraction(found) <= exact * (1 + Fraction(30, 2**52)) + Fraction(5e-324) * 30


@pytest.mark.parametrize("seed", range(20))
def test_the_rarest_outputs_keep_their_masses_and_the_largest_takes_what_is_left(seed):
    """Of a rare mass a unit is a share that matters; of 2^31 it is none."""
    rng = np.random.default_rng(seed)
    rare = rng.integers(2, 12, 3)
    weights = np.exp(rng.uniform(0.0, 0.4, (4, 5)))
    common = weights / weights.sum(1, keepdims=True) * (WORDS - rare.sum()) / WORDS
    law = np.concatenate([common, np.tile(rare / WORDS, (4, 1))], 1)
    order = rng.permutation(8)
    masses = integer_tables.integer_masses(law[:, order], 1.0)[:, np.argsort(order)].astype(
        np.int64
    )
    assert (masses[:, 5:] == rare).all()
    largest = np.arange(5) == common.argmax(1)[:, None]
    wanted = np.maximum(np.floor(WORDS * common), np.ceil(WORDS * common.min(0)))
    np.testing.assert_array_equal(masses[:, :5][~largest], wanted[~largest])


def test_one_row_that_does_not_sum_is_refused_and_the_widest_table_is_not():
    law = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    assert integer_masses(law, 1.1).shape == (3, 2)
    for place in range(3):
        wrong = law.copy()
        wrong[place, 0] += 2e-6
        with pytest.raises(ValueError, match="rows of probabilities must sum to 1"):
            integer_masses(wrong, 1.1)
    for outputs, fits in ((1, False), (2, True), (MAX_OUTPUTS, True), (MAX_OUTPUTS + 1, False)):
        row = np.full((1, outputs), WORDS // outputs, np.uint64)
        row[0, 0] += WORDS - row.sum()
        made = functools.partial(
            Table, "any", row.astype(np.uint32), np.zeros(outputs, np.float32), "category"
        )
        if fits:
            assert made().masses.shape == (1, outputs)
        else:
            with pytest.raises(ValueError, match=f"2 to {MAX_OUTPUTS} outputs"):
                made()
