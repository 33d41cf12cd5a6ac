"""What :mod:`tests.test_many_devices` asks of eight simulated devices, and of two processes: a
script, no test.

``python -m tests.many_devices usual`` (or ``rare``) prints JSON: the name of each check, and what
it found wrong. ``... hosts INDEX PORT`` (or ``pair``, of more checks) is one of two processes.
"""

import dataclasses
import json
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from ldp_jax import edges, features, servers
from ldp_jax.core import mechanism as mechanisms
from ldp_jax.core.sharding import all_devices
from ldp_jax.edges import whole_counts
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import Operator, kprop_many, operator, ppr, ppr_push
from ldp_jax.verification import cases

USERS = 16
NODES = 64
COLUMNS = 136
TOLERANCE = 1e-6
"""Of columns of size 1: a program for other numbers of columns may round otherwise, 3e-7 in all."""
FEW = ("NeighbourCounts",)
"""All others are asked under ``slow``; HDS is in ``embeddings``."""
LOOPS = ("Sampled-grid", "PrivUnit", "DPRR-prior", "HyperbolicExponential")
"""Whose loops are traced, at least."""
ROUNDED = {"PrivUnit", "PrivUnitG", "ProjUnit", "HyperbolicExponential"}
"""Of which a compiler may fuse a product and a sum (:mod:`ldp_jax.core.mechanism`)."""


def meshes() -> dict[str, jax.sharding.Mesh]:
    """All devices, with axes of both types."""
    shape, kinds = (jax.device_count(),), (AxisType.Auto, AxisType.Explicit)
    return {kind.name: jax.make_mesh(shape, ("devices",), (kind,)) for kind in kinds}


def put(x: Any, mesh: jax.sharding.Mesh, *spec: str | None) -> Any:
    """Arrays of the host, divided."""
    to = NamedSharding(mesh, P(*spec))
    return jax.tree.map(
        lambda leaf: jax.make_array_from_callback(leaf.shape, to, lambda at: leaf[at]), x
    )


def compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Any, set[str]]:
    """The result of a compiled function, and what moves between devices in its program."""
    program = jax.jit(function).lower(*arguments).compile()
    moved = r"\b(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\b"
    return program(*arguments), set(re.findall(moved, program.as_text()))


def is_divided(x: Any, *spec: str | None) -> bool:
    """Whether each device has its part of an array alone."""
    wanted = NamedSharding(x.sharding.mesh, P(*spec))
    return len(x.sharding.device_set) == jax.device_count() and x.sharding.is_equivalent_to(
        wanted, x.ndim
    )


def check_divided(found: Any, one: Any, *spec: str | None, atol: float = 0.0) -> None:
    """The result of one device, divided as it should be; bit for bit without ``atol``."""
    for leaf, alone in zip(jax.tree.leaves(found), jax.tree.leaves(one), strict=True):
        assert is_divided(leaf, *spec), f"{leaf.sharding} where {spec} was wanted"
        for part in leaf.addressable_shards:
            np.testing.assert_allclose(part.data, np.asarray(alone)[part.index], rtol=0, atol=atol)


def check_same(found: Any, one: Any, atol: float = 0.0) -> None:
    """The result of one device, on one device."""
    for leaf, alone in zip(jax.tree.leaves(found), jax.tree.leaves(one), strict=True):
        assert isinstance(leaf, np.ndarray) or not leaf.committed
        np.testing.assert_allclose(leaf, np.asarray(alone), rtol=0, atol=atol)


def records_of(m: Any) -> Any:
    """Both ends of a domain and what is typical, of some users in turn."""
    domain = m.domain()
    some = ([*domain.extremes(), domain.typical()] * USERS)[:USERS]
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *some)


def user_keys() -> Any:
    return jax.random.split(jax.random.key(3), USERS)


def draws(m: Any, keys: Any, x: Any) -> Any:
    return jax.vmap(m.privatize)(keys, x)


def divided_draws() -> Callable[..., Any]:
    users = P("devices")
    return jax.shard_map(
        draws, mesh=meshes()["Auto"], in_specs=(P(), users, users), out_specs=users
    )


