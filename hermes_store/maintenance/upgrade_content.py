"""Comparing every row that a file held before an upgrade with what stands there after it (rule TEST-3).

The two files are one connection's databases `before` and `main`, both read-only. Memory stays flat: rows are hashed as
they are read, and only where the digests of a table differ are its rows compared one by one, by SQLite.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_store.database.catalogue import quoted
from hermes_store.database.connection import Connection
from hermes_store.maintenance.upgrade_exceptions import Change, Context, Kind, reason_for
from hermes_store.maintenance.upgrade_tables import (
    LEFTOVERS,
    Row,
    Table,
    bound,
    listed,
    row_of,
    shared_columns,
    stream,
    tables_of,
)
from hermes_store.models import Base
from hermes_store.schema.versions import HEAD_REVISION, STAMP

SHOWN = 5  # problems of one kind in one table; the rest is counted
_OWN_TABLES = frozenset(Base.metadata.tables) | {"alembic_version"}


@dataclass(slots=True)
class ContentFindings:
    """What the comparison found. used: how often each declared exception was, by its name."""

    problems: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    leftovers: dict[str, int] = field(default_factory=dict)


def compare_content(connection: Connection, context: Context, *, changed: bool) -> ContentFindings:
    """Compare every row of every ordinary table, and look for what the upgrade should have done. See `both_files`.

    changed: the file was not current, so everything that opening repairs has to be repaired.
    """
    comparison = _Comparison(connection, context)
    comparison.run(changed=changed)
    return comparison.found


class _Comparison:
    """One comparison of two files."""

    def __init__(self, connection: Connection, context: Context) -> None:
        self.connection = connection
        self.context = context
        self.found = ContentFindings()
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._types: dict[str, Mapping[str, str]] = {}

    def run(self, *, changed: bool) -> None:
        before, after = tables_of(self.connection, "before"), tables_of(self.connection, "main")
        for name, table in before.items():
            if name in LEFTOVERS:
                self._leftover(table, after)
            elif name not in after:
                self.found.problems.append(f"table {name} is gone, with {self._count(table)} rows")
        for name, table in after.items():
            sources = [before[each] for each in (*_feeding(name), name) if each in before]
            if name not in before and name not in _OWN_TABLES and not sources:
                self.found.problems.append(f"table {name} was not there before, and is none of a store")
            if name not in before and not sources:
                self._all_added(table)
            elif name not in LEFTOVERS:
                self._compare(table, sources)
                self._columns_added(table, sources)
        self._compare_sequences()
        self._lacking(changed=changed)
        for (table_name, what), count in self._kinds.items():
            if count > SHOWN:
                self.found.problems.append(f"{table_name}: {count - SHOWN} more rows {what}")

    def _count(self, table: Table) -> int:
        return int(self.connection.sql(f"SELECT count(*) FROM {table.sql}")[0][0])  # noqa: S608

    # -- tables -------------------------------------------------------------------------------------------------

    def _leftover(self, table: Table, after: dict[str, Table]) -> None:
        name = table.name.lower()
        self.found.leftovers[name] = self._count(table)
        if name in after:
            self.found.problems.append(f"table {name}, which an interrupted rebuild left, is still there")
        if LEFTOVERS[name] not in after and self.found.leftovers[name]:
            self.found.problems.append(f"table {LEFTOVERS[name]} is not there, so the rows of {name} are lost")

    def _all_added(self, table: Table) -> None:
        rows = stream(self.connection, f"SELECT {listed(table.columns, 'n')} FROM {table.sql} AS n")  # noqa: S608
        for position, values in enumerate(rows, start=1):
            row = row_of(table.columns, values)
            self._judge(Change(Kind.ADDED, table.name.lower(), "", self._label(table, row, position), None, {}, row))

    def _compare(self, table: Table, sources: Sequence[Table]) -> None:
        shared = {source.name: shared_columns(source, table) for source in sources}
        for source in sources:
            gone = source.known - set(shared[source.name])
            self.found.problems.extend(f"{source.name}: the column {name} is gone" for name in sorted(gone))
        if table.key and not self._is_unique(table):
            if len(sources) > 1:
                self.found.problems.append(f"{table.name}: several rows have the same key")
            else:
                self._compare_as_bags(sources[0], table, shared[sources[0].name])
            return
        if len(sources) == 1 and self._same(sources[0], table, shared[sources[0].name]):
            return
        if table.key:
            for source in sources:
                self._changed_by_key(source, table, shared[source.name], sources)
            self._added_by_key(table, sources)
        elif table.rowid is None or sources[0].rowid is None:
            self.found.problems.append(f"{table.name}: its content differs, and its rows have no id to compare them by")
        else:
            self._compare_by_rowid(sources[0], table, shared[sources[0].name])

    def _is_unique(self, table: Table) -> bool:
        key = listed(tuple(table.key), "n")
        return not self.connection.sql(
            f"SELECT 1 FROM {table.sql} AS n GROUP BY {key} HAVING count(*) > 1 LIMIT 1"  # noqa: S608
        )

    def _columns_added(self, table: Table, sources: Sequence[Table]) -> None:
        """A column that the upgrade added holds its default in every row, unless an exception says what else."""
        there = frozenset[str]().union(*(source.known for source in sources))
        added = [name for name in table.columns if name.lower() not in there]
        declared = Base.metadata.tables.get(table.name.lower())
        defaults = {}
        for name in added:
            column = declared.columns.get(name.lower()) if declared is not None else None
            if column is None:
                self.found.problems.append(f"{table.name}: the column {name.lower()} was not there before")
            else:
                default = getattr(column.server_default, "arg", None)
                defaults[name.lower()] = "NULL" if default is None else str(default)
        if not defaults:
            return
        differs = [f"n.{quoted(name)} IS NOT {default}" for name, default in defaults.items()]
        rowid = f"n.{table.rowid}" if table.rowid is not None else "NULL"
        for values in stream(
            self.connection,
            f"SELECT {', '.join(differs)}, {rowid}, {listed(table.columns, 'n')} FROM {table.sql} AS n "  # noqa: S608
            f"WHERE {' OR '.join(differs)}",
        ):
            row = row_of(table.columns, values[len(differs) + 1 :])
            label = self._label(table, row, values[len(differs)])
            for name, is_other in zip(defaults, values, strict=False):
                if is_other:
                    self._judge(Change(Kind.FILLED, table.name.lower(), table.name, label, name, {}, row))

    def _lacking(self, *, changed: bool) -> None:
        """What an upgrade has to do: its stamps, and the exceptions that are effects of it."""
        for session_id, what in self.context.sessions.lacking(changed=changed):
            self._problem("sessions", f"session {session_id!r}", what)
        for session_id in self.context.usage.lacking():
            self._problem("session_model_usage", f"session {session_id!r}", "has tokens that no row accounts for")
        if changed:
            stamps = self.connection.sql("SELECT CAST(version AS INTEGER) FROM main.schema_version")
            if not stamps or min(stamps)[0] < STAMP:
                self.found.problems.append("schema_version: the stamp was not raised")
        if self.connection.sql("SELECT version_num FROM main.alembic_version") != [(HEAD_REVISION,)]:
            self.found.problems.append("alembic_version: the revision was not noted")
        self._none_live()
        if self.context.marks_layout and not self.connection.sql(
            "SELECT 1 FROM main.state_meta WHERE key = 'fts_optimize_available'"
        ):
            self.found.problems.append("state_meta: the mark fts_optimize_available is missing")

    def _none_live(self) -> None:
        """A file whose messages are all hidden looks like an empty one."""
        if self.connection.sql("SELECT 1 FROM main.messages WHERE active IS NULL LIMIT 1"):
            self.found.problems.append("messages: active is still NULL in some rows")
        before = tables_of(self.connection, "before").get("messages")
        if before is None:
            return
        was_live = "active IS NULL OR active <> 0" if "active" in before.known else "1"
        if self.connection.sql(
            f"SELECT EXISTS (SELECT 1 FROM before.messages WHERE {was_live}) "  # noqa: S608
            "AND NOT EXISTS (SELECT 1 FROM main.messages WHERE active = 1)"
        )[0][0]:
            self.found.problems.append("messages: none of its messages is live, and some were")

    def _same(self, before: Table, after: Table, columns: Sequence[str]) -> bool:
        return self._digest(before, columns) == self._digest(after, columns)

    def _digest(self, table: Table, columns: Sequence[str]) -> tuple[int, str]:
        """Number of rows, and SHA-256 over type and value of every column of every row."""
        digest = hashlib.sha256()
        count = 0
        identity = [table.rowid] if table.rowid is not None and not table.key else []
        order = identity or [table.key_value(column, "t") for column in table.key]
        raw = self.connection.raw
        factory = raw.text_factory
        # Texts and blobs keep apart, and nothing has to be UTF-8.
        raw.text_factory = bytearray
        try:
            for row in stream(
                self.connection,
                f"SELECT {', '.join([*identity, *map(quoted, columns)])} FROM {table.sql} AS t "  # noqa: S608
                f"ORDER BY {', '.join(order or ['1'])}",
            ):
                digest.update(repr(row).encode())
                count += 1
        finally:
            raw.text_factory = factory
        return count, digest.hexdigest()

    # -- rows ---------------------------------------------------------------------------------------------------

    def _compare_as_bags(self, before: Table, after: Table, columns: Sequence[str]) -> None:
        """Rows that have no key that tells them apart: how often each is there."""
        shown = ", ".join(map(quoted, columns))
        types = ", ".join(f"typeof({quoted(name)})" for name in columns)

        def counted(table: Table) -> str:
            return f"SELECT {shown}, {types}, count(*) FROM {table.sql} GROUP BY {shown}, {types}"  # noqa: S608

        for kind, one, other in ((Kind.REMOVED, before, after), (Kind.ADDED, after, before)):
            for values in stream(self.connection, f"{counted(one)} EXCEPT {counted(other)}"):
                row = row_of(columns, values[: len(columns)])
                label = self._label(one, row, None)
                old, new = (row, {}) if kind is Kind.REMOVED else ({}, row)
                self._judge(Change(kind, after.name.lower(), before.name, label, None, old, new))

    def _compare_by_rowid(self, before: Table, after: Table, columns: Sequence[str]) -> None:
        o, n = f"o.{before.rowid}", f"n.{after.rowid}"
        pairs = _pairs(columns)
        for is_gone, rowid, *values in stream(
            self.connection,
            f"SELECT {n} IS NULL, {o}, {pairs} FROM {before.sql} AS o LEFT JOIN {after.sql} AS n ON {n} = {o} "  # noqa: S608
            f"WHERE {n} IS NULL OR {_differences(columns)}",
        ):
            old, new = _split(columns, values)
            label = self._label(before, old, rowid)
            if is_gone:
                self._judge(Change(Kind.REMOVED, after.name.lower(), before.name, label, None, old, {}))
            else:
                self._judge_columns(before, after, label, old, new, tuple)
        for rowid, *values in stream(
            self.connection,
            f"SELECT {n}, {listed(after.columns, 'n')} FROM {after.sql} AS n "  # noqa: S608
            f"LEFT JOIN {before.sql} AS o ON {o} = {n} WHERE {o} IS NULL",
        ):
            row = row_of(after.columns, values)
            self._judge(Change(Kind.ADDED, after.name.lower(), "", self._label(after, row, rowid), None, {}, row))

    def _changed_by_key(self, before: Table, after: Table, columns: Sequence[str], sources: Sequence[Table]) -> None:
        on = " AND ".join(f"n.{quoted(each)} IS {before.key_value(each, 'o')}" for each in after.key)
        is_gone = f"n.{after.rowid or quoted(next(iter(after.key)))} IS NULL"
        keys = tuple(after.key)
        parts = len(keys)
        for gone, *values in stream(
            self.connection,
            f"SELECT {is_gone}, {listed(keys, 'n')}, {_pairs(columns)} "  # noqa: S608
            f"FROM {before.sql} AS o LEFT JOIN {after.sql} AS n ON {on} WHERE {is_gone} OR {_differences(columns)}",
        ):
            key = values[:parts]
            old, new = _split(columns, values[parts:])
            label = self._label(before, old, None)
            if gone:
                self._judge(Change(Kind.REMOVED, after.name.lower(), before.name, label, None, old, {}))
                continue
            # The whole key, also where the table of before had only a part of it.
            new = {**row_of(keys, key), **new}
            if after.name.lower() == "gateway_routing" or len(sources) > 1:
                new = {**self._row_after(after, key), **new}
            self._judge_columns(before, after, label, old, new, functools.partial(self._group, key, after, sources))

    def _row_after(self, after: Table, key: Sequence[Any]) -> Row:
        places, values = zip(*map(bound, key), strict=True)
        where = " AND ".join(f"n.{quoted(each)} IS {place}" for each, place in zip(after.key, places, strict=True))
        found = self.connection.sql(
            f"SELECT {listed(after.columns, 'n')} FROM {after.sql} AS n WHERE {where}",  # noqa: S608
            values,
        )
        return row_of(after.columns, found[0])

    def _added_by_key(self, after: Table, sources: Sequence[Table]) -> None:
        known = "".join(
            f" EXCEPT SELECT {', '.join(source.key_value(each, 'o') for each in after.key)} FROM {source.sql} AS o"  # noqa: S608
            for source in sources
        )
        for key in stream(self.connection, f"SELECT {listed(tuple(after.key), 'n')} FROM {after.sql} AS n{known}"):  # noqa: S608
            row = self._row_after(after, key)
            self._judge(Change(Kind.ADDED, after.name.lower(), "", self._label(after, row, None), None, {}, row))

    def _group(self, key: Sequence[Any], after: Table, sources: Sequence[Table]) -> Sequence[Row]:
        """The rows before the upgrade that have the key of a row after it."""
        places, values = zip(*map(bound, key), strict=True)
        found: list[Row] = []
        for source in sources:
            where = " AND ".join(
                f"{source.key_value(each, 'o')} IS {place}" for each, place in zip(after.key, places, strict=True)
            )
            found.extend(
                row_of(source.columns, row)
                for row in self.connection.sql(
                    f"SELECT {listed(source.columns, 'o')} FROM {source.sql} AS o WHERE {where}",  # noqa: S608
                    values,
                )
            )
        return found

    # -- judging ------------------------------------------------------------------------------------------------

    def _judge_columns(
        self, before: Table, after: Table, label: str, old: Row, new: Row, group: Callable[[], Sequence[Row]]
    ) -> None:
        for column in old:
            if old[column] != new[column] or type(old[column]) is not type(new[column]):
                change = Change(
                    Kind.CHANGED, after.name.lower(), before.name, label, column, old, new, group, self._kinds_of(after)
                )
                self._judge(change)

    def _kinds_of(self, table: Table) -> Mapping[str, str]:
        """The declared types of the columns of a table after the upgrade."""
        if table.name not in self._types:
            self._types[table.name] = {
                name.lower(): kind
                for name, kind in self.connection.sql(
                    "SELECT name, type FROM pragma_table_info(?, 'main')", (table.name,)
                )
            }
        return self._types[table.name]

    def _judge(self, change: Change) -> None:
        declared = reason_for(change, self.context)
        if declared is not None:
            self.found.used[declared.name] += 1
            return
        # Never a value: it may be what somebody said.
        what = f"was {change.kind.value}"
        if change.kind is Kind.CHANGED:
            what = f"{change.column} changed"
        elif change.kind is Kind.FILLED:
            what = f"{change.column} was added and does not hold its default"
        self._problem(change.source or change.table, change.row, what, change.kind.value)

    def _problem(self, table: str, row: str, what: str, kind: str | None = None) -> None:
        kind = what if kind is None else kind
        self._kinds[table, kind] += 1
        if self._kinds[table, kind] <= SHOWN:
            self.found.problems.append(f"{table}: {row}: {what}")

    @staticmethod
    def _label(table: Table, row: Row, rowid: object) -> str:
        if table.key:
            return "row " + ", ".join(repr(row.get(each)) for each in table.key)
        return f"row {rowid}" if table.name.lower() != "sessions" else f"session {row.get('id')!r}"

    def _compare_sequences(self) -> None:
        """The highest id that was ever given is kept, so that no id is given twice."""
        for schema in ("before", "main"):
            if not self.connection.sql(f"SELECT 1 FROM {schema}.sqlite_master WHERE name = 'sqlite_sequence'"):  # noqa: S608
                return
        for name, before, after in self.connection.sql(
            "SELECT o.name, o.seq, n.seq FROM before.sqlite_sequence AS o "
            "LEFT JOIN main.sqlite_sequence AS n ON n.name = o.name WHERE n.seq IS NULL OR n.seq < o.seq"
        ):
            self.found.problems.append(f"{name}: the highest id given was {before} and is {after}")


def _feeding(table: str) -> list[str]:
    return [leftover for leftover, target in LEFTOVERS.items() if target == table]


def _pairs(columns: Sequence[str]) -> str:
    return ", ".join(f"o.{quoted(name)}, n.{quoted(name)}" for name in columns)


def _differences(columns: Sequence[str]) -> str:
    return " OR ".join(
        f"o.{name} IS NOT n.{name} COLLATE BINARY OR typeof(o.{name}) <> typeof(n.{name})"
        for name in map(quoted, columns)
    )


def _split(columns: Sequence[str], values: Sequence[Any]) -> tuple[Row, Row]:
    return row_of(columns, values[::2]), row_of(columns, values[1::2])
