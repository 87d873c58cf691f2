"""Trying an upgraded file: is it sound, does it stay as it is, is it searched, is it written (rule TEST-2)."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_store.database.connection import Connection, connect
from hermes_store.fts.ensure import rebuild_pending
from hermes_store.fts.indexes import COLUMNS
from hermes_store.fts.layouts import LEGACY, Layout, fits, layouts, objects
from hermes_store.maintenance.upgrade_tables import LEFTOVERS, lenient
from hermes_store.models import ON_DEMAND_TABLES, OnDemandBase
from hermes_store.repositories.search import SearchFilter
from hermes_store.schema.describe import (
    beyond,
    beyond_golden,
    describe_schema,
    golden_exceptions,
    golden_lines,
    missing_from,
    missing_from_golden,
    name_of,
)
from hermes_store.schema.file_generation import application_id
from hermes_store.store import Store
from hermes_store.text import fold

if TYPE_CHECKING:
    from hermes_store.database.driver import Driver
    from hermes_store.store import Reader

SAMPLES = 20
_ON_DEMAND = ON_DEMAND_TABLES | {
    str(index.name) for table in OnDemandBase.metadata.tables.values() for index in table.indexes
}
"""Names that an upgrade brings back from what an interrupted rebuild left."""
_LOOKED_AT = 60  # messages
_WORD = re.compile(r"(?<!\w)[A-Za-z]{5,24}(?!\w)")
_CJK = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]{3,}")


@contextmanager
def opened(path: Path, driver: "Driver") -> Iterator[Connection]:
    """A connection to a copy, for looking at it and for the checks that need a write lock."""
    connection = Connection(connect(path, driver=driver), driver)
    try:
        connection.raw.text_factory = lenient
        yield connection
    finally:
        connection.close()


# -- sound ------------------------------------------------------------------------------------------------------


def integrity_problems(connection: Connection) -> list[str]:
    """What SQLite's own check finds in the file; one line each, the first few."""
    found = [str(row[0]) for row in connection.sql("SELECT * FROM pragma_integrity_check LIMIT 10")]
    return [] if found == ["ok"] else [f"integrity: {line}" for line in found]


def orphans(connection: Connection) -> dict[tuple[str, str], int]:
    """How many rows of each table name a row of another one that is not there."""
    return {
        (str(table).lower(), str(parent).lower()): count
        for table, parent, count in connection.sql(
            'SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2'
        )
    }


HEADER = ("user_version", "application_id", "encoding", "page_size", "auto_vacuum")
"""Numbers of the file's header that are somebody's, or that no upgrade has reason to change."""


def header_of(connection: Connection) -> dict[str, object]:
    """Those numbers, without the mark that opening gives a file."""
    found = {name: connection.sql(f"PRAGMA {name}")[0][0] for name in HEADER}
    return {**found, "application_id": application_id(connection)}


