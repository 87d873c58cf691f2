"""Files before and after an upgrade: what they hold, whether they are sound, whether they stay as they are, and use."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.database.connection import Connection, connect
from hermes_store.schema.describe import golden_lines, missing_from_golden, name_of
from hermes_store.schema.report import OpenReport
from tests.schema.inspecting import master, meta, opened, rows, tables_of
from tests.snapshots.checking import index_faults

Columns = dict[str, tuple[str, ...]]
"""Names of columns by table."""


def turn_by_turn(
    cases: Iterable[tuple[Any, ...]], turns: Sequence[Any], *, begin: int = 0, seldom: Collection[Any] = ()
) -> list[Any]:
    """Every case with every one of `turns` as its last value; by default each runs with one of them, in turn.

    begin: with which of them the first case runs. seldom: first values of cases that run in the full form alone.
    """
    every = []
    for place, case in enumerate(cases):
        for each, turn in enumerate(turns):
            is_short = each == (place + begin) % len(turns) and case[0] not in seldom
            every.append(pytest.param(*case, turn, marks=() if is_short else pytest.mark.heavy))
    return every


def module_of(driver: str) -> Any:
    """The DB-API module of a driver, as the builders of files want it."""
    return load_driver(driver).module


def upgrade(path: Path) -> OpenReport:
    """Open a file for writing and close it again; returns what was done."""
    with Store.open(path) as store:
        return store.report


def values(path: Path, driver: str, statement: str, *parameters: Any) -> list[Any]:
    """The rows of one statement on a closed file."""
    with opened(path, driver) as raw:
        return rows(raw, statement, parameters)


def marks(path: Path, driver: str) -> dict[str, str | None]:
    """The keys of `state_meta` without those that this library gives every file."""
    with opened(path, driver) as raw:
        return {
            key: value
            for key, value in meta(raw).items()
            if not key.startswith("hermes_store_") and key != "db_file_generation"
        }


# -- what a file holds -----------------------------------------------------------------------------------------


def columns_of(connection: Any) -> Columns:
    """The columns of every ordinary table."""
    return {
        table: tuple(row[1] for row in rows(connection, f"PRAGMA table_info({table})"))
        for table in sorted(tables_of(connection))
    }


def content_of(
    connection: Any, columns: Columns, *, filled: Mapping[str, object] | None = None
) -> dict[str, list[tuple[Any, ...]]]:
    """The values of those columns in every row, each with its type, in an order of their own.

    filled: what stands in the place of NULL, by `table.column`.
    """
    fill = filled if filled is not None else {}
    content = {}
    for table, names in columns.items():
        chosen = ", ".join(f'"{name}"' for name in names)
        held = [
            tuple(
                fill[f"{table}.{name}"] if value is None and f"{table}.{name}" in fill else value
                for name, value in zip(names, row, strict=True)
            )
            for row in rows(connection, f"SELECT {chosen} FROM {table}")
        ]
        content[table] = sorted((tuple((type(value).__name__, value) for value in row) for row in held), key=repr)
    return content


@contextmanager
def kept(
    path: Path, driver: str, *, but: Collection[str] = (), filled: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Around an upgrade: every value of every row that there was is there afterwards, and no row is added to its table.

    but: tables, or `table.column`, that are looked at otherwise. filled: what NULL becomes, by `table.column`. The
    stamp, and new keys in `state_meta`, are allowed.
    """
    aside = {"schema_version", "alembic_version", *but}
    with opened(path, driver) as raw:
        columns = {
            table: tuple(name for name in names if f"{table}.{name}" not in aside)
            for table, names in columns_of(raw).items()
            if table not in aside
        }
        before = content_of(raw, columns, filled=filled)
    yield
    with opened(path, driver) as raw:
        after = content_of(raw, columns)
    # What the store keeps for itself may be written anew.
    old_marks = {row for row in before.pop("state_meta", []) if not str(row[0][1]).startswith("hermes_store_")}
    assert old_marks <= set(after.pop("state_meta", []))
    assert after == before


