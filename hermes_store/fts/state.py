"""Which indexes a connection can ask, and in what state they are (rule FTS-6)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.fts.indexes import (
    BASE_INDEX,
    HIGH_WATER_KEY,
    INDEXES,
    TRIGRAM_INDEX,
    Index,
    layout_is_current,
    objects,
    rebuild_pending,
)
from hermes_store.fts.nul_rows import WRITER_KEY, writer_passes_nul

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


@dataclass(frozen=True, slots=True)
class SearchCapability:
    """Whether the index of words, and that of substrings, exist with all their rows.

    past_nul: the index of substrings holds the text behind a NUL too, that is structured messages.
    """

    words: bool
    trigram: bool
    past_nul: bool


@dataclass(frozen=True, slots=True)
class IndexState:
    """One index: how many messages it holds of those that are due, and how many of its triggers are there."""

    name: str
    present: bool
    rows: int
    rows_due: int
    triggers: int
    complete: bool


_CAPABILITY = (
    f"SELECT (SELECT count(*) FROM state_meta WHERE key = '{HIGH_WATER_KEY}'), "
    f"(SELECT value FROM state_meta WHERE key = '{WRITER_KEY}'), "
    + ", ".join(
        "(SELECT count(*) FROM sqlite_master WHERE name IN "
        f"({', '.join(repr(name) for name in (index.name, *index.trigger_names))}))"
        for index in INDEXES
    )
)
_PARTS = 4  # a table and its three triggers; without a trigger rows are missing from the index


def capability(connection: "Connection") -> SearchCapability:
    """What can be asked right now; another process may be rebuilding. One statement."""
    pending, writer, words, trigram = connection.sql(_CAPABILITY)[0]
    complete = pending == 0 and connection.driver.has_fts5
    return SearchCapability(
        words=complete and words == _PARTS,
        trigram=complete and trigram == _PARTS and connection.driver.has_trigram,
        past_nul=writer_passes_nul(writer),
    )


def index_states(connection: "Connection") -> list[IndexState]:
    """The state of every index, for people; counts rows."""
    present = objects(connection)
    pending = rebuild_pending(connection)
    return [_state_of(connection, index, present, pending=pending) for index in INDEXES]


def _state_of(connection: "Connection", index: Index, present: dict[str, str], *, pending: bool) -> IndexState:
    condition = " WHERE role <> 'tool'" if index.skips_tools and layout_is_current(present) else ""
    due = connection.sql(f"SELECT count(*) FROM messages{condition}")[0][0]
    there = index.name in present
    rows = connection.sql(f"SELECT count(*) FROM {index.name}_docsize")[0][0] if there else 0
    triggers = sum(name in present for name in index.trigger_names)
    complete = there and not pending and rows == due and triggers == len(index.trigger_names)
    return IndexState(index.name, there, rows, due, triggers, complete)


def check_indexes(connection: "Connection") -> None:
    """Compare every index with the text of every row; raises CorruptStore where they differ."""
    present = objects(connection)
    for index in (BASE_INDEX, TRIGRAM_INDEX):
        if index.name in present:
            index.check(connection)
