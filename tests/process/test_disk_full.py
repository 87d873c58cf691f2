"""A disk without room: an error of ours, nothing half-written, and the handle goes on once there is room."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, Unit
from hermes_store.errors import DiskFull, UnitLost
from tests.process.processes import Child, assert_sound, children, counters_are_right, names, rows
from tests.process.upgrade_faults import can_watch_writes
from tests.process.upgrading import environment, spread
from tests.process.work import WORD
from tests.support.drivers import Engine

SIZE = 300_000
LARGE = WORD * (SIZE // len(WORD))

unix = pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")


def assert_only_before_and_after(path: Path, engine: Engine, answers: list[dict[str, Any]]) -> None:
    *failures, transaction, reading, after = answers
    for failure in failures:
        assert {"DiskFull", "DiskFailure"} & set(failure.get("error", ())), failure
        assert "OperationalError" in failure["error"]
    # The body of a `with` that cannot be kept is told of its loss, or of the reason.
    assert {"DiskFull", "DiskFailure", "UnitLost"} & set(transaction.get("error", ())), transaction
    assert reading == {"result": ["before"]}
    assert after == {"result": True}
    found = rows(path, engine, "SELECT session_id, substr(content, 1, 6) FROM messages ORDER BY id")
    assert found == [("a", "before"), ("a", "after ")]
    assert rows(path, engine, "SELECT id FROM sessions") == [("a",)]
    assert counters_are_right(path, engine)
    assert_sound(path, engine)


@unix
@pytest.mark.parametrize("spare", [0, 5_000, 70_000])
def test_no_file_may_grow(spare: int, engine: Engine, path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path) as (child,):
        answers = child.ask("fill_the_disk", path=str(path), spare=spare, size=SIZE)
    assert_only_before_and_after(path, engine, answers)


# -- a small file system ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path, engine: Engine) -> Iterator[tuple[Child, Path]]:
    """A process that sees a file system of 4 MB at a folder, and the folder; it is gone with the process."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs mount namespaces of Linux")
    folder = tmp_path / "small"
    folder.mkdir()
    apart = ["unshare", "--mount", "--propagation", "private", *([] if os.getuid() == 0 else ["--map-root-user"])]
    mount = f'mount -t tmpfs -o size=4m tmpfs "{folder}"'
    tried = subprocess.run([*apart, "sh", "-c", mount], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {tried.stderr.strip()}")
    with children(1, tmp_path, starter=[*apart, "sh", "-c", f'{mount} && exec "$@"', "sh"]) as (child,):
        yield child, folder


@pytest.mark.parametrize("spare", [0, 40_000])
def test_a_file_system_without_room(spare: int, small_disk: tuple[Child, Path], engine: Engine, tmp_path: Path) -> None:
    """The log, the journal, the shared memory and the file all need room; a new store cannot be made, nor is begun."""
    child, folder = small_disk
    path = tmp_path / "copy.db"
    *answers, opening, after = child.ask(
        "fill_a_small_disk", folder=str(folder), spare=spare, size=SIZE, target=str(path)
    )
    assert list(folder.iterdir()) == []  # all of it was on the other file system
    if "error" in opening:
        assert {"DiskFull", "DiskFailure", "OpenFailed"} & set(opening["error"]), opening
    assert spare or "error" in opening
    assert_only_before_and_after(path, engine, [*answers, after])


# -- a file that may not grow -----------------------------------------------------------------------------------


def by_append(store: Store) -> None:
    store.append("a", "user", {"content": LARGE})


def body(unit: Unit) -> None:
    unit.create_session("b", "cli")
    unit.append("b", "user", "half")
    unit.set_title("b", "Half")
    unit.append("b", "user", LARGE)


def by_write(store: Store) -> None:
    store.write(body)


def by_transaction(store: Store) -> None:
    with store.transaction() as unit:
        body(unit)


def by_orm(store: Store) -> None:
    from hermes_store.models import Session

    with store.transaction() as unit:
        unit.orm.add(Session(id="b", source="cli", started_at=1.0, title="Half"))
        unit.orm.flush()
        unit.append("b", "user", LARGE)


@pytest.mark.parametrize("pages", [0, 3, 20])
@pytest.mark.parametrize("door", [by_append, by_write, by_transaction, by_orm])
def test_no_page_may_be_added(door: Callable[[Store], None], pages: int, store: Store, engine: Engine) -> None:
    def limit(pages: int | None) -> None:
        def set_limit(unit: Unit) -> None:
            ((used,),) = unit.connection.sql("PRAGMA page_count")
            unit.connection.sql(f"PRAGMA max_page_count={2**31 if pages is None else used + pages}")

        store.write(set_limit)

    store.write(lambda unit: unit.create_session("a", "cli"))
    store.append("a", "user", {"content": "before"})
    limit(pages)
    for _ in range(3):
        with pytest.raises((DiskFull, UnitLost)) as caught:
            door(store)
        if isinstance(caught.value, UnitLost):
            assert door in (by_transaction, by_orm)
            assert isinstance(caught.value.reason, DiskFull)
        with store.reader() as reader:
            assert [each.content for each in reader.messages.of_session("a")] == ["before"]
            assert reader.sessions.count() == 1
            assert reader.sessions.get("a").message_count == 1
            assert len(reader.search.messages("before")) == 1
    limit(None)
    door(store)
    store.append("a", "user", {"content": "after"})
    store.close()
    assert rows(store.path, engine, "SELECT count(*) FROM messages WHERE content IN ('before', 'after')") == [(2,)]
    assert counters_are_right(store.path, engine)
    assert_sound(store.path, engine)


# -- a disk that is full from one write on ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with children(1, tmp_path_factory.mktemp("worker"), "tests.process.work_child") as (child,):
        yield child


@unix
@pytest.mark.parametrize(
    "moments", [pytest.param(8, id="short"), pytest.param(300, id="heavy", marks=pytest.mark.heavy)]
)
def test_full_from_any_write_on(worker: Child, moments: int, engine: Engine, tmp_path: Path) -> None:
    """The disk fills up in the middle of a statement, of a COMMIT, of a checkpoint or of a vacuum."""
    if not can_watch_writes(engine.driver):
        pytest.skip("this SQLite does not let its system calls be replaced")

    def go(name: str, writes: int) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "state.db"
        return path, worker.ask("fill_up", path=str(path), writes=writes, environment=environment(engine))

    _, unlimited = go("unlimited", 1_000_000)
    total = unlimited["writes"]
    assert unlimited["failed"] == []
    chosen = spread(total, min(moments, total))
    felt = 0
    for writes in chosen:
        path, told = go(f"full-{writes}", writes - 1)
        felt += bool(told["failed"])
        for failure in told["failed"]:
            assert {"DiskFull", "DiskFailure", "UnitLost", "OpenFailed"} & set(failure), (writes, failure)
        found = rows(path, engine, "SELECT content FROM messages WHERE content GLOB 'unit *' ORDER BY id")
        assert [text for (text,) in found] == told["texts"], writes
        assert rows(path, engine, "SELECT count(*) FROM messages WHERE content GLOB 'last*'") == [(1,)]
        assert counters_are_right(path, engine)
        assert_sound(path, engine)
        assert names(path.parent) <= {path.name + suffix for suffix in ("", "-wal", "-shm", ".quarantine.lock")}
        shutil.rmtree(path.parent)
    assert felt > len(chosen) / 4  # a checkpoint that finds no room is left to the next one