def header_problems(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """What an upgrade changed of them."""
    return [f"{name} was {value} and is {after[name]}" for name, value in before.items() if after[name] != value]


def schema_problems(connection: Connection, before: list[str]) -> tuple[list[str], list[str]]:
    """Compare the schema with the golden one and with the lines of before; returns problems and notes.

    What a file has more than a new store is kept, and listed.
    """
    after = describe_schema(connection)
    excepted = golden_exceptions(connection)
    there = {name_of(line) for line in after}
    missing = missing_from_golden(connection)
    problems = [f"schema: {'differs' if name_of(line) in there else 'lacks'}: {line}" for line in missing]
    differing = {name_of(line) for line in missing}
    problems.extend(f"schema: has instead: {line}" for line in beyond(after) if name_of(line) in differing)
    lost = {name_of(line) for line in set(before) - set(after)} - _free(connection, excepted)
    lost = {name for name in lost if name.partition(".")[0] not in LEFTOVERS}
    problems.extend(f"schema: {name} is gone or was changed" for name in sorted(lost))
    differing_names = {name_of(line) for line in missing_from(after)}
    notes = [reason for name, reason in excepted.items() if name in differing_names]
    kept = beyond_golden(connection)
    new = {name_of(line) for line in after} - {name_of(line) for line in before}
    problems.extend(
        f"schema: {name} was not there before, and no store has it"
        for name in kept
        if name_of(name) in new - _ON_DEMAND
    )
    if kept:
        notes.append(f"kept, beyond the schema of a new store: {', '.join(kept)}")
    return [*problems, *_trigger_problems(connection)], list(dict.fromkeys(notes))


def _free(connection: Connection, excepted: dict[str, str]) -> set[str]:
    """Names that opening may change: those of the golden schema, and parts of an index of an older layout."""
    found = layouts(objects(connection))
    kept = {
        name
        for index, layout in found.items()
        if layout is Layout.UNKNOWN
        for name in (index.name, f"{index.name}_src", *index.trigger_names)
    }
    return ({name_of(line) for line in golden_lines()} | excepted.keys()) - kept


def _trigger_problems(connection: Connection) -> list[str]:
    """An index of an older layout needs its triggers too; the golden schema says nothing of them."""
    present = objects(connection)
    if rebuild_pending(connection):
        return []
    driver = connection.driver
    return [
        f"schema: lacks the trigger {name}, or has one that does not suit index {index.name}"
        for index, layout in layouts(present).items()
        # Without what an index needs its triggers are taken away, since no message could be written with them.
        if layout in LEGACY and index.is_usable(driver)
        for name in index.trigger_names
        if name not in present or not fits(index, layout, present[name])
    ]


# -- stays as it is -----------------------------------------------------------------------------------------------


def state_of(connection: Connection) -> dict[str, list[Any]]:
    """What a second open must not change: the schema as it is stored, and the marks."""
    return {
        "sqlite_master": connection.sql("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master ORDER BY rowid"),
        "state_meta": connection.sql("SELECT key, value FROM state_meta ORDER BY key"),
    }


def second_open_problems(path: Path, driver: "Driver") -> list[str]:
    """Open the upgraded file once more: nothing is left to do."""
    with opened(path, driver) as connection:
        before = state_of(connection)
    with Store.open(path, create=False) as store:
        report = store.report
    with opened(path, driver) as connection:
        after = state_of(connection)
    done = [name for name, value in report.as_dict().items() if value and name not in ("stamp", "revision", "changed")]
    problems = [f"a second open changed something: {', '.join(done)}"] if report.changed else []
    return [*problems, *(f"a second open changed {name}" for name in before if before[name] != after[name])]


# -- is searched --------------------------------------------------------------------------------------------------


def search_problems(path: Path, driver: "Driver") -> tuple[list[str], list[str]]:
    """Look for words that live messages hold; each must be found in one that holds it. Returns problems and notes."""
    with opened(path, driver) as connection:
        samples = list(_samples(connection))
    with Store.open(path, create=False) as store, store.reader() as reader:
        missed = [message_id for message_id, word in samples if not _finds(reader, word)]
    if not samples:
        return [], ["no message has a word to search for"]
    # The word itself stays unsaid: it is part of what somebody wrote.
    problems = [f"search does not find a word of message {message_id}" for message_id in missed]
    return problems, [f"searched for {len(samples)} words"]


def _samples(connection: Connection) -> Iterator[tuple[int, str]]:
    """Ids of live messages from the whole file, and a distinctive word or run of CJK characters of each."""
    lowest, highest = connection.sql("SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM messages")[0]
    words: set[str] = set()
    last: int | None = None
    for step in range(_LOOKED_AT):
        start = lowest + (highest - lowest + 1) * step // _LOOKED_AT
        rows = connection.sql(
            "SELECT m.id, m.content FROM messages AS m JOIN sessions AS s ON s.id = m.session_id "
            "WHERE m.id >= ? AND (?2 IS NULL OR m.id > ?2) AND m.active = 1 AND m.role IN ('user', 'assistant') "
            "AND typeof(m.content) = 'text' AND instr(m.content, char(0)) = 0 ORDER BY m.id LIMIT 1",
            (start if last is None else max(start, last), last),
        )
        if not rows or len(words) >= SAMPLES:
            return
        last, text = rows[0]
        word = next((each for each in _distinctive(text, prefers_cjk=step % 2 == 0) if fold(each) not in words), None)
        if word is not None:
            words.add(fold(word))
            yield rows[0][0], word


def _distinctive(text: str, *, prefers_cjk: bool) -> list[str]:
    head = text[:20_000]
    runs = [run[:6] for run in _CJK.findall(head)]
    words = sorted(_WORD.findall(head), key=len, reverse=True)
    return [*runs, *words] if prefers_cjk else [*words, *runs]


def _finds(reader: "Reader", word: str) -> bool:
    hits = reader.search.messages(word, SearchFilter(), limit=1, with_context=False)
    if not hits:
        return False
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in COLUMNS)
    texts = reader.connection.sql(f"SELECT {columns} FROM messages WHERE id = ?", (hits[0].id,))[0]  # noqa: S608
    return any(fold(word) in fold(text.decode("utf-8", "replace")) for text in texts if text is not None)


