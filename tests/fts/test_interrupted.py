"""A change of the layout may end anywhere: the file works, and the next run completes it (FTS-8, FTS-10)."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, Unit
from hermes_store.database import connection as connection_module
from hermes_store.fts import rebuild
from hermes_store.fts.storage import prepare, teardown
from hermes_store.maintenance.optimize import StorageProgress, is_optimize_available, optimize_storage
from tests.fts.helpers import (
    ANY_ENGINE,
    HIGH_WATER,
    PROGRESS,
    Interrupted,
    assert_finds,
    assert_settled,
    build_1200,
    build_old,
    due,
    indexed,
    interrupt_at,
    messages_of,
    open_store,
    optimize,
    search_marks,
    set_marks,
)
from tests.schema.inspecting import change, opened, rows
from tests.support.drivers import Engine

ROOT = Path(__file__).parents[2]
STAGES = ("begun", "filling", "filled", "removing")


def _bring_to(stage: str, store: Store) -> None:
    """Do the units of a change up to a stage."""
    store.write(lambda unit: prepare(unit.connection))
    if stage != "begun":
        store.write(lambda unit: rebuild.step(unit.connection))
    if stage in ("filled", "removing"):
        while store.write(lambda unit: rebuild.step(unit.connection)):
            pass
    if stage == "removing":
        assert store.write(lambda unit: teardown(unit.connection))


def _remains(path: Path, engine: Engine) -> int:
    with opened(path, engine.driver) as raw:
        return len(rows(raw, "SELECT 1 FROM sqlite_master WHERE name LIKE 'fts_v22_trash_%'"))


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_leaves_on_disk_and_what_the_next_run_does(engine: Engine, path: Path, stage: str) -> None:
    build_1200(path, engine)
    with open_store(path) as store:
        before = messages_of(path, engine)
        _bring_to(stage, store)
    marks = {"begun": "0", "filling": "500"}
    expected = {HIGH_WATER: "1200", PROGRESS: marks[stage]} if stage in marks else {}
    remains = _remains(path, engine)
    assert remains > 0
    for _ in range(2):  # opening it neither rebuilds nor settles anything
        with open_store(path) as store:
            assert store.report.search_rebuilt == ()
            assert is_optimize_available(store)
            with store.reader() as reader:
                assert len(reader.search.messages("timeout", limit=None)) > 300
        assert search_marks(path, engine) == expected
        assert _remains(path, engine) == remains
    with opened(path, engine.driver) as raw:
        assert indexed(raw) == due(raw)[: int(marks.get(stage, 1200))]
    with open_store(path) as store:
        assert optimize(store).ok
    assert messages_of(path, engine) == before
    assert_settled(path, engine)


@ANY_ENGINE
def test_without_remains_and_marks_the_next_open_settles(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    with open_store(path) as store, pytest.raises(Interrupted):
        optimize_storage(store, progress=_at_phase("vacuum"))
    assert search_marks(path, engine) == {}
    Store.open(path).close()
    assert_settled(path, engine)


def _at_phase(phase: str) -> Any:
    def tell(progress: StorageProgress) -> None:
        if progress.phase == phase:
            raise Interrupted

    return tell


@ANY_ENGINE
def test_a_file_that_was_left_without_any_index(engine: Engine, path: Path) -> None:
    """Others make the new tables only after the old ones were put aside."""
    story = build_old(path, engine)
    with open_store(path) as store:
        _bring_to("begun", store)
    names = ("messages_fts", "messages_fts_trigram")
    for name in names:
        change(
            path,
            engine.driver,
            f"DROP TABLE {name}",
            *(f"DROP TRIGGER {name}_{event}" for event in ("insert", "delete", "update")),
        )
    change(path, engine.driver, "DROP VIEW messages_fts_trigram_src")
    with open_store(path) as store:
        assert store.report.search_rebuilt == names
        assert_finds(store, story)
        assert search_marks(path, engine) == {}
        assert is_optimize_available(store)
        assert optimize(store).ok
    assert_settled(path, engine)


@ANY_ENGINE
@pytest.mark.parametrize("event", range(1, 12))
def test_a_callback_that_raises_ends_the_run_and_the_next_one_goes_on(engine: Engine, path: Path, event: int) -> None:
    build_1200(path, engine)
    with open_store(path) as store:
        before = messages_of(path, engine)
        with pytest.raises(Interrupted):
            optimize_storage(store, progress=interrupt_at(event))
        assert optimize(store).ok
        assert messages_of(path, engine) == before
    assert_settled(path, engine)


# -- in the middle of a unit ---------------------------------------------------------------------------------


@contextmanager
def failing_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Raise before the statement with that number, once; gives the statements so far."""
    seen: list[str] = []
    real = connection_module.Connection._execute

    def execute(self: Any, sql: str, arguments: tuple[Any, ...]) -> Any:
        seen.append(sql)
        if len(seen) == number:
            raise Interrupted
        return real(self, sql, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(connection_module.Connection, "_execute", execute)
        yield seen


def _fail_and_go_on(source: Path, path: Path, engine: Engine, number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let one run fail at a statement; False if it has fewer."""
    shutil.copyfile(source, path)
    before = messages_of(path, engine)
    with open_store(path) as store:
        with failing_at(number, monkeypatch) as seen:
            try:
                optimize(store)
            except Interrupted:
                pass
            else:
                assert len(seen) < number
                return False
        # The handle goes on as if nothing had been, and so does one that is opened now.
        with store.transaction() as unit:
            unit.create_session("new", "cli")
            row_id = unit.append("new", "user", "an axolotl came later")
        assert messages_of(path, engine)[:-1] == before
        for each in (store, open_store(path)):
            with each.reader() as reader:
                assert [hit.id for hit in reader.search.messages("axolotl")] == [row_id]
                assert reader.search.messages("docker")
        each.close()
        assert optimize(store).ok
    assert_settled(path, engine)
    return True


@pytest.mark.parametrize(
    ("first", "stride"),
    [pytest.param(3, 37, id="some"), pytest.param(1, 1, id="every", marks=pytest.mark.heavy)],
)
@pytest.mark.parametrize("version", [10, 22])
def test_a_failure_at_a_statement(
    engine: Engine, path: Path, tmp_path: Path, first: int, stride: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.db"
    build_old(source, engine, version)
    open_store(source).close()
    tried = 0
    for number in range(first, 1000, stride):
        copied = path.with_name(f"{number}.db")
        if not _fail_and_go_on(source, copied, engine, number, monkeypatch):
            break
        tried += 1
    assert tried >= 80 // stride


def test_a_message_written_in_the_unit_that_begins(engine: Engine, path: Path) -> None:
    story = build_old(path, engine)
    with open_store(path) as store:
        with store.transaction() as unit:
            before = unit.append(story.session_ids[0], "user", "an axolotl before")
            rebuild.begin(unit.connection)
            after = unit.append(story.session_ids[0], "user", "an axolotl after")
        with store.reader() as reader:
            assert {hit.id for hit in reader.search.messages("axolotl")} == {before, after}
        assert optimize(store).ok
    assert_settled(path, engine)


def _begin_and_fail(unit: Unit) -> None:
    rebuild.begin(unit.connection)
    raise Interrupted


def test_a_unit_that_begins_and_is_rolled_back_leaves_the_old_index(engine: Engine, path: Path) -> None:
    story = build_old(path, engine)
    with open_store(path) as store:
        with opened(path, engine.driver) as raw:
            before = rows(raw, "SELECT name, sql FROM sqlite_master ORDER BY name")
        with pytest.raises(Interrupted):
            store.write(_begin_and_fail)
        with opened(path, engine.driver) as raw:
            assert rows(raw, "SELECT name, sql FROM sqlite_master ORDER BY name") == before
        with store.transaction() as unit:
            unit.append(story.session_ids[0], "user", "an axolotl")
        with store.reader() as reader:
            assert len(reader.search.messages("axolotl")) == 1
        assert_finds(store, story)


# -- a process that dies -------------------------------------------------------------------------------------

_CHILD = """
import sys
from hermes_store import Store
from hermes_store.maintenance import optimize

optimize.MIN_PAUSE = optimize.DUTY = 0

def tell(progress):
    print(progress.phase, flush=True)
    sys.stdin.readline()

with Store.open(sys.argv[1]) as store:
    optimize.optimize_storage(store, progress=tell)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("event", [3, *(pytest.param(each, marks=pytest.mark.heavy) for each in (1, 2, 4, 6, 8, 10))])
def test_a_process_that_is_killed_between_two_units(engine: Engine, path: Path, event: int) -> None:
    build_1200(path, engine)
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for _ in range(event - 1):
            assert child.stdout.readline()
            child.stdin.write("\n")
            child.stdin.flush()
        assert child.stdout.readline()
        child.kill()
    with open_store(path) as store:
        with store.reader() as reader:
            assert len(reader.search.messages("timeout", limit=None)) > 300
        assert optimize(store).ok
    assert_settled(path, engine)


@pytest.mark.parametrize("marks", [(1200, None), (None, None)])
def test_lost_marks(engine: Engine, path: Path, marks: tuple[object, object]) -> None:
    """Half of them: what is in the index cannot be told from what is not. All of them: it lacks rows."""
    build_1200(path, engine)
    with open_store(path) as store:
        _bring_to("filling", store)
    with opened(path, engine.driver) as raw:
        set_marks(raw, *marks)
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)
