"""The floors of the house: the import contracts hold, cover everything, and notice a breach."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONFIGURATION: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]

BREACHES = {
    "a model that opens a store": ("hermes_store/models/base.py", "import hermes_store.store"),
    "an error that knows the home": ("hermes_store/errors.py", "import hermes_store.home"),
    "a driver that knows tables": ("hermes_store/database/driver.py", "import hermes_store.fts.indexes"),
    "a repository that knows operations": (
        "hermes_store/repositories/meta.py",
        "import hermes_store.operations.titles",
    ),
    "an operation that opens a store": ("hermes_store/operations/append.py", "from hermes_store import store"),
    "a store that knows the drop-in": ("hermes_store/store.py", "import hermes_store.compat"),
    "the drop-in that prints": ("hermes_store/compat/shapes.py", "import hermes_store.cli.output"),
    "rooms of one floor that know each other": (
        "hermes_store/portability/export.py",
        "import hermes_store.maintenance",
    ),
    "a pure room that asks a database": ("hermes_store/conversation/content.py", "import sqlalchemy"),
    "a revision that knows models": (
        "migrations/versions/0023_separate_search_layout.py",
        "import hermes_store.models",
    ),
}


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", "pyproject.toml"],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUTF8": "1"},
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources."""
    for name in ("hermes_store", "migrations"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold() -> None:
    done = _lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CONFIGURATION['contracts'])} kept, 0 broken" in done.stdout


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_noticed(tree: Path, name: str) -> None:
    place, statement = BREACHES[name]
    module = tree / place
    module.write_text(f"{module.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")
    done = _lint(tree)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_every_room_has_its_floor() -> None:
    (floors,) = (each["layers"] for each in CONFIGURATION["contracts"] if each["type"] == "layers")
    named = {room.strip() for floor in floors for room in floor.replace(":", "|").split("|")}
    package = ROOT / "hermes_store"
    rooms = {each.stem for each in package.glob("*.py")} - {"__init__"}
    rooms |= {each.parent.name for each in package.glob("*/__init__.py")}
    assert {f"hermes_store.{room}" for room in rooms} == named


def test_no_contract_has_an_exception() -> None:
    assert [each for each in CONFIGURATION["contracts"] if "ignore_imports" in each] == []
