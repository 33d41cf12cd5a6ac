"""``ldp_jax_client``: the devices' side of the same files, with NumPy alone, and the same
reports.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import ldp_jax
from ldp_jax import deployment
from tests.deployment.vectors import GRID, OWNED, SECRET, list_session, session
from tests.test_layers import imports, own

ROOT = Path(ldp_jax.__file__).parent
HOME = ROOT / "deployment"
WHEEL = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]
SHIPPED = {
    (HOME / source).resolve(): Path(target) for source, target in WHEEL["force-include"].items()
}

CLIENT = """
import importlib.abc, sys
from pathlib import Path

class NumPyAlone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        root = name.split(".")[0]
        known = {*sys.stdlib_module_names, "numpy", "ldp_jax", "ldp_jax_client"}
        if name == "ldp_jax" or root not in known:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NumPyAlone())
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1])
import ldp_jax_client as client
assert Path(client.Session.report.__code__.co_filename).is_relative_to(folder), client.Session
device = client.Device.from_secret((folder / "secret").read_bytes())
key = device.shared_key
table = client.Table.from_bytes((folder / "Table").read_bytes())
asked = client.Question.from_bytes((folder / "Question").read_bytes())
session = client.Session(device, budget=1e9, key=key)
sent = session.report_many(table, [0.5, -1.0, 1.0], user=3, round=2)
sent += session.report_sampled(table, [0.1] * 9, 4, user=4, round=2)
(folder / "memory").write_bytes(session.to_bytes())
from ldp_jax_client.accounting.guarantee import NEIGHBOUR_LIST, Budget
lists = client.Session(device, budget=Budget(1e9, unit=NEIGHBOUR_LIST))
(folder / "sent").write_bytes(sent + lists.report_neighbours(asked, [1, 2, 4], user=8))
"""


def reached():
    """The files that importing the devices' side may run, and the packages that these name."""
    left = [path for path in HOME.glob("*.py") if path.name != "store.py"]
    files = set()
    packages = set()
    while left:
        files.add(path := left.pop())
        packages |= {name.split(".")[0] for name in imports(path)}
        places = [
            ROOT.joinpath(*parts[:depth])
            for parts in (name.split(".") for name in own(path))
            for depth in range(1, 4)
        ]
        found = {
            file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")
        }
        left += [file for file in found - files if file.exists()]
    return files, packages


def test_the_client_has_every_file_that_it_imports_and_needs_numpy_alone():
    files, packages = reached()
    assert {path for path in SHIPPED if path.suffix == ".py"} == files
    for path in files - {HOME / "_client.py"}:  # at its own place: an import finds it there
        assert SHIPPED[path] == "ldp_jax_client" / path.relative_to(ROOT)
    assert packages - set(sys.stdlib_module_names) == {"ldp_jax", "numpy", "jax"}
    where = [path for path in files if "import jax" in path.read_text()]
    assert where == [ROOT / "core" / "validate.py"]  # inside threefry(), which no device calls


def test_the_client_reports_word_for_word_what_the_package_reports(tmp_path):
    for source, target in SHIPPED.items():
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / target)
    for public in (GRID, OWNED):
        (tmp_path / type(public).__name__).write_bytes(public.to_bytes())
    (tmp_path / "secret").write_bytes(SECRET)
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, tmp_path], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    key = deployment.Device.from_secret(SECRET).shared_key
    mine = session(budget=1e9, key=key)
    sent = mine.report_many(GRID, [0.5, -1.0, 1.0], user=3, round=2)
    sent += mine.report_sampled(GRID, [0.1] * 9, 4, user=4, round=2)
    sent += list_session(budget=1e9).report_neighbours(OWNED, [1, 2, 4], user=8)
    assert (tmp_path / "sent").read_bytes() == sent
    assert (tmp_path / "memory").read_bytes() == mine.to_bytes()
