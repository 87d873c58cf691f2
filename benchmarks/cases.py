"""The cases: for each the call into the library, the floor beside it, and the check that both give the same."""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import floors, seed
from benchmarks.runner import Pair, Sample, Side, compare, same, timed
from hermes_store import SessionDB, Settings, Store
from hermes_store.database import Driver
from hermes_store.fts.query import Route

if TYPE_CHECKING:
    from hermes_store import Unit
    from hermes_store.database.driver import DriverConnection

Prepare = Callable[["Workbench"], Pair]

BATCH = 100
APPENDS_PER_BLOCK = 10
PAGE = 20
_DRAFTS = 400


class Workbench:
    """A seeded store, and copies of it for whoever asks. Both sides of a case have a copy of their own."""

    def __init__(self, source: Path, driver: Driver, stack: ExitStack) -> None:
        self.driver = driver
        self._source = source
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-store-benchmark-")))
        self._number = itertools.count()

    @cached_property
    def journal_mode(self) -> str:
        """The mode that the copies are in."""
        with Store.open(self.copy()) as store:
            return store.journal_mode

    def copy(self) -> Path:
        """A fresh copy, written through to the disk."""
        return seed.copy_of(self._source, self._folder / f"copy-{next(self._number)}.db")

    def session_db(self) -> SessionDB:
        """The library on a fresh copy."""
        return self._stack.enter_context(closing(SessionDB(self.copy())))

    def writer(self) -> "DriverConnection":
        """A floor's connection on a fresh copy, for writing."""
        return self._stack.enter_context(closing(floors.connect_writer(self.driver, self.copy())))

    @cached_property
    def reading(self) -> "tuple[SessionDB, DriverConnection]":
        """Both sides of the cases that only read."""
        library = self.session_db()
        return library, self._stack.enter_context(closing(floors.connect_reader(self.driver, self.copy())))


@dataclass(frozen=True)
class Case:
    """One case. `target`: the ratio to stay below; `binding`: False for one that is to be reached later."""

    name: str
    work: str
    prepare: Prepare
    target: float | None = None
    binding: bool = True


# -- processes and handles ----------------------------------------------------------------------------------


def _imports(statement: str) -> Side:
    """Times a statement in fresh interpreters, their own start left out."""
    program = (
        "import time; cpu = time.process_time(); wall = time.perf_counter()\n"
        f"{statement}\n"
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )

    def run(calls: int) -> Sample:
        total = Sample(0.0, 0.0)
        for _ in range(calls):
            done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            wall, cpu = map(float, done.stdout.split())
            total = Sample(total.wall + wall, total.cpu + cpu)
        return total

    return run


def _import(_: Workbench) -> Pair:
    library, floor = _imports("from hermes_store import SessionDB"), _imports("import sqlalchemy.orm")

    def warm_up() -> None:
        library(1)
        floor(1)

    return Pair(library, floor, warm_up, calls=1, blocks=1)


def _open(bench: Workbench) -> Pair:
    ours, theirs = bench.copy(), bench.copy()
    settings = Settings.from_environment()

    def library() -> str:
        store = Store.open(ours, settings=settings)
        store.close()
        return store.journal_mode

    floor = partial(floors.open_and_close, bench.driver, theirs)
    return Pair(timed(library), timed(floor), same(library, floor))


# -- writing ------------------------------------------------------------------------------------------------


def _append(bench: Workbench) -> Pair:
    db, connection = bench.session_db(), bench.writer()
    ours, theirs = itertools.cycle(seed.drafts(1, _DRAFTS)), itertools.cycle(seed.drafts(1, _DRAFTS))

    def library() -> int:
        return db.append_message(seed.TARGET, **next(ours))

    def floor() -> int:
        return floors.append(connection, seed.TARGET, next(theirs))

    def check() -> None:
        for _ in range(10):
            compare(library(), floor())
        _compare_written(db, connection)

    return Pair(timed(library), timed(floor), check, calls=APPENDS_PER_BLOCK)


def _batch(bench: Workbench) -> Pair:
    db, connection = bench.session_db(), bench.writer()
    batch = seed.drafts(2, BATCH)

    def fill(unit: "Unit") -> list[int]:
        return [unit.append(seed.TARGET, **draft) for draft in batch]

    def library() -> list[int]:
        return db.store.write(fill)

    def floor() -> list[int]:
        return floors.append_all(connection, seed.TARGET, batch)

    def check() -> None:
        compare(library(), floor())
        _compare_written(db, connection)

    return Pair(timed(library), timed(floor), check)