def users_of(name: str) -> Callable[[], None]:
    """``shard_map(vmap(m.privatize))`` draws the reports of one device."""

    def check() -> None:
        m = cases.CASES[name].make(1.0)
        atol = 2e-5 if name in ROUNDED else 0.0
        x = records_of(m)
        one = jax.jit(draws)(m, user_keys(), records_of(m))
        check_divided(jax.jit(divided_draws())(m, user_keys(), x), one, "devices", atol=atol)

    return check


def users_in_loops() -> None:
    """Carries keep their type."""
    for name in LOOPS:
        m = cases.CASES[name].make(1.0)
        jax.eval_shape(divided_draws(), m, user_keys(), records_of(m))


def users_on_meshes() -> None:
    """``privatize`` and ``jit(vmap)`` of divided records, by a table: explicit axes would refuse
    its gather.
    """
    m = cases.CASES["GeneralizedRR"].make(1.0)
    key = jax.random.key
    x = records_of(m)
    one = mechanisms.privatize(key(3), m, records_of(m))
    for mesh in meshes().values():
        check_divided(mechanisms.privatize(key(3), m, put(x, mesh, "devices")), one, "devices")
    found, moved = compiled(draws, m, user_keys(), put(x, meshes()["Auto"], "devices"))
    check_divided(found, one, "devices")
    assert not moved


def network(nodes: int = NODES) -> Any:
    ends = np.random.default_rng(0).integers(0, nodes, (4 * nodes, 2))
    return graphs.from_edges(np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], 1), axis=0), nodes)


def values(nodes: int = NODES, columns: int = COLUMNS) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (nodes, columns)).astype(np.float32)


def pages(op: Operator, x: Any) -> Any:
    return ppr(op, x, 0.1, 0.3)


def columns_of(layout: Any) -> Callable[[], None]:
    """Columns stay where they are, whatever the axes are, and nothing moves."""

    def check() -> None:
        op = operator(network(), layout)
        x = values()
        all_meshes = meshes()
        one = pages(op, x)
        spec = P(None, "devices")
        check_divided(pages(op, put(x, all_meshes["Auto"], *spec)), one, *spec, atol=TOLERANCE)
        for mesh in all_meshes.values():
            found, moved = compiled(pages, op, put(x, mesh, *spec))
            check_divided(found, one, *spec, atol=TOLERANCE)
            assert not moved
        mapped = jax.jit(
            jax.shard_map(pages, mesh=all_meshes["Auto"], in_specs=(P(), spec), out_specs=spec)
        )
        check_divided(mapped(op, x), one, *spec, atol=TOLERANCE)
        if layout == "segment":
            return
        gradient = jax.grad(lambda x: (pages(op, x) ** 2).sum())
        found = jax.jit(gradient)(put(x, all_meshes["Auto"], *spec))
        check_divided(found, gradient(jnp.asarray(x)), *spec, atol=10 * TOLERANCE)

    return check


def rows_are_exchanged() -> None:
    """Divided rows become columns, and rows again: that alone moves."""
    # which eight do not divide
    op = operator(network())
    x = values(columns=17)
    one = pages(op, x)
    check_divided(pages(op, put(x, meshes()["Auto"], "devices")), one, "devices", atol=TOLERANCE)
    divided = put(x, meshes()["Explicit"], "devices")
    found, moved = compiled(pages, op, divided)
    check_divided(found, one, "devices", atol=TOLERANCE)
    assert moved == {"all-to-all"}
    powers = kprop_many(op, x, (0, 3))
    check_divided(kprop_many(op, divided, (0, 3)), powers, None, "devices", atol=TOLERANCE)


