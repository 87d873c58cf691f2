"""A process that is killed at any moment of any work leaves a sound file, all that it acknowledged, no half unit."""

import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store, connect
from hermes_store.maintenance.optimize import optimize_storage
from tests.process.processes import Child, assert_sound, children, counters_are_right, names, rows
from tests.process.upgrade_faults import can_watch_writes
from tests.process.upgrading import copy_of, environment
from tests.process.work import KINDS, WORD, prepare
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and fork")

kinds = pytest.mark.parametrize("kind", KINDS)
MESSAGES = (
    "SELECT * FROM messages WHERE content IS NULL OR content NOT GLOB '*of unit*' AND "
    "content NOT GLOB '*from after' ORDER BY id"
)
"""What the file held when it was prepared."""
SPELLING = re.compile(r"of unit (\d+) row (\d+) of (\d+)")


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with children(1, tmp_path_factory.mktemp("killer"), "tests.process.work_child") as (child,):
        yield child


def forms(short: int, heavy: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "rounds", [pytest.param(short, id="short"), pytest.param(heavy, id="heavy", marks=pytest.mark.heavy)]
    )


class Base:
    """The file that every round begins with."""

    def __init__(self, folder: Path, engine: Engine, kind: str) -> None:
        self.engine = engine
        self.kind = kind
        self.folder = folder / "round"
        self._file = folder / "base.db"
        prepare(self._file, engine, kind)
        self.messages = rows(self._file, engine, MESSAGES)
        assert self.messages

    def fresh(self) -> Path:
        """A copy of it, alone in a folder."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir()
        return copy_of(self._file, self.folder / "state.db")


def units_of(path: Path, engine: Engine) -> dict[int, set[int]]:
    """The ids of the rows of every unit that left any, each of which is whole."""
    found: dict[int, set[int]] = {}
    parts = Counter[tuple[int, int]]()
    for row_id, content in rows(path, engine, "SELECT id, content FROM messages WHERE content LIKE '%of unit%'"):
        spelt = SPELLING.search(content)
        assert spelt is not None
        unit, row, count = map(int, spelt.groups())
        found.setdefault(unit, set()).add(row_id)
        parts[unit, count] += 1
        assert row < count
    assert {unit: number for (unit, _), number in parts.items()} == dict(parts.keys())
    return found


def assert_all_there(path: Path, base: Base, acknowledged: list[int]) -> None:
    """What was acknowledged is there, and of what was under way at the end all or nothing."""
    assert rows(path, base.engine, MESSAGES) == base.messages
    found = units_of(path, base.engine)
    if base.kind == "vacuums":
        # Every second unit removes the one before it.
        removed = {number - 1 for number in acknowledged if number % 2}
        at_the_end = {acknowledged[-1], acknowledged[-1] + 1} if acknowledged else {0}
        assert not removed & found.keys()
        assert {number for number in acknowledged if number % 2 == 0} - removed - at_the_end <= found.keys()
        assert found.keys() <= at_the_end
        sessions = rows(path, base.engine, "SELECT id FROM sessions WHERE id <> 'before'")
        assert sessions == [(f"s{number}",) for number in found]
    else:
        assert set(acknowledged) <= found.keys()
    if base.kind == "compactions":
        segments = rows(
            path,
            base.engine,
            "SELECT s.id, s.title, p.end_reason FROM sessions s JOIN sessions p ON p.id = s.parent_session_id "
            "AND p.ended_at IS NOT NULL ORDER BY s.rowid",
        )
        assert segments == [(f"segment-{number}", f"Title {number}", "compression") for number in sorted(found)]
        assert rows(path, base.engine, "SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL") == [(len(found),)]


def judge(path: Path, base: Base, acknowledged: list[int], survivor: SessionDB | None = None) -> None:
    """Everything that has to be true of a file whose writer was killed, for whoever had it open and who opens it."""
    engine = base.engine
    with survivor if survivor is not None else SessionDB(path) as db:
        assert db.store.report.quarantined is None
        db.append_message("before", "user", f"{WORD} from after")
        stored = {row_id for ids in units_of(path, engine).values() for row_id in ids}
        assert {hit["id"] for hit in db.search_messages(WORD, limit=None)} > stored
        assert db.search_messages(f"{WORD} after")
    assert_all_there(path, base, acknowledged)
    assert counters_are_right(path, engine)
    if KINDS[base.kind].old:
        with closing(connect(path, driver=engine.driver)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        # Marked as being filled, until somebody goes on.
        with Store.open(path, clock=FakeClock()) as store:
            assert optimize_storage(store, vacuum=False).ok
        assert_all_there(path, base, acknowledged)
    assert rows(path, engine, "SELECT * FROM state_meta WHERE key LIKE 'fts_rebuild%'") == []
    assert_sound(path, engine)
    assert names(path.parent) <= {path.name + suffix for suffix in ("", "-wal", "-shm", ".quarantine.lock")}


def moments_of(engine: Engine) -> list[str]:
    below = ["writes", "half writes"] if can_watch_writes(engine.driver) else []
    return [*below, "statements", "steps"]


@kinds
@forms(short=3, heavy=160)
def test_killed_at_a_moment(killer: Child, tmp_path: Path, engine: Engine, kind: str, rounds: int) -> None:
    """Before a write, in the middle of one, before a statement, or within one; which one is drawn."""
    base = Base(tmp_path, engine, kind)
    told: dict[str, Any] = {"kind": kind, "environment": environment(engine)}
    chance = random.Random(f"{kind} {engine.label}")
    moments = moments_of(engine)
    totals: dict[str, int] = {}
    killed = 0
    for turn in range(rounds):
        chosen = moments[turn % len(moments)]
        if chosen not in totals:
            totals[chosen] = killer.ask("count", path=str(base.fresh()), moments=chosen, **told)
            assert totals[chosen] > KINDS[kind].steps
        path = base.fresh()
        # Without another one that has the file open, the next opener finds a log or a journal to play back.
        survivor = SessionDB(path) if turn // len(moments) % 2 else None
        fatal = chance.randint(1, totals[chosen])
        outcome = killer.ask("die_at", path=str(path), moments=chosen, fatal=fatal, **told)
        killed += outcome["killed"]
        judge(path, base, outcome["acknowledged"], survivor)
    assert killed > rounds / 2


@kinds
@forms(short=2, heavy=40)
def test_killed_by_chance(killer: Child, tmp_path: Path, engine: Engine, kind: str, rounds: int) -> None:
    """Each process works on what those before it left, where its work goes on for ever."""
    base = Base(tmp_path, engine, kind)
    chance = random.Random(f"{kind} {engine.label}")
    path = base.fresh()
    acknowledged: list[int] = []
    for turn in range(rounds):
        if KINDS[kind].alone:
            path, acknowledged = base.fresh(), []
        outcome = killer.ask(
            "kill_after",
            path=str(path),
            kind=kind,
            begin=0 if KINDS[kind].alone else 1000 * turn,
            units=chance.randint(0, 8),
            part=chance.random(),
            environment=environment(engine),
        )
        acknowledged += outcome["acknowledged"]
        judge(path, base, acknowledged)
