"""The copy that is made before an upgrade: complete, private, never over another file, and there when it is needed."""

import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.database.connection import Connection
from hermes_store.errors import BackupFailed
from tests.process.processes import names
from tests.process.upgrade_faults import can_watch_writes
from tests.process.upgrading import Old, Upgrader, content, copy_of, make_old, old_file, spread, upgrader
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


class Interrupted(Exception):
    """An upgrade that goes no further."""


@pytest.fixture(scope="module")
def upgrades(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrader]:
    with upgrader(tmp_path_factory.mktemp("upgrader")) as started:
        yield started


@pytest.fixture
def old(tmp_path: Path, engine: Engine) -> Old:
    return old_file(tmp_path, engine, "v16")


def copies_beside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.before-upgrade-*"))


def assert_whole(old: Old, copy: Path) -> None:
    """One private file with everything that the old one held."""
    assert {each for each in names(copy.parent) if each.startswith(copy.name)} == {copy.name}
    if sys.platform != "win32":
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(connect(copy, driver=old.engine.driver, read_only=True)) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert content(copy, old.engine) == old.before


@pytest.mark.parametrize(
    ("name", "place"), [("v1", "beside"), ("v16", "named"), ("v22", "beside"), ("usage_task_outside_key", "named")]
)
def test_the_copy_holds_what_the_file_held(tmp_path: Path, engine: Engine, name: str, place: str) -> None:
    old = old_file(tmp_path, engine, name)
    target = tmp_path / "kept.db"
    with old.copy() as path:
        with Store.open(path, backup=True if place == "beside" else target) as store:
            made = Path(str(store.report.backup))
        assert copies_beside(path) == ([made] if place == "beside" else [])
        assert place == "beside" or made == target
        assert_whole(old, made)
        assert old.look(path) == old.after


def test_the_copy_can_take_the_place_of_the_file(tmp_path: Path, engine: Engine, old: Old) -> None:
    with old.copy() as path:
        Store.open(path, backup=tmp_path / "kept.db").close()
    restored = copy_of(tmp_path / "kept.db", tmp_path / "restored.db")
    Store.open(restored).close()
    assert content(restored, engine) == old.after


@pytest.mark.parametrize("reason", ["taken", "no folder", "the file itself"])
def test_a_copy_that_cannot_be_made_keeps_the_file_from_being_changed(
    tmp_path: Path, engine: Engine, old: Old, reason: str
) -> None:
    with old.copy() as path:
        target = {"taken": tmp_path / "kept.db", "no folder": tmp_path / "no" / "kept.db"}.get(reason, path)
        (tmp_path / "kept.db").write_bytes(b"somebody's")
        with pytest.raises(BackupFailed, match="copy cannot be made"):
            Store.open(path, backup=target)
        assert old.look(path) == old.before
        assert (tmp_path / "kept.db").read_bytes() == b"somebody's"
        assert not (tmp_path / "no").exists()
        Store.open(path).close()
        assert old.look(path) == old.after


def test_what_is_in_the_log_alone_is_in_the_copy(tmp_path: Path, engine: Engine) -> None:
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")
    source = tmp_path / "source" / "state.db"
    source.parent.mkdir()
    make_old(source, engine, "v16")
    with closing(connect(source, driver=engine.driver)) as raw:
        raw.execute("PRAGMA wal_autocheckpoint=0")
        raw.execute("UPDATE sessions SET source = 'in the log alone'")
        left = copy_of(source, tmp_path / "left.db")
    alone = tmp_path / "alone.db"
    alone.write_bytes(left.read_bytes())
    assert "in the log alone" not in str(content(alone, engine)["sessions"])
    before = content(copy_of(left, tmp_path / "looked.db"), engine)
    with Store.open(left, backup=tmp_path / "kept.db") as store:
        assert store.report.changed
    assert "in the log alone" in str(before["sessions"])
    assert content(tmp_path / "kept.db", engine) == before


def test_there_is_nothing_to_keep_of_a_new_or_a_current_file(path: Path, engine: Engine) -> None:
    for target in (True, path.with_name("kept.db")):
        for _ in ("new", "current"):
            with Store.open(path, backup=target) as store:
                assert store.report.backup is None
        path.unlink()
    assert copies_beside(path) == []
    assert not path.with_name("kept.db").exists()