def nodes_on_a_mesh() -> None:
    """A graph whose nodes and edges are divided; rows that the devices do not divide, too."""
    for nodes, mesh in zip((NODES, 61), meshes().values(), strict=True):
        x = values(nodes, 3)
        one = pages(operator(network(nodes)), values(nodes, 3))
        op = operator(network(nodes), mesh=mesh)
        held = [part.data.size for part in op.neighbours.senders.addressable_shards]
        assert max(held) < 1.5 * len(network(nodes).senders) / jax.device_count()
        if nodes != NODES:
            np.testing.assert_allclose(pages(op, x), one, rtol=0, atol=TOLERANCE)
            continue
        found, moved = compiled(pages, op, put(x, mesh, "devices"))
        check_divided(found, one, "devices", atol=TOLERANCE)
        assert moved == {"all-gather"}
    empty = graphs.from_edges(np.zeros((0, 2), np.int32), 5)
    np.testing.assert_allclose(pages(operator(empty, mesh=mesh), np.ones(5)), 0.1)
    with pytest.raises(ValueError, match="places must be None"):
        operator(empty, "segment", places=4, mesh=mesh)
    directed = graphs.from_edges([[0, 1], [1, 2]], 3)._replace(
        senders=np.array([1]), receivers=np.array([0])
    )
    directed = directed._replace(n_edge=np.array([1]), edges=None)
    ops = [operator(directed, allow_directed=True, mesh=on) for on in (None, mesh)]
    np.testing.assert_allclose(*(pages(op, np.arange(3.0)) for op in ops), atol=TOLERANCE)
    star = graphs.from_edges(np.stack([np.zeros(39_999, int), np.arange(1, 40_000)], 1), 40_000)
    beside_a_hub = ppr(operator(star, mesh=mesh), np.ones(40_000, np.float32), 0.1, 0.0, 1e-8)
    for part in beside_a_hub.addressable_shards:  # a sum of one edge after another: 2e-4
        np.testing.assert_allclose(part.data, 1.0, rtol=0, atol=2e-6)


def nodes_and_other_arrays() -> None:
    """Divided nodes bring an x to their rows that is not divided, or by columns, and wider than a
    block.
    """
    x = values()
    m = features.HDS(1.0, COLUMNS, 5)
    one = operator(network())
    size = lambda op, x: (pages(op, x) ** 2).sum()
    wanted = (
        pages(one, x),
        embedded(one, x, m),
        ppr_push(one, x, 0.1, 0.3),
        jax.grad(size, 1)(one, jnp.asarray(x)),
    )
    for mesh in meshes().values():
        op = operator(network(), mesh=mesh)
        check_divided(embedded(op, x, m), wanted[1], "devices", atol=TOLERANCE)
        for given in (jnp.asarray(x), put(x, mesh, None, "devices")):
            check_divided(pages(op, given), wanted[0], "devices", atol=TOLERANCE)
            check_divided(ppr_push(op, given, 0.1, 0.3), wanted[2], "devices", atol=TOLERANCE)
            found = jax.jit(jax.grad(size, 1))(op, given)
            np.testing.assert_allclose(found, wanted[3], rtol=0, atol=10 * TOLERANCE)
        with jax.set_mesh(mesh):
            np.testing.assert_allclose(
                jax.grad(size, 1)(op, given), wanted[3], rtol=0, atol=10 * TOLERANCE
            )
    op, x = (
        operator(network(61), mesh=mesh),
        values(61, 8),
    )  # of rows that the devices do not divide
    powers = kprop_many(operator(network(61)), x, (1, 3))
    np.testing.assert_allclose(
        kprop_many(op, put(x, mesh, None, "devices"), (1, 3)), powers, rtol=0, atol=TOLERANCE
    )


def embedded(op: Operator, x: Any, m: Any) -> Any:
    return servers.private_embedding(jax.random.key(0), op, x, m, alpha=0.1, r=0.3).z


def embeddings() -> None:
    """``private_embedding`` of users who are divided stays so, and no device has all of them."""
    x, graph, auto, explicit = values(columns=17), network(), *meshes().values()
    m = features.HDS(
        np.linspace(0.5, 1.0, NODES), 17, 5
    )  # personal budgets, which are divided with the users
    one = embedded(operator(graph), x, m)
    check_divided(
        embedded(operator(graph), put(x, auto, "devices"), m), one, "devices", atol=TOLERANCE
    )
    nodes = operator(graph, mesh=explicit)
    check_divided(embedded(nodes, put(x, explicit, "devices"), m), one, "devices", atol=TOLERANCE)
    reports = servers.perturb(jax.random.key(0), put(x, explicit, "devices"), m)
    assert all(is_divided(leaf, "devices") for leaf in jax.tree.leaves(reports))


