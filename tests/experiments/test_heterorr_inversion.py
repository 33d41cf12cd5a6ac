"""Inversion of digits: embeddings that public images alone have made, attacks that see a leak, rows
and tables.
"""

from pathlib import Path

import numpy as np
import pytest
import sklearn.decomposition

from experiments import _declared, heterorr
from experiments._runner import COLUMNS, UsageError
from experiments._runner import run as run_cells
from experiments.heterorr import inversion
from experiments.heterorr.inversion import Settings
from tests.stats import SIGMAS

PAGE = Path(heterorr.__file__).with_name("report.toml")
SMALL = Settings(draws=1, copies=2, epochs=20, attacker=16, classifier=16)
PCA, MLP = "pca-16", "mlp-16"
EPSILONS = (1.0, 200.0)
OTHERS = {*inversion.PROTECTED} - {"feature-rr"}  # of which nothing is asked at the larger budget


def test_components_are_those_of_the_public_images_and_released_as_they_are_without_protection():
    (x, _, public), z, _ = inversion.prepare(PCA, 0, SMALL)
    wanted = sklearn.decomposition.PCA(16, svd_solver="full").fit(x[:public]).transform(x)
    lower = wanted[:public].min(0)
    upper = wanted[:public].max(0)
    wanted = np.clip((wanted - lower) / (upper - lower), 0, 1)
    turned = np.abs(z[0] - wanted[0]) > 1e-3  # an axis has no sign
    np.testing.assert_allclose(z, np.where(turned, 1 - wanted, wanted), atol=1e-3)
    assert (
        0 < (wanted[public:] == 0).mean() + (wanted[public:] == 1).mean() < 0.01
    )  # clipped: bounds are public
    masked = inversion.mask(np.ones((2, 64), np.float32), 4).reshape(2, 8, 8)
    assert (masked[:, 2:6, 2:6] == 0).all()
    assert masked.sum() == 2 * (64 - 16)
    bare = inversion.release("non-private", np.inf, PCA, 0, SMALL)
    np.testing.assert_array_equal(bare.private, z[public:])
    np.testing.assert_array_equal(bare.public, np.stack([z[:public]] * SMALL.copies, 1))


@pytest.mark.parametrize("embedding", [PCA, MLP])
def test_nothing_private_makes_an_embedding_or_its_shares(embedding, monkeypatch):
    """Other private images: the same public embeddings, the same theta."""
    true = inversion.load(0, SMALL)
    before = inversion.prepare(embedding, 0, SMALL)
    public = true.public
    other = np.concatenate([true.x[:public], 1 - true.x[public:]])
    digit = np.concatenate([true.digit[:public], 9 - true.digit[public:]])
    monkeypatch.setattr(inversion, "load", lambda *_: true._replace(x=other, digit=digit))
    after = inversion.prepare.__wrapped__(embedding, 0, SMALL)
    np.testing.assert_array_equal(before.z[:public], after.z[:public])
    np.testing.assert_array_equal(before.theta, after.theta)
    assert np.abs(before.z[public:] - after.z[public:]).max() > 0.5
    assert before.z.std(0).min() > 0  # no feature says nothing
    assert np.isclose(before.theta.sum(), 1)
    assert before.theta.std() > 0.001


@pytest.mark.parametrize("name", inversion.PROTECTED)
def test_what_is_released_has_the_mechanisms_law(name):
    """The mean estimate of each feature over all public copies, which sees an error of 0.07 in [0,
    1].
    """
    (_, _, public), z, _ = inversion.prepare(PCA, 0, SMALL)
    found = inversion.release(name, 100.0, PCA, 0, SMALL)
    assert found.private.shape == (len(z) - public, 16)
    assert found.public.shape == (public, SMALL.copies, 16)
    made = inversion.make_mechanism(name, 100.0, PCA, 0, SMALL)
    assert 99.99 < made.guarantee().epsilon <= 100.0
    domain = made.domain()
    width = domain.upper - domain.lower
    x = domain.lower + z[:public] * width
    gap = found.public.mean((0, 1)) - np.asarray(made.mean(x)).mean(0)
    spread = np.sqrt(np.asarray(made.variance(x)).mean(0) / (public * SMALL.copies))
    assert (np.abs(gap) < SIGMAS * spread).all()
    assert SIGMAS * spread.max() < 0.07 * width
    assert (
        not (found.public[:, 0] == found.public[:, 1]).all(1).all()
    )  # each copy has noise of its own


def test_rows_tables_and_figure(tmp_path, monkeypatch):
    def run():
        planned = inversion.cells(2, EPSILONS, (PCA,), SMALL)
        results = inversion.results_in(tmp_path)
        few = {
            cell: planned[cell]
            for cell in planned
            if cell.epsilon < 2 or cell.mechanism not in OTHERS
        }
        run_cells(few, inversion.compute, results)
        _declared.write(PAGE, tmp_path, inversion.NAME)
        assert (tmp_path / f"{inversion.NAME}.png").stat().st_size > 10_000
        return (tmp_path / f"{inversion.NAME}.md").read_text()

    text = run()
    rows = inversion.results_in(tmp_path).read()
    assert tuple(rows.columns) == (*COLUMNS, "embedding", *inversion.ALSO)
    assert len(rows) == 2 * (1 + 1 + 2 * 3 - len(OTHERS)) * 3
    private = rows[rows.mechanism.isin(inversion.PROTECTED)]
    assert set(private.epsilon) == set(EPSILONS)
    assert (
        (private.epsilon_proved <= private.epsilon)
        & (private.epsilon_proved > 0.999 * private.epsilon)
    ).all()
    assert (rows[rows.mechanism == "non-private"].epsilon_proved == np.inf).all()
    assert (rows[rows.mechanism == "public-mean"].epsilon_proved == 0).all()
    shares = rows[rows.mechanism == "feature-rr"].largest_share
    assert (shares > 1 / 16).all()
    assert (20 / shares > max(EPSILONS)).all()

    value = rows.pivot_table(
        index=["mechanism", "epsilon"], columns=["metric", "seed"], values="value"
    )
    nobody, bare = value.loc["public-mean", 0.0], value.loc["non-private", np.inf]
    # Components give images away, and so does FeatureRR at 200; at 1 the attacker takes the mean,
    # or does as badly.
    assert (bare["mse"] < 0.5 * nobody["mse"]).all()
    assert (bare["ssim"] > nobody["ssim"] + 0.2).all()
    assert (value.loc["feature-rr", 200.0]["mse"] < 0.7 * nobody["mse"]).all()
    assert (value.loc["feature-rr", 200.0]["accuracy"] > 0.5).all()
    for name in inversion.PROTECTED:
        hidden = value.loc[name, 1.0]
        assert (hidden["mse"] > 0.95 * nobody["mse"]).all()
        assert (hidden["accuracy"] < 0.25).all()

    monkeypatch.setattr(inversion, "compute", None)
    monkeypatch.setattr(
        inversion, "plot", lambda *_: pytest.fail("drew the images of the same rows again")
    )
    assert run() == text


def test_budgets_that_no_table_takes_are_refused():
    with pytest.raises(UsageError, match=r"--epsilons 1000: .*20"):
        inversion.cells(1, (1000.0,), (PCA,), SMALL)
