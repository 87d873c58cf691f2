"""Making the indexes of a file complete, each in the layout that it has (rules FTS-2 and FTS-3)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.fts import indexes
from hermes_store.fts.indexes import BASE_INDEX, HIGH_WATER_KEY, INDEXES, PROGRESS_KEY, TRIGRAM_INDEX, Index
from hermes_store.fts.layouts import (
    JOINED_VIEW,
    LEGACY,
    Layout,
    fits,
    is_broad,
    joined_view,
    layouts,
    objects,
    rows_due,
    squeezed,
    table_statements,
    texts,
    trigger_statements,
)
from hermes_store.fts.marks import read_mark, set_mark

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

PARTIAL_KEY = "hermes_store_fts_partial"
"""Set while indexes of an older layout lack messages; searching scans then. Hermes Agent's own marks would stop it from
ever changing the layout."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `ensure_indexes` did: indexes filled anew, indexes left to a later rebuild, triggers replaced; names."""

    rebuilt: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    triggers_replaced: tuple[str, ...] = ()


def ensure_indexes(connection: "Connection", *, same_triggers: bool) -> IndexReport:
    """Create what is missing, and fill an index whose triggers were not all there, or were not those of its layout.

    Without FTS5, or without the trigram tokenizer, the triggers of the index concerned are dropped, since no message
    could be written with them, and searching degrades. Above 20,000 messages nothing is filled: the indexes are marked
    and searching scans. `same_triggers`: known forms of the triggers of today's layout become one form, without a
    rebuild.
    """
    usable = [index for index in INDEXES if index.is_usable(connection.driver)]
    for index in INDEXES:
        if index not in usable:
            _drop_triggers(connection, index)
    present = objects(connection)
    found = layouts(present)
    is_legacy = any(layout in LEGACY for layout in found.values())
    incomplete = {
        index: found.get(index, Layout.INLINE if is_legacy else Layout.CURRENT)
        for index in usable
        if found.get(index) is not Layout.UNKNOWN and not _is_complete(index, found.get(index), present)
    }
    if found.get(BASE_INDEX) is Layout.CONTENT_ONLY and found.get(TRIGRAM_INDEX) is Layout.INLINE:
        # Hermes Agent has filled this one with joined text, while its triggers still tell it the content alone.
        incomplete[BASE_INDEX] = Layout.CONTENT_ONLY
    if any(layout in LEGACY for layout in incomplete.values()):
        # One text for both: what the one lacks of a message, the other lacks too.
        incomplete.update({index: layout for index, layout in found.items() if layout in LEGACY and index in usable})
    if not is_legacy:
        _forget_legacy(connection)
    report = _complete(connection, incomplete, found) if incomplete else IndexReport()
    current = [index for index in usable if found.get(index) is Layout.CURRENT]
    replaced = tuple(name for index in current for name in _same_triggers(connection, index, every=same_triggers))
    return IndexReport(report.rebuilt, report.pending, replaced)


def _is_complete(index: Index, layout: Layout | None, present: dict[str, str]) -> bool:
    """True if the table is there with three triggers that suit it."""
    return layout is not None and all(
        name in present and fits(index, layout, present[name]) for name in index.trigger_names
    )


def _complete(connection: "Connection", incomplete: dict[Index, Layout], found: dict[Index, Layout]) -> IndexReport:
    names = tuple(index.name for index in INDEXES if index in incomplete)
    count = connection.sql("SELECT COUNT(*) FROM messages")[0][0]
    has_current = Layout.CURRENT in incomplete.values()
    if count <= indexes.REBUILD_LIMIT:
        if has_current and read_mark(connection, HIGH_WATER_KEY) is not None:
            # A rebuild of all that was under way: it ends here.
            incomplete = {
                **{index: layout for index, layout in found.items() if layout is Layout.CURRENT},
                **incomplete,
            }
        for index, layout in incomplete.items():
            refill(connection, index, layout)
        ended = (HIGH_WATER_KEY, PROGRESS_KEY) if has_current else (PARTIAL_KEY, PARTIAL_KEY)
        connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", ended)
        return IndexReport(rebuilt=tuple(index.name for index in INDEXES if index in incomplete))
    for index, layout in incomplete.items():
        _leave_partial(connection, index, layout, is_there=index in found)
    if any(layout in LEGACY for layout in incomplete.values()) and read_mark(connection, PARTIAL_KEY) is None:
        set_mark(connection, PARTIAL_KEY, "1")
    elif all(layout in LEGACY for layout in incomplete.values()):
        return IndexReport()  # known already
    if has_current:
        _mark_pending(connection)
    return IndexReport(pending=names)


def _mark_pending(connection: "Connection") -> None:
    """Leave all indexes of today's layout to a rebuild: one pair of marks serves them, so all begin anew."""
    for index, layout in layouts(objects(connection)).items():
        if layout is Layout.CURRENT and index.is_usable(connection.driver):
            index.clear(connection)
    highest = connection.sql("SELECT COALESCE(MAX(id), 0) FROM messages")[0][0]
    for key, value in ((HIGH_WATER_KEY, highest), (PROGRESS_KEY, 0)):
        set_mark(connection, key, str(value))