def test_a_reader_is_there(tmp_path: Path, engine: Engine, old: Old) -> None:
    """It keeps its snapshot in WAL mode; in DELETE mode the upgrade waits for its end."""
    with old.copy() as path, Store.open(path, read_only=True) as reading:
        snapshot = reading.reader()
        sessions = snapshot.__enter__().sessions.count()
        ended: list[bool] = []

        class Clock(FakeClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                if not ended:
                    ended.append(True)
                    snapshot.__exit__(None, None, None)

        with Store.open(path, backup=tmp_path / "kept.db", clock=Clock()) as store:
            assert store.report.changed
        assert bool(ended) == (engine.journal_mode == "delete")
        if not ended:
            snapshot.__exit__(None, None, None)
        with reading.reader() as reader:
            assert reader.sessions.count() == sessions
    assert_whole(old, tmp_path / "kept.db")


def test_an_upgrade_that_fails_takes_its_copy_away(tmp_path: Path, engine: Engine, old: Old) -> None:
    """FILE-6: the file is what the copy was."""

    def fail(step: str) -> None:
        if step == "search indexes":
            made.append(copies_beside(path) if target is True else [Path(str(target))])
            assert_whole(old, made[-1][0])
            raise Interrupted

    made: list[list[Path]] = []
    with old.copy() as path:
        for target in (True, tmp_path / "kept.db"):
            with pytest.raises(Interrupted):
                Store.open(path, backup=target, progress=fail)
            assert len(made.pop()) == 1
            assert copies_beside(path) == []
            assert not (tmp_path / "kept.db").exists()
            assert old.look(path) == old.before
        with Store.open(path, backup=tmp_path / "kept.db") as store:
            assert store.report.backup == str(tmp_path / "kept.db")
        assert old.look(path) == old.after
    assert_whole(old, tmp_path / "kept.db")


def test_an_interrupt_behind_the_commit_leaves_the_copy(
    tmp_path: Path, engine: Engine, old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is upgraded by then: only the copy has what it was."""
    run = Connection.sql

    def sql(connection: Connection, text: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        found = run(connection, text, parameters)
        if text == "COMMIT":
            raise KeyboardInterrupt
        return found

    with old.copy() as path:
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "sql", sql)
            with pytest.raises(KeyboardInterrupt):
                Store.open(path, backup=tmp_path / "kept.db")
        assert old.look(path) == old.after
    assert_whole(old, tmp_path / "kept.db")


@needs_fork
def test_one_of_many_makes_the_copy(upgrades: Upgrader, engine: Engine, old: Old) -> None:
    with old.copy() as path:
        arguments: dict[str, Any] = {"path": str(path), "backup": True}
        outcomes = upgrades.together(engine, *[("upgrade", arguments)] * 4, ("read", {"path": str(path), "times": 10}))
        assert all("result" in each for each in outcomes), outcomes
        (copy,) = copies_beside(path)
        assert_whole(old, copy)


@needs_fork
@pytest.mark.parametrize(
    "moments", [pytest.param(5, id="short"), pytest.param(1_000_000, id="heavy", marks=pytest.mark.heavy)]
)
def test_no_room_for_the_copy(upgrades: Upgrader, engine: Engine, old: Old, moments: int) -> None:
    if not can_watch_writes(engine.driver):
        pytest.skip("this SQLite does not let its system calls be replaced")
    with old.copy() as path:
        total = upgrades.do(engine, "upgrade_until", path, kind="writes", fatal=None, backup=True)
    kinds = set()
    for fatal in spread(total, min(moments, total)):
        with old.copy() as path:
            (first,) = upgrades.do(engine, "upgrade_on_a_full_disk", path, writes=fatal - 1, backup=True)
            found = copies_beside(path)
            kinds.add(first.get("error", ["done"])[0])
            if "BackupFailed" in first.get("error", ["done"]):
                assert found == []
                assert old.look(path) == old.before
            else:
                assert "result" in first or old.look(path) == old.before
                for copy in found:
                    assert_whole(old, copy)
            Store.open(path).close()
            assert old.look(path) == old.after
    assert "BackupFailed" in kinds


@needs_fork
@pytest.mark.parametrize(
    "moments", [pytest.param(4, id="short"), pytest.param(1_000_000, id="heavy", marks=pytest.mark.heavy)]
)
def test_killed_while_the_copy_is_made(upgrades: Upgrader, engine: Engine, old: Old, moments: int) -> None:
    """The next open makes one of its own."""
    if not can_watch_writes(engine.driver):
        pytest.skip("this SQLite does not let its system calls be replaced")
    with old.copy() as path:
        total = upgrades.do(engine, "upgrade_until", path, kind="writes", fatal=None, backup=True)
    for fatal in spread(total, min(moments, total)):
        with old.copy() as path:
            outcome = upgrades.do(engine, "upgrade_until", path, kind="writes", fatal=fatal, backup=True)
            assert outcome == {"signal": signal.SIGKILL}
            left = old.look(path)
            for copy in copies_beside(path):
                assert_whole(old, copy)
            with Store.open(path, backup=True) as store:
                assert store.report.changed == ("display_kind" not in str(left["schema"]))
                if store.report.changed:
                    assert left == old.before
                    assert_whole(old, Path(str(store.report.backup)))
            assert old.look(path) == old.after