def other_meshes() -> None:
    """Two axes of two types; arrays that are whole on each device; a mesh that is set; records by
    columns.
    """
    op, x, m = (
        operator(network()),
        values(columns=40),
        features.HDS(1.0, 40, 5),
    )  # more columns than a block
    one = pages(op, x)
    pushed = ppr_push(op, x, 0.1, 0.3)
    sent = embedded(op, x, m)
    mixed = jax.make_mesh((4, 2), ("one", "other"), (AxisType.Auto, AxisType.Explicit))
    for spec in (
        ("one", "other"),
        (None, ("one", "other")),
        (("one", "other"), None),
        ("other", "one"),
    ):
        divided = put(x, mixed, *spec)
        check_divided(pages(op, divided), one, *spec, atol=TOLERANCE)
        check_divided(ppr_push(op, divided, 0.1, 0.3), pushed, *spec, atol=TOLERANCE)
        check_divided(embedded(op, divided, m), sent, spec[0], atol=TOLERANCE)
    np.testing.assert_allclose(
        pages(operator(network(), mesh=mixed), x), one, rtol=0, atol=TOLERANCE
    )
    for mesh in (mixed, *meshes().values()):
        check_divided(pages(op, put(x, mesh)), one, atol=TOLERANCE)
        with jax.set_mesh(mesh):
            np.testing.assert_allclose(pages(op, x), one, rtol=0, atol=TOLERANCE)
            np.testing.assert_allclose(embedded(op, x, m), sent, rtol=0, atol=TOLERANCE)
    by_columns = put(x, mesh, None, "devices")
    np.testing.assert_allclose(embedded(op, by_columns, m), sent, rtol=0, atol=TOLERANCE)
    drawn = (mechanisms.privatize(jax.random.key(0), m, some) for some in (by_columns, x))
    jax.tree.map(lambda *two: np.testing.assert_allclose(*two, rtol=2e-5), *drawn)


def counts_by_user() -> None:
    """Counts of divided groups are those of one device; a process counts for its own users; noise
    moves nothing.
    """
    graph = network()
    key = jax.random.key(2)
    groups = np.arange(NODES) % 4 - 1
    m = edges.NeighbourCounts(0.5, 3)
    level = np.arange(NODES) % 2
    owners = edges.ownership(values(columns=1)[:, 0], np.arange(NODES) % 2 == 0)
    menu = [m, edges.NeighbourCounts(2.0, 3)]
    asked = (m, {}), (menu, {"levels": level}), (m, {"reporters": level > 0, "owners": owners})
    with jax.debug_key_reuse(False), pytest.MonkeyPatch.context() as patch:
        for together in (NODES, 5):  # one block, and blocks that begin and end within a device
            patch.setattr(whole_counts, "_DRAWN", 3 * together)
            for law, given in asked:
                counts = lambda groups, key=key, law=law, given=given: (
                    edges.privatize_counts(key, graph, law, groups, **given).counts
                )
                one = counts(groups)
                for mesh in meshes().values():
                    check_divided(counts(put(groups, mesh, "devices")), one, "devices")
        counted = []
        count = whole_counts._counts
        patch.setattr(
            whole_counts, "_counts", lambda *given: (counted.append(given[-1]), count(*given))[1]
        )
        users = put(groups, mesh, "devices")
        noisy = lambda key: edges.privatize_counts(key, graph, m, users).counts
        check_divided(
            noisy(key), one := edges.privatize_counts(key, graph, m, groups).counts, "devices"
        )
        own = {part.index[0].indices(NODES)[:2] for part in users.addressable_shards}
        assert {(rows.start, rows.stop) for rows in counted[:-1]} == own
        if jax.process_count() == 1:  # else no program may hold the true counts
            found, moved = compiled(noisy, key)
            check_divided(found, one, "devices")
            assert not moved


