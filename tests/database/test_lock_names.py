"""The lock of an upgrade belongs to the file itself, by whatever name it was opened, and however long that name is."""

import os
import sys
from pathlib import Path

import pytest

from hermes_store import HermesStoreError, Store
from hermes_store.database.health import first_open_lock, is_being_upgraded
from tests.process.processes import names
from tests.process.upgrading import make_old, upgrader
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

if sys.platform == "win32":
    pytest.skip("the lock is one of POSIX", allow_module_level=True)


def _locks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.quarantine.lock"))


@pytest.mark.parametrize(("second", "step"), [("link.db", "search indexes"), ("state.db", "tables and columns")])
def test_who_comes_by_a_link_waits_for_the_upgrade(tmp_path: Path, engine: Engine, second: str, step: str) -> None:
    path = tmp_path / "real" / "state.db"
    path.parent.mkdir()
    make_old(path, engine, "v10")
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / second
    link.symlink_to(path)
    with upgrader(tmp_path) as upgrading:
        upgrading.hold(path, engine, step)

        class Clock(FakeClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                if upgrading.holds:
                    assert upgrading.finish()["changed"]

        clock = Clock()
        with Store.open(link, clock=clock) as store:
            assert clock.slept
            assert not upgrading.holds
            assert not store.report.changed
    assert _locks(tmp_path) == [path.with_name("state.db.quarantine.lock")]
    assert names(link.parent) == {link.name}


@pytest.mark.parametrize("version", ["", "v10"])
@pytest.mark.parametrize(("length", "letter"), [(239, "x"), (240, "x"), (245, "x"), (247, "x"), (247, "é")])
def test_long_names_open(tmp_path: Path, engine: Engine, length: int, letter: str, version: str) -> None:
    stem = letter * ((length - 3) // len(letter.encode()))
    name = stem + "_" * (length - 3 - len(stem.encode())) + ".db"
    assert len(name.encode()) == length
    path = tmp_path / name
    if version:
        make_old(tmp_path / "old.db", engine, version)
        (tmp_path / "old.db").rename(path)
    with Store.open(path) as store:
        assert store.report.adopted == bool(version)
        store.write(lambda unit: unit.create_session("a", "cli"))
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert reader.sessions.get("a") is not None


@pytest.mark.parametrize("length", [256, 300, 5000])
@pytest.mark.parametrize("read_only", [False, True])
def test_names_that_are_too_long_are_an_error_of_ours(
    tmp_path: Path, engine: Engine, length: int, read_only: bool
) -> None:
    with pytest.raises(HermesStoreError):
        Store.open(tmp_path / ("x" * length), read_only=read_only)
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_that_a_child_has_inherited_keeps_no_lock(path: Path) -> None:
    """A fork while the lock is held gives the child a share of it."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("descriptors are listed on Linux only")
    with first_open_lock(path, FakeClock()) as held:
        assert held
        (number,) = (each.name for each in descriptors.iterdir() if each.resolve().name.endswith(".quarantine.lock"))
        shared = os.dup(int(number))
        assert is_being_upgraded(path)
    try:
        assert not is_being_upgraded(path)
        with first_open_lock(path, FakeClock(), patience=0.0) as again:
            assert again
    finally:
        os.close(shared)
