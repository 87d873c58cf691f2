"""Kinds of work that a process may be killed in. Every unit has a number, which each of its rows carries.

A unit is acknowledged once the call that did it has returned.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_store import SessionDB, Store, Unit, connect
from hermes_store.database import load_driver
from hermes_store.maintenance.optimize import StorageProgress, optimize_storage
from tests.snapshots.build import build_version
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

WORD = "walrus"
"""A word in every row."""

LARGE = " ".join(f"tusk{number}" for number in range(2_000))
OLD_IDS_APART = 300
"""Distance of the ids of old messages: a step of a rebuild covers two of them."""

SEGMENTS = 80
"""Segments of an index that is in pieces."""

Acknowledge = Callable[[int], object]


def text_of(unit: int, row: int, rows: int) -> str:
    """The content of one row of a unit."""
    return f"{WORD} of unit {unit} row {row} of {rows}"


def append(unit: Unit, session: str, number: int, rows: int, more: str = "") -> None:
    """The rows of a unit."""
    for row in range(rows):
        unit.append(session, "user", text_of(number, row, rows) + more)


def single_appends(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """Each message is a unit."""
    with SessionDB(path) as db:
        session = db.create_session(f"s{begin}", "cli")
        for number in itertools.count(begin):
            db.append_message(session, "user", text_of(number, 0, 1))
            acknowledge(number)
            yield


def batches(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """Fifty messages are a unit."""
    with Store.open(path) as store:
        session = store.write(lambda unit: unit.create_session(f"s{begin}", "cli"))
        for number in itertools.count(begin):
            store.write(lambda unit, number=number: append(unit, session, number, 50))  # type: ignore[misc]
            acknowledge(number)
            yield


def compactions(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """The end of a session, the next one with its first rows, and its title are a unit."""
    with Store.open(path) as store:
        old = store.write(lambda unit: unit.create_session(f"s{begin}", "cli"))
        for number in itertools.count(begin):

            def compact(unit: Unit, old: str = old, number: int = number) -> str:
                unit.end_session(old, "compression")
                new = unit.create_session(f"segment-{number}", "cli", parent_session_id=old)
                append(unit, new, number, 6)
                unit.set_title(new, f"Title {number}")
                return new

            old = store.write(compact)
            acknowledge(number)
            yield


def checkpoints(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """Large messages, with checkpoints of every kind between them, some of them beside a snapshot."""
    with Store.open(path) as store, closing(connect(path, timeout=0)) as raw:
        session = store.write(lambda unit: unit.create_session(f"s{begin}", "cli"))
        for number in itertools.count(begin):
            in_snapshot = number % 2 == 1 and store.journal_mode == "wal"  # elsewhere it would keep everybody waiting
            if in_snapshot:
                raw.execute("BEGIN")
                raw.execute("SELECT count(*) FROM messages").fetchone()
            store.write(lambda unit, number=number: append(unit, session, number, 3, LARGE))  # type: ignore[misc]
            acknowledge(number)
            if in_snapshot:
                with closing(connect(path, timeout=0)) as other:
                    other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                raw.execute("ROLLBACK")
            raw.execute(f"PRAGMA wal_checkpoint({('PASSIVE', 'FULL', 'RESTART', 'TRUNCATE')[number % 4]})").fetchall()
            yield


def vacuums(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """A session with rows, and, as the next unit, its end and that of its space in the file."""
    with Store.open(path) as store:
        for number in itertools.count(begin):
            if number % 2 == 0:

                def fill(unit: Unit, number: int = number) -> None:
                    append(unit, unit.create_session(f"s{number}", "cli"), number, 3, LARGE)

                store.write(fill)
                acknowledge(number)
            else:
                store.write(lambda unit, number=number: unit.delete_conversation(f"s{number - 1}"))  # type: ignore[misc]
                acknowledge(number)
                store.vacuum()
            yield


def changes_of_layout(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """The indexes are brought to today's layout, with an append between every two steps."""
    numbers = itertools.count(begin)

    def told(_: StorageProgress) -> None:
        number = next(numbers)
        store.write(lambda unit: append(unit, "before", number, 2))
        acknowledge(number)

    with Store.open(path, clock=FakeClock()) as store:
        assert optimize_storage(store, progress=told, vacuum=False).ok
    yield