def graphs_in_batches() -> None:
    """Devices that share batches of graphs train the model of one, to 1e-5; sums move, and means of
    graphs.
    """
    import optax  # which takes longer to import than what else is asked

    from ldp_jax.graph import packing
    from ldp_jax.learning import graph_training, models, training

    size = np.arange(36) % 7 + 3
    hub = np.cumsum(size) - size
    others = np.setdiff1d(np.arange(size.sum()), hub)
    at = np.repeat(np.arange(36), size)
    ends = (
        np.where(at[others] % 2, hub[at[others]], others - 1),
        others,
    )  # stars and paths, which point away
    directed = packing.GraphSet.from_edges(*ends, at, np.arange(36) % 2)
    both = packing.GraphSet.from_edges(
        *map(np.concatenate, (ends, ends[::-1])), at, np.arange(36) % 2
    )
    settings = training.Settings(
        optax.sgd(0.1), epochs=2, batch_size=12
    )  # which the devices may not divide
    model = models.gin(layers=3, hidden=8, dropout=0.2)
    mesh = [*meshes().values()][-1]
    fit = lambda on: graph_training.fit_graphs(
        jax.random.key(0), model, directed, both, both, dataclasses.replace(settings, mesh=on)
    )
    if jax.process_count() > 1:
        with pytest.raises(ValueError, match="devices of one process"):
            fit(mesh)
        return
    with jax.debug_key_reuse(False):
        one = fit(None)
        found = fit(mesh)
    check_divided(found.variables, one.variables, atol=1e-5)
    np.testing.assert_allclose(found.losses, one.losses, rtol=1e-5)
    assert (found.validation, found.test, found.epoch) == (one.validation, one.test, one.epoch)
    packed = packing.pack(directed, 12, mesh=mesh)
    run = graph_training._begin(
        jax.random.key(0), packed, model=model, optimizer=settings.optimizer, room=8
    )
    static = {"model": model, "optimizer": settings.optimizer}
    given = jax.random.key(0), np.int32(1), np.int32(1), packed, packed
    text = graph_training._train.lower(run, *given, **static).compile().as_text()
    moved = re.findall(
        r"= \(?f32\[([\d,]*)\][^\n]*? (all-gather|all-to-all|collective-permute)", text
    )
    most = 8 * len(jax.devices()) * -(-12 // len(jax.devices()))  # a row for each graph
    assert moved
    assert all(math.prod(map(int, shape.split(","))) <= most for shape, _ in moved), moved


def models_by_key() -> None:
    """Runs of a trainer, and all that is stacked with their keys: nothing moves.

    The last bits of a run may depend on how many there are.
    """
    from ldp_jax.learning import (
        models,
        training,
    )  # which takes longer to import than what else is asked

    x = values(columns=5)
    mesh = meshes()["Auto"]
    keys = jax.random.split(jax.random.key(0), 16)
    settings = training.Settings(training.adam(0.05), epochs=2, batch_size=8)
    stacked = lambda leaf: np.stack([leaf] * 16)
    index = np.arange(8, dtype=np.int32)
    model = models.mlp(2, 8, 3, dropout=0.5)
    data = stacked(x), *[training.Examples(stacked(index), stacked(index % 3))] * 3
    fit = lambda keys, data: training.fit_many(
        keys, model, training.node_classification, *data, settings
    )
    with jax.debug_key_reuse(False):
        divided = put(data, mesh, "devices")
        some = jax.device_put(keys, NamedSharding(mesh, P("devices")))
        alone = fit(*jax.device_put((keys, data), jax.devices()[0]))
        check_divided(fit(some, divided), alone, "devices", atol=TOLERANCE)
    shared = dataclasses.replace(settings, mesh=mesh)
    with pytest.raises(ValueError, match="divide the keys"):
        training.fit_many(keys, model, training.node_classification, *data, shared)
    program = model, training.node_classification, settings
    place = {"at_once": None, "over": some.sharding}
    start = lambda *given: training._each_run(program, training._begin, (), *given, **place)
    assert not compiled(start, some, *divided[:2])[1]
    once = np.int32(1), np.int32(1)
    train = lambda *given: training._each_run(program, training._fit, once, *given, **place)
    assert not compiled(train, start(some, *divided[:2]), (some, *divided[:3]))[1]


def models_that_nobody_places() -> None:
    """All devices of the process share runs, as evenly as they can; results are as if one had."""
    from ldp_jax.attacks import shadow_models
    from ldp_jax.learning import models, training

    used = {count: all_devices(count).mesh.size for count in (2, 3, 8, 9, 11, 16)}
    assert used == {2: 2, 3: 3, 8: 8, 9: 5, 11: 6, 16: 8}
    first = jax.devices()[0]
    placed = jax.device_put(values(), first)
    with jax.default_device(first):
        assert all_devices(16) is None
    assert all_devices(16, placed) is all_devices(1) is None

    settings = training.Settings(training.adam(0.05), epochs=2, batch_size=NODES)
    shadows = lambda: shadow_models(
        jax.random.key(0), models.gcn(1, 4, 3), training.node_classification, network(),
        values(columns=5), np.arange(NODES) % 3, settings, models=5, protocol="TSTF",
    )  # fmt: skip
    index = np.arange(NODES, dtype=np.int32)
    stacked = lambda leaf: np.stack([leaf] * 11)
    given = stacked(values(columns=5)), *[training.Examples(*map(stacked, (index, index % 3)))] * 3
    perceptrons = lambda: training.fit_many(
        jax.random.split(jax.random.key(0), 11), models.mlp(2, 4, 3), training.node_classification,
        *given, settings,
    )  # fmt: skip
    for train in (shadows, perceptrons):
        with jax.default_device(first):
            one = train()
        check_same(train(), one, atol=TOLERANCE)


def checks_can_fail() -> None:
    """What is not divided, or off by little, is seen."""
    x = values(columns=8)
    mesh = meshes()["Auto"]
    check_divided(put(x, mesh, "devices"), x, "devices")
    for twin in (
        put(x, mesh),
        put(x, mesh, None, "devices"),
        put(x + np.float32(1e-6), mesh, "devices"),
    ):
        with pytest.raises(AssertionError):
            check_divided(twin, x, "devices")


CHECKS: dict[str, Callable[[], None]] = {
    **{
        f"users of {name}": users_of(name) for name, case in cases.CASES.items() if not case.central
    },
    "checks can fail": checks_can_fail,
    "users in loops": users_in_loops,
    "users on meshes": users_on_meshes,
    "columns, segment": columns_of("segment"),
    "columns, ell": columns_of("ell"),
    "rows are exchanged": rows_are_exchanged,
    "nodes on a mesh": nodes_on_a_mesh,
    "nodes and other arrays": nodes_and_other_arrays,
    "embeddings": embeddings,
    "other meshes": other_meshes,
    "counts by user": counts_by_user,
    "graphs in batches": graphs_in_batches,
    "models by key": models_by_key,
    "models that nobody places": models_that_nobody_places,
}
RARE = [
    name
    for name in CHECKS
    if name.startswith("users of") and name.removeprefix("users of ") not in FEW
]
RARE += [
    "graphs in batches",
    "models by key",
    "columns, segment",
    "columns, ell",
    "nodes and other arrays",
]
USUAL = [name for name in CHECKS if name not in RARE]
HOSTS = ["users on meshes"]
PAIR = [
    "columns, ell",
    "rows are exchanged",
    "nodes on a mesh",
    "embeddings",
    "counts by user",
    "graphs in batches",
]


def run(names: list[str]) -> Iterator[tuple[str, str]]:
    """Each check, and what it found wrong."""
    jax.config.update("jax_debug_key_reuse", True)
    for name in names:
        try:
            CHECKS[name]()
        except Exception:
            yield name, traceback.format_exc()
        else:
            yield name, ""


def join(index: int, port: int) -> None:
    """Be one of two processes of this machine."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, index, heartbeat_timeout_seconds=10)
    assert (jax.process_count(), jax.device_count()) == (2, 2)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if rest:
        join(*map(int, rest))
    names = {"usual": USUAL, "rare": RARE, "hosts": HOSTS, "pair": PAIR}[what]
    sys.stdout.write(json.dumps(dict(run(names))))
