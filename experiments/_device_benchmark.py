"""What a message costs a device: its own class by a broadcast classifier, and sampled coordinates of its record."""

import hashlib

import numpy as np

from experiments._sides import Sides
from ldp_jax import deployment, features

DEVICES, FEATURES, CLASSES, EPSILON, COORDINATES = 1_000, 1_433, 7, 2.0, 10


def message_sides() -> tuple[str, Sides]:
    """A thousand devices, one message each, one after the other: NumPy, hashing and the memory of what was sent."""
    rng = np.random.default_rng(0)
    records = rng.poisson(0.02, (DEVICES, FEATURES)).astype(np.float32)
    classifier = deployment.Classifier(
        rng.normal(size=(FEATURES, CLASSES)), rng.normal(size=CLASSES), log_counts=True
    )
    found = deployment.alphabets(rng.dirichlet(np.ones(CLASSES), DEVICES), EPSILON)
    tables = {size: deployment.alphabet_table(EPSILON, size, CLASSES) for size in np.unique(found.sizes).tolist()}
    own = [
        deployment.Alphabet(order[:size], EPSILON, tables[int(size)])
        for order, size in zip(found.order, found.sizes, strict=True)
    ]
    devices = [deployment.Device(hashlib.sha256(b"%d" % user).digest()) for user in range(DEVICES)]
    coordinate = features.GridSquareWave(EPSILON / COORDINATES).table()

    def classes(repeat: int) -> list[bytes]:
        return [
            deployment.report_class(
                deployment.Session(device, budget=EPSILON), classifier, alphabet, record, user=user, round=repeat
            )
            for user, (device, alphabet, record) in enumerate(zip(devices, own, records, strict=True))
        ]

    def sampled(repeat: int) -> list[bytes]:
        return [
            deployment.Session(device, budget=EPSILON).report_sampled(
                coordinate, record, COORDINATES, user=user, round=repeat
            )
            for user, (device, record) in enumerate(zip(devices, records, strict=True))
        ]

    shipped = (len(classifier.to_bytes()) + max(len(alphabet.to_bytes()) for alphabet in own)) / 1000
    size = len(classes(0)[0]), len(sampled(0)[0])
    return f"{DEVICES:,} messages of {FEATURES:,} features", {
        "ldp_jax": (classes, f"the best of {CLASSES} classes; {shipped:.0f} KB shipped, {size[0]} bytes sent"),
        "sampled record": (
            sampled,
            f"{COORDINATES} coordinates on a grid; {len(coordinate.to_bytes()) / 1000:.0f} KB shipped, "
            f"{size[1]} bytes sent",
        ),
    }