def _compare_written(db: SessionDB, connection: "DriverConnection") -> None:
    """Rows, counters, and what the index finds; only the times may differ."""
    library = db.get_messages(seed.TARGET)
    floor = floors.get_messages(connection, seed.TARGET)
    for message in (*library, *floor):
        message["timestamp"] = None
    compare(library, floor)
    session = db.get_session(seed.TARGET) or {}
    counters = "SELECT message_count, tool_call_count FROM sessions WHERE id = ?"
    compare(
        (session.get("message_count"), session.get("tool_call_count")),
        tuple(connection.execute(counters, (seed.TARGET,)).fetchone()),
    )


# -- reading ------------------------------------------------------------------------------------------------


def _reading(library: Callable[[SessionDB], Any], floor: "Callable[[DriverConnection], Any]") -> Prepare:
    """A case that calls both sides on the copies for reading."""

    def prepare(bench: Workbench) -> Pair:
        db, connection = bench.reading
        ours, theirs = partial(library, db), partial(floor, connection)
        return Pair(timed(ours), timed(theirs), same(ours, theirs))

    return prepare


def _get_messages(session_id: str) -> Prepare:
    return _reading(lambda db: db.get_messages(session_id), lambda raw: floors.get_messages(raw, session_id))


def _conversation(session_id: str) -> Prepare:
    return _reading(
        lambda db: db.get_messages_as_conversation(session_id), lambda raw: floors.get_conversation(raw, session_id)
    )


def _list() -> Prepare:
    return _reading(lambda db: db.list_sessions_rich(limit=PAGE), lambda raw: floors.list_sessions(raw, PAGE))


def _search(query: str, needle: str, index: str, match: str) -> Prepare:
    """The floor asks the index, or scans where the library does: not every SQLite has indexed every character."""

    def prepare(bench: Workbench) -> Pair:
        db, raw = bench.reading
        with db.store.reader() as reader:
            scans = reader.search.plan(query).route is Route.SCAN
        library = partial(db.search_messages, query, limit=PAGE)
        by_scan = partial(floors.search_scan, raw, needle, PAGE)
        by_index = partial(floors.search_index, raw, index, match, needle, PAGE)
        floor = by_scan if scans else by_index
        return Pair(timed(library), timed(floor), same(library, floor))

    return prepare


WORDS, SUBSTRINGS = "messages_fts", "messages_fts_trigram"


def _words(text: str, *, quoted: bool = False) -> Prepare:
    return _search(f'"{text}"' if quoted else text, text, WORDS, f'("{text}")')


def _substring(text: str) -> Prepare:
    once = json.dumps(text)[1:-1]
    twice = json.dumps(once)[1:-1]
    return _search(text, text, SUBSTRINGS, f'("{text}" OR "{once}" OR "{twice}")')


CASES = (
    Case("import", "import the library in a fresh process, beside sqlalchemy.orm", _import),
    Case("open", "open and close a current store", _open, target=3.0, binding=False),
    Case("append", "one message, one transaction", _append, target=1.2),
    Case("batch", f"{BATCH} messages, one transaction", _batch, target=1.2),
    Case("get_messages_1000", "a session of 1,000 messages, all columns", _get_messages(seed.THOUSAND), target=1.5),
    Case("get_messages_100", "a session of 100 messages, all columns", _get_messages(seed.HUNDRED), target=1.5),
    Case("conversation_1000", "1,000 messages in the model's format", _conversation(seed.THOUSAND)),
    Case("conversation_100", "100 messages in the model's format", _conversation(seed.HUNDRED)),
    Case("list", f"the newest {PAGE} conversations", _list(), target=1.3),
    Case("search_rare", "a rare word", _words(seed.RARE_WORD), target=1.3),
    Case("search_frequent", "a frequent word", _words(seed.FREQUENT_WORD), target=1.3),
    Case("search_phrase", "a phrase", _words(seed.PHRASE, quoted=True), target=1.3),
    Case("search_cjk_2", "two frequent Chinese characters", _substring(seed.CJK_TWO), target=1.3),
    Case("search_cjk_2_rare", "two rare Chinese characters", _substring(seed.CJK_TWO_RARE), target=1.3),
    Case("search_cjk_3", "three Chinese characters", _substring(seed.CJK_THREE), target=1.3),
)


def chosen(names: list[str]) -> list[Case]:
    """The cases of these names; the beginning of a name chooses all that begin so. Raises LookupError."""
    for name in names:
        if not any(case.name.startswith(name) for case in CASES):
            raise LookupError(f"there is no case {name!r}; there are {', '.join(case.name for case in CASES)}")
    return [case for case in CASES if not names or case.name.startswith(tuple(names))]