# -- sound, and as it was --------------------------------------------------------------------------------------


def golden_columns() -> set[str]:
    """Every column of a new store as `table.column`."""
    return {name_of(line) for line in golden_lines() if "." in name_of(line)}


def golden_indexes() -> set[str]:
    """The ordinary indexes of a new store."""
    return {name_of(line) for line in golden_lines() if ": index on " in line or ": unique index on " in line}


def golden_faults(path: Path, driver: str) -> list[str]:
    """What a file has otherwise than a new store, without the exceptions that are declared."""
    connection = Connection(connect(path, driver=driver), load_driver(driver))
    try:
        return missing_from_golden(connection)
    finally:
        connection.close()


def check_sound(
    path: Path, driver: str, owner: str, *, keys: bool = True, index: bool = True, differs: Iterable[str] = ()
) -> None:
    """SQLite's own check, foreign keys, schema, and whether the indexes follow a message of the session `owner`.

    keys: whether all foreign keys hold. index: whether the indexes are complete. differs: lines of the golden schema
    that this file has otherwise.
    """
    with opened(path, driver) as raw:
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]
        assert (rows(raw, "PRAGMA foreign_key_check") == []) == keys
        if index:
            assert index_faults(raw, owner) == []
    assert golden_faults(path, driver) == list(differs)


def state_of(path: Path, driver: str) -> tuple[Any, ...]:
    """What a second open must not change: the schema and the marks."""
    with opened(path, driver) as raw:
        return master(raw), meta(raw)


def check_quiet(path: Path, driver: str) -> None:
    """One more open has nothing to do."""
    before = state_of(path, driver)
    assert not upgrade(path).changed
    assert state_of(path, driver) == before


# -- use -------------------------------------------------------------------------------------------------------

NEW_WORDS = ("axolotl", "数据湖", "部署")
"""A word, a text for the index of substrings, and one that is scanned for; `use` writes and looks for them."""


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    """Ids of all hits."""
    return [hit["id"] for hit in db.search_messages(query, limit=10_000, **options)]


def holders(db: SessionDB, query: str) -> set[str]:
    """Ids of all sessions with a hit."""
    return {hit["session_id"] for hit in db.search_messages(query, limit=10_000)}


def use(path: Path, session_id: str, *, delete: bool = True) -> None:
    """Append, search, count tokens, and delete the session, as an agent does after an upgrade."""
    with SessionDB(path) as db:
        row_id = db.append_message(session_id, "user", "an axolotl 数据湖 部署")
        call = db.append_message(session_id, "assistant", None, tool_calls=[{"id": "c", "function": {"name": "okapi"}}])
        assert {word: row_id in found(db, word) for word in NEW_WORDS} == dict.fromkeys(NEW_WORDS, True)
        assert [each["id"] for each in db.get_messages(session_id)][-2:] == [row_id, call]
        before = db.get_session(session_id)
        assert before is not None
        route: dict[str, Any] = {"model": "m", "billing_provider": "p", "billing_base_url": "u", "billing_mode": "b"}
        for tokens in (3, 4):
            db.update_token_counts(session_id, input_tokens=tokens, api_call_count=1, **route)
        after = db.get_session(session_id)
        assert after is not None
        assert after["input_tokens"] == (before["input_tokens"] or 0) + 7
        assert sum(row["input_tokens"] for row in _usage_of(db, session_id, "m")) == 7
        if delete:
            assert db.delete_session(session_id)
            assert db.get_session(session_id) is None
            assert {word: row_id in found(db, word) for word in NEW_WORDS} == dict.fromkeys(NEW_WORDS, False)


def _usage_of(db: SessionDB, session_id: str, model: str) -> list[Mapping[str, Any]]:
    with db.store.reader() as reader:
        held = reader.connection.sql(
            "SELECT input_tokens FROM session_model_usage WHERE session_id = ? AND model = ?", (session_id, model)
        )
    return [{"input_tokens": row[0]} for row in held]