def rebuild_steps(path: Path, acknowledge: Acknowledge, begin: int) -> Iterator[None]:
    """The indexes are filled step by step, with an append before each."""
    with SessionDB(path) as db:
        more = True
        for number in itertools.count(begin):
            db.append_message("before", "user", text_of(number, 0, 1))
            acknowledge(number)
            if more:
                more = db.fts_rebuild_step()
            yield


@dataclass(frozen=True)
class Work:
    """Something to be killed in.

    steps: how often it is done for one count of moments. alone: nobody has worked on its file before it. old: the file
    that it begins with has indexes of an old layout. in_pieces: it has indexes of many segments, due to be merged.
    """

    do: Callable[[Path, Acknowledge, int], Iterator[None]]
    steps: int
    alone: bool = False
    old: bool = False
    in_pieces: bool = False


KINDS = {
    "appends": Work(single_appends, 5),
    "merges": Work(single_appends, 3, alone=True, in_pieces=True),
    "batches": Work(batches, 2),
    "compactions": Work(compactions, 3),
    "checkpoints": Work(checkpoints, 4),
    "vacuums": Work(vacuums, 4, alone=True),
    "layout": Work(changes_of_layout, 1, alone=True, old=True),
    "rebuild": Work(rebuild_steps, 6, alone=True, old=True),
}


def run(path: Path, kind: str, begin: int, steps: int, acknowledge: Acknowledge) -> None:
    """Do so many steps of a kind of work, or as many as there are."""
    with closing(KINDS[kind].do(path, acknowledge, begin)) as working:  # type: ignore[type-var]
        for _ in itertools.islice(working, steps):
            pass


# -- before -----------------------------------------------------------------------------------------------------


class _Enough(Exception):
    """Ends a change of the layout at its first progress."""


def prepare(path: Path, engine: Engine, kind: str) -> None:
    """The file that this kind of work begins with, closed."""
    if not KINDS[kind].old:
        with SessionDB(path) as db:
            db.create_session("before", "cli")
            db.append_message("before", "user", f"{WORD} from before")
        if KINDS[kind].in_pieces:
            _leave_segments(path, engine)
        return
    build_version(path, load_driver(engine.driver).module, 22, journal_mode=engine.journal_mode, sessions=2, turns=2)
    with closing(connect(path, driver=engine.driver)) as raw:
        raw.execute("UPDATE messages SET id = id * ?", (OLD_IDS_APART,))
    with _stopping() as stop, Store.open(path, clock=FakeClock()) as store:
        store.write(lambda unit: unit.create_session("before", "cli"))
        store.append("before", "user", {"content": f"{WORD} from before"})
        if kind == "rebuild":
            optimize_storage(store, progress=stop, vacuum=False)


def _leave_segments(path: Path, engine: Engine) -> None:
    """Many rows, each in a segment of its own: what a writer leaves that is killed before it merges."""
    with closing(connect(path, driver=engine.driver)) as raw:
        for index in ("messages_fts", "messages_fts_trigram"):
            raw.execute(f"INSERT INTO {index}({index}, rank) VALUES ('automerge', 0), ('crisismerge', 1000)")
        for number in range(SEGMENTS):
            raw.execute(
                "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('before', 'user', ?, 1)",
                (f"{WORD} number {number} from before",),
            )
        raw.execute("UPDATE sessions SET message_count = ?", (SEGMENTS + 1,))


@contextmanager
def _stopping() -> Iterator[Callable[[StorageProgress], None]]:
    def stop(_: Any) -> None:
        raise _Enough

    try:
        yield stop
    except _Enough:
        return
