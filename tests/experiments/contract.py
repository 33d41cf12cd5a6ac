"""What holds of every experiment: tidy rows, runs that go on, and a report of the rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from experiments import _declared, _runner
from experiments._runner import COLUMNS, config_hash
from ldp_jax.learning import training


def run(module, config):
    """Compute the rows of ``config``, without the report that a run ends with: :func:`check` asks
    for it.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_declared, "write", lambda *_: [])
        module.main(config)
    return config


def as_first_drawn(key, model, objective, context, train, validation, test, settings):
    """For ``training.fit``: a network as it might be drawn; its scores, in [0, 1], tell what it is
    given apart.
    """
    data = jax.random.key_data(jax.random.clone(key)), context, train, validation, test
    total = sum(np.sum(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(data))
    variables = first(key, model, objective.inputs(context, train))
    return training.Fitted(variables, np.cos(total) ** 2, np.sin(total) ** 2, 0, (), ())


def first(key, model, given):
    """A network's first variables by their shapes: no program is compiled."""
    drawn = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.clone(key))))
    leaves, tree = jax.tree.flatten(given)
    shapes = _shapes(model, tree, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))
    return jax.tree.map(lambda leaf: drawn.normal(0.0, 0.1, leaf.shape).astype(leaf.dtype), shapes)


@functools.cache
def _shapes(model, tree, leaves):
    """Of a network's variables; traced once for all rows that it serves."""
    given = tree.unflatten([jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    return jax.eval_shape(model.init, jax.random.key(0), given)


def check(module, config, results):
    """Of a run of ``module`` by ``config`` whose rows are ``results``: a list of parts, each in a
    file.
    """
    for part in results:
        frame = part.read()
        manifest = part.describe()
        assert tuple(frame.columns) == part.columns
        assert part.columns[: len(COLUMNS)] == COLUMNS
        assert len(frame)
        assert not frame.duplicated(list(part.key)).any()
        assert {config_hash(made) for made in manifest["configs"].values()} >= set(frame.config)
        # Those that ask for labels, LPGNN's and a mechanism on classes, spend half of epsilon.
        of_labels = frame.mechanism.str.contains("labels|own_methods:Keep")
        public = frame.mechanism.str.startswith("structure-only") & ~of_labels
        assert (frame.epsilon_proved[public | (frame.epsilon == 0)] == 0).all()
        assert manifest["environments"]
    goes_on_and_computes_nothing_twice(module, config, results)
    written = _declared.write_of(module.__name__.split(".")[1], config.out)
    assert written
    for path in written:
        assert path.stat().st_size > (5_000 if path.suffix == ".png" else 0)


def is_committed(results, plans):
    """The committed rows are those of these plans, cell by cell: a changed setting, budget, seed or
    row is another cell. A proved epsilon follows from them.
    """
    names = [name for name in results.key if name not in ("metric", "epsilon_proved")]
    planned = {tuple(getattr(cell, name) for name in names) for plan in plans for cell in plan}
    rows = results.read()[names].fillna({"protocol": ""})
    assert {*rows.itertuples(index=False, name=None)} == planned


def goes_on_and_computes_nothing_twice(module, config, results):
    """A second run adds no row; one that was killed, here of its last cells, computes these to the
    same values.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            _runner.Results, "append", lambda *_, **__: pytest.fail("computed a row that was there")
        )
        run(module, config)
    part = results[0]
    whole = part.csv.read_bytes()
    before = part.read()
    last = before.drop_duplicates(list(part.key[:-1])).index[-1]
    part.csv.write_bytes(b"\n".join(whole.split(b"\n")[: last + 1]) + b"\ntorn,")
    run(module, config)
    columns = [name for name in part.columns if name != "seconds"]
    pd.testing.assert_frame_equal(part.read()[columns], before[columns])
