"""Comparing every row that a file held before an upgrade with what stands there after it (rule TEST-3).

The two files are one connection's databases `before` and `main`, both read-only. Memory stays flat: rows are hashed as
they are read, and only where the digests of a table differ are its rows compared one by one, by SQLite.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_store.database.connection import Connection, connect
from hermes_store.maintenance.upgrade_exceptions import KEYS, LEFTOVERS, Change, Context, Kind, Row, reason_for

if TYPE_CHECKING:
    from hermes_store.database.driver import Driver

SHOWN = 5  # problems of one kind in one table; the rest is counted
_SEARCH_PREFIX = "messages_fts"


@dataclass(slots=True)
class ContentFindings:
    """What the comparison found. used: how often each declared exception was, by its name."""

    problems: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    leftovers: dict[str, int] = field(default_factory=dict)


@contextmanager
def both_files(before: Path, after: Path, driver: "Driver") -> Iterator[Connection]:
    """A connection that reads the file after the upgrade as `main` and the one before it as `before`."""
    connection = Connection(connect(after, driver=driver, read_only=True), driver)
    try:
        # One byte that is no UTF-8 must not hide the other rows.
        connection.raw.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        connection.sql("ATTACH DATABASE ? AS before", (f"{before.absolute().as_uri()}?mode=ro",))
        yield connection
    finally:
        connection.close()


def compare_content(connection: Connection, context: Context) -> ContentFindings:
    """Compare every pre-existing column of every row of every ordinary table. See `both_files`."""
    comparison = _Comparison(connection, context)
    comparison.run()
    return comparison.found


@dataclass(frozen=True, slots=True)
class _Table:
    """A table in one of the two files. key: its columns where rows are known by a key, with what stands for NULL."""

    schema: str
    name: str
    columns: tuple[str, ...]
    rowid: str | None
    key: dict[str, str | None]

    @property
    def sql(self) -> str:
        return f"{self.schema}.{_quoted(self.name)}"

    def key_value(self, column: str, alias: str) -> str:
        """An expression of a part of the key, as it is after the upgrade."""
        instead = self.key[column]
        if column not in {name.lower() for name in self.columns}:
            return str(instead)
        place = f"{alias}.{_quoted(column)}"
        return place if instead is None else f"coalesce({place}, {instead})"


class _Comparison:
    """One comparison of two files."""

    def __init__(self, connection: Connection, context: Context) -> None:
        self.connection = connection
        self.context = context
        self.found = ContentFindings()
        self._kinds: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        before, after = self._tables("before"), self._tables("main")
        for name, table in before.items():
            if name in LEFTOVERS:
                self._leftover(table, after)
            elif name not in after:
                self.found.problems.append(f"table {name} is gone, with {self._count(table)} rows")
        for name, table in after.items():
            sources = [before[each] for each in (name, *_feeding(name)) if each in before]
            if name not in before and not sources:
                self._all_added(table)
            elif name not in LEFTOVERS:
                self._compare(table, sources)
        self._compare_sequences()
        for (table_name, kind), count in self._kinds.items():
            if count > SHOWN:
                self.found.problems.append(f"{table_name}: {count - SHOWN} more rows {kind}")

    def _tables(self, schema: str) -> dict[str, _Table]:
        found = {}
        for name, without_rowid in self.connection.sql(
            "SELECT name, wr FROM pragma_table_list WHERE schema = ? AND type IN ('table', 'shadow')", (schema,)
        ):
            lowered = name.lower()
            if lowered.startswith(("sqlite_", _SEARCH_PREFIX)):
                continue
            info = self.connection.sql("SELECT name, pk FROM pragma_table_xinfo(?, ?)", (name, schema))
            columns = tuple(column for column, _ in info)
            known = KEYS.get(LEFTOVERS.get(lowered, lowered))
            key: dict[str, str | None] = {}
            if known is not None:
                key = dict(known)
            elif without_rowid:
                key = {column.lower(): None for column, place in sorted(info, key=lambda row: row[1]) if place}
            taken = {column.lower() for column in columns}
            rowid = next((each for each in ("rowid", "_rowid_", "oid") if each not in taken), None)
            found[lowered] = _Table(schema, name, columns, None if without_rowid else rowid, key)
        return found

    def _count(self, table: _Table) -> int:
        return int(self.connection.sql(f"SELECT count(*) FROM {table.sql}")[0][0])  # noqa: S608

    # -- tables -------------------------------------------------------------------------------------------------

    def _leftover(self, table: _Table, after: dict[str, _Table]) -> None:
        name = table.name.lower()
        self.found.leftovers[name] = self._count(table)
        if name in after:
            self.found.problems.append(f"table {name}, which an interrupted rebuild left, is still there")
        if LEFTOVERS[name] not in after and self.found.leftovers[name]:
            self.found.problems.append(f"table {LEFTOVERS[name]} is not there, so the rows of {name} are lost")

    def _all_added(self, table: _Table) -> None:
        cursor = self._stream(f"SELECT {_columns(table.columns)} FROM {table.sql}")  # noqa: S608
        for position, values in enumerate(cursor, start=1):
            row = _row(table.columns, values)
            self._judge(Change(Kind.ADDED, table.name.lower(), "", self._label(table, row, position), None, {}, row))

    def _compare(self, table: _Table, sources: Sequence[_Table]) -> None:
        shared = {source.name: _shared(source, table) for source in sources}
        for source in sources:
            gone = {name.lower() for name in source.columns} - {name.lower() for name in shared[source.name]}
            self.found.problems.extend(f"{source.name}: the column {name} is gone" for name in sorted(gone))
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

    def _same(self, before: _Table, after: _Table, columns: Sequence[str]) -> bool:
        return self._digest(before, columns) == self._digest(after, columns)

    def _digest(self, table: _Table, columns: Sequence[str]) -> tuple[int, str]:
        """Number of rows, and SHA-256 over type and value of every column of every row."""
        digest = hashlib.sha256()
        count = 0
        identity = [table.rowid] if table.rowid is not None and not table.key else []
        order = identity or [table.key_value(column, "t") for column in table.key]
        raw = self.connection.raw
        lenient = raw.text_factory
        # Texts and blobs keep apart, and nothing has to be UTF-8.
        raw.text_factory = bytearray
        try:
            for row in self._stream(
                f"SELECT {', '.join([*identity, *map(_quoted, columns)])} FROM {table.sql} AS t "  # noqa: S608
                f"ORDER BY {', '.join(order or ['1'])}"
            ):
                digest.update(repr(row).encode())
                count += 1
        finally:
            raw.text_factory = lenient
        return count, digest.hexdigest()

    # -- rows ---------------------------------------------------------------------------------------------------

    def _compare_by_rowid(self, before: _Table, after: _Table, columns: Sequence[str]) -> None:
        o, n = f"o.{before.rowid}", f"n.{after.rowid}"
        pairs = _pairs(columns)
        for is_gone, rowid, *values in self._stream(
            f"SELECT {n} IS NULL, {o}, {pairs} FROM {before.sql} AS o LEFT JOIN {after.sql} AS n ON {n} = {o} "  # noqa: S608
            f"WHERE {n} IS NULL OR {_differences(columns)}"
        ):
            old, new = _split(columns, values)
            label = self._label(before, old, rowid)
            if is_gone:
                self._judge(Change(Kind.REMOVED, after.name.lower(), before.name, label, None, old, {}))
            else:
                self._judge_columns(before, after, label, old, new, tuple)
        for rowid, *values in self._stream(
            f"SELECT {n}, {_columns(after.columns, 'n')} FROM {after.sql} AS n "  # noqa: S608
            f"LEFT JOIN {before.sql} AS o ON {o} = {n} WHERE {o} IS NULL"
        ):
            row = _row(after.columns, values)
            self._judge(Change(Kind.ADDED, after.name.lower(), "", self._label(after, row, rowid), None, {}, row))

    def _changed_by_key(self, before: _Table, after: _Table, columns: Sequence[str], sources: Sequence[_Table]) -> None:
        on = " AND ".join(f"n.{_quoted(each)} IS {before.key_value(each, 'o')}" for each in after.key)
        is_gone = f"n.{after.rowid or _quoted(next(iter(after.key)))} IS NULL"
        parts = len(after.key)
        for gone, *values in self._stream(
            f"SELECT {is_gone}, {_columns(tuple(after.key), 'n')}, {_pairs(columns)} "  # noqa: S608
            f"FROM {before.sql} AS o LEFT JOIN {after.sql} AS n ON {on} WHERE {is_gone} OR {_differences(columns)}"
        ):
            key = values[:parts]
            old, new = _split(columns, values[parts:])
            label = self._label(before, old, None)
            if gone:
                self._judge(Change(Kind.REMOVED, after.name.lower(), before.name, label, None, old, {}))
                continue
            self._judge_columns(before, after, label, old, new, lambda key=key: self._group(tuple(key), after, sources))

    def _added_by_key(self, after: _Table, sources: Sequence[_Table]) -> None:
        known = "".join(
            f" EXCEPT SELECT {', '.join(source.key_value(each, 'o') for each in after.key)} FROM {source.sql} AS o"  # noqa: S608
            for source in sources
        )
        where = " AND ".join(f"n.{_quoted(each)} IS ?" for each in after.key)
        for key in self._stream(f"SELECT {_columns(tuple(after.key), 'n')} FROM {after.sql} AS n{known}"):  # noqa: S608
            for values in self.connection.sql(
                f"SELECT {_columns(after.columns, 'n')} FROM {after.sql} AS n WHERE {where}",  # noqa: S608
                tuple(key),
            ):
                row = _row(after.columns, values)
                label = self._label(after, row, None)
                self._judge(Change(Kind.ADDED, after.name.lower(), "", label, None, {}, row))

    def _group(self, key: tuple[Any, ...], after: _Table, sources: Sequence[_Table]) -> Sequence[Row]:
        """The rows before the upgrade that have the key of a row after it."""
        found: list[Row] = []
        for source in sources:
            where = " AND ".join(f"{source.key_value(each, 'o')} IS ?" for each in after.key)
            found.extend(
                _row(source.columns, values)
                for values in self.connection.sql(
                    f"SELECT {_columns(source.columns, 'o')} FROM {source.sql} AS o WHERE {where}",  # noqa: S608
                    key,
                )
            )
        return found

    # -- judging ------------------------------------------------------------------------------------------------

    def _judge_columns(self, before: _Table, after: _Table, label: str, old: Row, new: Row, group: Any) -> None:
        for column in old:
            if old[column] != new[column] or type(old[column]) is not type(new[column]):
                self._judge(Change(Kind.CHANGED, after.name.lower(), before.name, label, column, old, new, group))

    def _judge(self, change: Change) -> None:
        declared = reason_for(change, self.context)
        if declared is not None:
            self.found.used[declared.name] += 1
            return
        self._kinds[change.table, change.kind.value] += 1
        if self._kinds[change.table, change.kind.value] > SHOWN:
            return
        # Never a value: it may be what somebody said.
        what = f"{change.column} changed" if change.kind is Kind.CHANGED else f"was {change.kind.value}"
        self.found.problems.append(f"{change.source or change.table}: {change.row}: {what}")

    @staticmethod
    def _label(table: _Table, row: Row, rowid: object) -> str:
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

    def _stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        error = self.connection.driver.module.Error
        try:
            yield from self.connection.raw.execute(sql)
        except error as exc:
            raise self.connection.failure(exc) from exc


def _feeding(table: str) -> list[str]:
    return [leftover for leftover, target in LEFTOVERS.items() if target == table]


def _shared(before: _Table, after: _Table) -> list[str]:
    there = {name.lower() for name in after.columns}
    return [name.lower() for name in before.columns if name.lower() in there]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(names: Sequence[str], alias: str | None = None) -> str:
    prefix = f"{alias}." if alias is not None else ""
    return ", ".join(f"{prefix}{_quoted(name)}" for name in names)


def _pairs(columns: Sequence[str]) -> str:
    return ", ".join(f"o.{_quoted(name)}, n.{_quoted(name)}" for name in columns)


def _differences(columns: Sequence[str]) -> str:
    return " OR ".join(
        f"o.{name} IS NOT n.{name} COLLATE BINARY OR typeof(o.{name}) <> typeof(n.{name})"
        for name in map(_quoted, columns)
    )


def _row(columns: Sequence[str], values: Sequence[Any]) -> Row:
    return dict(zip((name.lower() for name in columns), values, strict=True))


def _split(columns: Sequence[str], values: Sequence[Any]) -> tuple[Row, Row]:
    return _row(columns, values[::2]), _row(columns, values[1::2])