# -- is written ---------------------------------------------------------------------------------------------------

_UPSERT = (
    "INSERT INTO session_model_usage (session_id, model, task, input_tokens) VALUES (?, 'example/model', 'check', 2) "
    "ON CONFLICT (session_id, model, billing_provider, billing_base_url, billing_mode, task) "
    "DO UPDATE SET input_tokens = input_tokens + excluded.input_tokens"
)


_LAST_ID = 2**63 - 1


def can_append(connection: Connection) -> bool:
    """False where the highest id that there is was given to a message: SQLite gives no other one after it."""
    highest = connection.sql("SELECT max(id) FROM messages")[0][0]
    given = connection.sql("SELECT max(seq) FROM sqlite_sequence WHERE name = 'messages'")[0][0]
    return _LAST_ID not in (highest, given)


def write_problems(store: Store) -> list[str]:
    """Create a session, append to it, find it, name it, account for it, delete it; nothing of it is left."""
    name = uuid.uuid4().hex
    session_id, word = f"upgrade-check-{name}", f"quokka{name}"
    problems = []
    with store.reader() as reader:
        before = _counts(reader.connection)
    with store.transaction() as unit:
        unit.create_session(session_id, "cli")
        first = unit.append(session_id, "user", f"the upgrade check says {word}")
        unit.append(session_id, "assistant", "升级检查已经完成", tool_calls=[{"function": {"name": "check"}}])
        unit.set_title(session_id, f"Upgrade check {name}")
        for _ in range(2):
            unit.connection.sql(_UPSERT, (session_id,))
    with store.reader() as reader:
        hits = reader.search.messages(word, limit=2, with_context=False)
        if [hit.id for hit in hits] != [first]:
            problems.append("a message that was appended after the upgrade is not found by search")
        usage = reader.connection.sql(
            "SELECT input_tokens FROM session_model_usage WHERE session_id = ?", (session_id,)
        )
        if usage != [(4,)]:
            problems.append("two updates of one usage row did not become one row with their sum")
        if reader.sessions.get(session_id).message_count != 2:
            problems.append("the counters of a new session are wrong")
    with store.transaction() as unit:
        if unit.delete_conversation(session_id) != [session_id]:
            problems.append("deleting a new session removed something else")
    with store.reader() as reader:
        if _counts(reader.connection) != before:
            problems.append("after deleting the new session, the numbers of rows are not those of before")
    return problems


def _counts(connection: Connection) -> list[int]:
    return [
        int(connection.sql(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608
        for table in ("sessions", "messages", "session_model_usage")
    ]
