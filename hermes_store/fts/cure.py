"""Mending indexes that made a write fail (rules FTS-7 and DAMAGE-5). The messages themselves are never touched."""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.database.catalogue import quoted
from hermes_store.database.damage import Cure
from hermes_store.errors import CorruptStore, OperationFailed
from hermes_store.fts import indexes
from hermes_store.fts.ensure import PARTIAL_KEY, abandon, refill
from hermes_store.fts.indexes import HIGH_WATER_KEY, INDEXES, PROGRESS_KEY, TRIGRAM_INDEX
from hermes_store.fts.layouts import LEGACY, Layout, layouts, objects
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.nul_rows import WRITER_KEY, adopt_index, passes_nul, writer_note
from hermes_store.fts.rebuild import begin, step
from hermes_store.fts.storage import teardown

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

CJK_INDEX = "messages_fts_cjk"
"""An index of Hermes Agent, with a tokenizer of its own."""

CJK_STALE_KEY = "fts_cjk_stale"
"""How other programs note that an index of theirs lacks messages."""

REPAIRS_KEY = "hermes_store_index_repairs"
"""How often indexes of this file were mended because a write had met their damage."""


def cure_indexes(connection: "Connection") -> list[Cure]:
    """Bring indexes back in step with the messages; says what was done, nothing where they are sound.

    First the rows that another SQLite library indexed in its own way, which cost little; then, up to 20,000 messages, a
    rebuild of every index that differs from the messages. Above that they are emptied and marked: searching scans, and
    the rebuild goes in steps. Raises CorruptStore where that is not possible either.
    """
    done = _mend(connection)
    if done:
        _note(connection, done)
    return done


def _mend(connection: "Connection") -> list[Cure]:
    done = _leave_unusable(connection)
    found = layouts(objects(connection))
    if TRIGRAM_INDEX in found and connection.driver.has_trigram:
        try:
            rows, note = adopt_index(connection, None)
        except CorruptStore:
            # Not even readable: the rebuild below makes it whole.
            rows, note = 0, writer_note(connection.driver, passes_nul=passes_nul(connection.driver))
        set_mark(connection, WRITER_KEY, note)
        if rows:
            done.append(Cure(f"{rows} rows of another SQLite were indexed anew"))
    if connection.sql("SELECT count(*) FROM messages")[0][0] > indexes.REBUILD_LIMIT:
        return done or _set_out_of_use(connection, found)
    if read_mark(connection, HIGH_WATER_KEY) is not None:
        # A rebuild is under way, and what it has not reached is no damage: it ends here.
        for index, layout in found.items():
            if layout is Layout.CURRENT:
                refill(connection, index, layout)
        connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PROGRESS_KEY))
        return [*done, Cure("a rebuild that was under way was ended")]
    for index, layout in found.items():
        try:
            index.check(connection)
        except CorruptStore:
            if layout is Layout.UNKNOWN:
                index.rebuild(connection)
            else:
                refill(connection, index, layout)
            done.append(Cure(f"{index.name} was filled anew"))
    return done


def _set_out_of_use(connection: "Connection", found: dict[indexes.Index, Layout]) -> list[Cure]:
    """Leave indexes that are too large to be filled here to a rebuild in steps."""
    done = []
    for index, layout in found.items():
        if layout is Layout.CURRENT or layout in LEGACY:
            abandon(connection, index, layout)
            done.append(Cure(f"{index.name} was emptied and marked for a rebuild", complete=False))
    return done


def replace_indexes(connection: "Connection", *, fill: bool) -> list[Cure]:
    """Put empty indexes in place of all that are there, without so much as a look at these; says what was done.

    fill: up to 20,000 messages, at once; else searching scans, and the rebuild goes in steps. Raises CorruptStore where
    the damage is not in an index.
    """
    done = _take_out_of_use(connection)
    if Layout.UNKNOWN in layouts(objects(connection)).values():
        # Of a newer release, which knows how to make it anew: only the messages are seen to.
        for index in INDEXES:
            for trigger in index.trigger_names:
                connection.sql(f"DROP TRIGGER IF EXISTS {trigger}")
        set_mark(connection, PARTIAL_KEY, "1")
        done.append(Cure("the triggers of indexes of a newer release were removed", complete=False))
    else:
        begin(connection)
        complete = fill and connection.sql("SELECT count(*) FROM messages")[0][0] <= indexes.REBUILD_LIMIT
        if complete:
            _fill_at_once(connection)
        done.append(Cure("the indexes were put aside and new ones begun", complete=complete))
    _note(connection, done)
    return done


def _fill_at_once(connection: "Connection") -> None:
    for work in (step, teardown):
        while work(connection):
            pass


def _leave_unusable(connection: "Connection") -> list[Cure]:
    """An index of another program may need a tokenizer that is not here: with its triggers nothing can be written."""
    if not connection.sql("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (CJK_INDEX,)):
        return []
    try:
        # Newer libraries look for the tokenizer only when there is something for it to do.
        connection.sql(f"SELECT 1 FROM {CJK_INDEX} WHERE {CJK_INDEX} MATCH 'x' LIMIT 1")
    except (OperationFailed, CorruptStore):
        return _take_out_of_use(connection)
    return []


def _take_out_of_use(connection: "Connection") -> list[Cure]:
    triggers = connection.sql(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'messages' AND name GLOB ?",
        (f"{CJK_INDEX}_*",),
    )
    for (name,) in triggers:
        connection.sql(f"DROP TRIGGER {quoted(name)}")
    if not triggers:
        return []
    set_mark(connection, CJK_STALE_KEY, "1")
    return [Cure(f"{CJK_INDEX} was taken out of use", complete=False)]


@dataclass(frozen=True, slots=True)
class IndexRepairs:
    """How often indexes of a file were mended because a write met their damage; the last time, and what was done."""

    count: int = 0
    last: float | None = None
    what: tuple[str, ...] = ()


def index_repairs(connection: "Connection") -> IndexRepairs:
    """What is noted in the file; nothing where the note cannot be read."""
    try:
        note = json.loads(read_mark(connection, REPAIRS_KEY) or "{}")
        return IndexRepairs(int(note["count"]), float(note["last"]), tuple(map(str, note["what"])))
    except (ValueError, TypeError, KeyError, RecursionError):
        return IndexRepairs()


def _note(connection: "Connection", done: list[Cure]) -> None:
    for cure in done:
        log.warning("a write met a damaged search index: %s", cure.text)
    now = connection.sql("SELECT CAST(strftime('%s', 'now') AS INTEGER)")[0][0]
    note = {"count": index_repairs(connection).count + 1, "last": now, "what": [cure.text for cure in done]}
    set_mark(connection, REPAIRS_KEY, json.dumps(note))