def abandon(connection: "Connection", index: Index, layout: Layout) -> None:
    """Take a damaged index that is too large to be filled here out of use; messages can be written, searching scans."""
    if layout is Layout.CURRENT:
        _mark_pending(connection)
        return
    _drop_triggers(connection, index)
    connection.sql(f"DROP TABLE IF EXISTS {index.name}")
    set_mark(connection, PARTIAL_KEY, "1")


def _leave_partial(connection: "Connection", index: Index, layout: Layout, *, is_there: bool) -> None:
    """Leave an index that is too large to be filled here in a state in which every message can be written."""
    if layout is Layout.CURRENT:
        _create(connection, index, layout)
    elif not is_there:
        # Nothing can be written while triggers name a table that is gone.
        _drop_triggers(connection, index)
    elif layout is Layout.INLINE:
        # Taking out a row that is not in it does no harm, so what is new can be indexed.
        _create_triggers(connection, index, layout)
    elif not _is_complete(index, layout, objects(connection)):
        # Told to take out a row that is not in it, this one would be damaged.
        _drop_triggers(connection, index)


def refill(connection: "Connection", index: Index, layout: Layout) -> None:
    """Make an index anew and fill it from the messages; the content alone becomes the joined text."""
    if layout in LEGACY:
        layout = Layout.INLINE if layout is Layout.INLINE else Layout.JOINED
        _drop_triggers(connection, index)
        connection.sql(f"DROP TABLE IF EXISTS {index.name}")
    _create(connection, index, layout)
    if layout is Layout.INLINE:
        connection.sql(
            f"INSERT INTO {index.name}(rowid, content) SELECT m.id, {texts(layout, 'm')[0]} FROM messages AS m "
            f"WHERE {rows_due(index, layout)}"
        )
    else:
        index.rebuild(connection)


def _create(connection: "Connection", index: Index, layout: Layout) -> None:
    for statement in table_statements(index, layout):
        connection.sql(statement)
    _create_triggers(connection, index, layout)


def _create_triggers(connection: "Connection", index: Index, layout: Layout) -> None:
    """Create the triggers that are missing, and replace those that do not suit the layout."""
    present = objects(connection)
    for name, statement in trigger_statements(index, layout).items():
        if name in present and not fits(index, layout, present[name]):
            connection.sql(f"DROP TRIGGER {name}")
        connection.sql(statement)


def _drop_triggers(connection: "Connection", index: Index) -> None:
    for name in index.trigger_names:
        connection.sql(f"DROP TRIGGER IF EXISTS {name}")


def _same_triggers(connection: "Connection", index: Index, *, every: bool) -> list[str]:
    """Replace triggers of other known forms, at least those that fire on any column; returns their names."""
    present = objects(connection)
    replaced = []
    for name, statement in trigger_statements(index, Layout.CURRENT).items():
        stored = present.get(name)
        if stored is None or squeezed(stored) == squeezed(statement):
            continue
        if every or is_broad(stored):
            connection.sql(f"DROP TRIGGER {name}")
            connection.sql(statement)
            replaced.append(name)
    return replaced


def _forget_legacy(connection: "Connection") -> None:
    """Remove what only older layouts need: whoever changed the layout may not have known of it."""
    connection.sql("DELETE FROM state_meta WHERE key = ?", (PARTIAL_KEY,))
    view = objects(connection).get(JOINED_VIEW)
    if view is not None and squeezed(view) == squeezed(joined_view()):
        connection.sql(f"DROP VIEW {JOINED_VIEW}")


def rebuild_pending(connection: "Connection") -> bool:
    """True while part of the messages is not in the indexes."""
    if not connection.sql("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'state_meta'"):
        return False  # the oldest files
    return bool(connection.sql("SELECT 1 FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PARTIAL_KEY)))


def layout_is_settled(connection: "Connection") -> bool:
    """True if both indexes have today's layout and hold all messages: what `fts_storage_version` says of a file.

    An index without rows beside messages is what an interrupted change of the layout leaves.
    """
    present = objects(connection)
    found = layouts(present)
    return (
        found.get(BASE_INDEX) is Layout.CURRENT
        and found.get(TRIGRAM_INDEX, Layout.CURRENT) is Layout.CURRENT
        and not any(name.startswith("fts_v22_trash_") for name in present)
        and not rebuild_pending(connection)
        and not _is_empty_beside_messages(connection)
    )


def _is_empty_beside_messages(connection: "Connection") -> bool:
    return bool(
        connection.sql(
            f"SELECT EXISTS (SELECT 1 FROM messages) AND NOT EXISTS (SELECT 1 FROM {BASE_INDEX.name}_docsize)"
        )[0][0]
    )
