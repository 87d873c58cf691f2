"""Tables that an interrupted rebuild left behind are taken over, at whichever statement the rebuild was killed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.snapshots.hermes_v23 import ON_DEMAND_SQL
from tests.snapshots.history import USAGE_FIVE_KEYS, USAGE_SIX_KEYS, create, index_statement
from tests.snapshots.story import Row
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, check_sound, golden_faults, module_of, upgrade, use, values
from tests.upgrade.tables import (
    HEALTHY_KEY,
    OWNER,
    ROUTING,
    ROUTING_COLUMNS,
    ROUTING_SHAPES,
    USAGE,
    USAGE_QUERY,
    USAGE_ROWS,
    base_file,
    cut,
    merge,
    reshape,
    stamp,
    usage_in,
)

ROUTING_LEFT = "gateway_routing_legacy_pk"
HEALTHY_ROUTING = create(ROUTING, (*ROUTING_COLUMNS, "PRIMARY KEY (scope, session_key)"))
_TASK_OUTSIDE = (*USAGE_FIVE_KEYS[:-1], "task TEXT DEFAULT ''", USAGE_FIVE_KEYS[-1])
_ROUTE = ("billing_provider", "billing_base_url", "billing_mode")


def _usage_rebuild(left: str) -> Sequence[str]:
    """The statements of the rebuild, each of which was committed by itself."""
    names = [name for name in (text.split()[0] for text in USAGE_SIX_KEYS[:-1]) if name != "task"]
    copied = [f"COALESCE({name}, '')" if name in _ROUTE else name for name in names]
    return (
        f"ALTER TABLE {USAGE} RENAME TO {left}",
        create(USAGE, USAGE_SIX_KEYS),
        f"INSERT OR IGNORE INTO {USAGE} ({', '.join(names)}, task) SELECT {', '.join(copied)}, '' FROM {left}",
        f"DROP TABLE {left}",
        index_statement(f"idx_{USAGE}_session"),
        index_statement(f"idx_{USAGE}_model"),
    )


def _routing_rebuild() -> Sequence[str]:
    return (
        f"ALTER TABLE {ROUTING} RENAME TO {ROUTING_LEFT}",
        HEALTHY_ROUTING,
        f"INSERT OR REPLACE INTO {ROUTING} SELECT '', session_key, entry_json, updated_at FROM {ROUTING_LEFT}",
        f"DROP TABLE {ROUTING_LEFT}",
    )


@pytest.mark.parametrize("left", ["session_model_usage_v21", "session_model_usage_legacy_pk"])
@pytest.mark.parametrize("statements", range(7))
def test_a_usage_rebuild_killed_anywhere_loses_and_doubles_nothing(
    path: Path, one_driver: str, left: str, statements: int
) -> None:
    base_file(path, one_driver, 22)
    rows = [row | {"first_seen": row.get("first_seen", 1.0)} for row in cut(USAGE_ROWS, USAGE_FIVE_KEYS)]
    reshape(
        path,
        one_driver,
        USAGE,
        _TASK_OUTSIDE,
        rows,
        *(index_statement(f"idx_{USAGE}_{n}") for n in ("session", "model")),
    )
    stamp(path, one_driver, 21)
    alter(path, module_of(one_driver), *_usage_rebuild(left)[:statements])
    upgrade(path)
    assert usage_in(values(path, one_driver, USAGE_QUERY)) == merge(rows)
    assert values(path, one_driver, "SELECT name FROM sqlite_master WHERE name = ?", left) == []
    assert golden_faults(path, one_driver) == []
    check_quiet(path, one_driver)
    use(path, OWNER)


@pytest.mark.parametrize("statements", range(5))
def test_a_routing_rebuild_killed_anywhere_loses_nothing(path: Path, one_driver: str, statements: int) -> None:
    base_file(path, one_driver)
    columns = ROUTING_SHAPES["no_scope"]
    rows = [{"session_key": key, "entry_json": "{}", "updated_at": 1.0} for key in ("k1", "k2")]
    reshape(path, one_driver, ROUTING, columns, rows)
    alter(path, module_of(one_driver), *_routing_rebuild()[:statements])
    upgrade(path)
    held = values(path, one_driver, f"SELECT scope, session_key, entry_json, updated_at FROM {ROUTING} ORDER BY 2")
    assert held == [("", "k1", "{}", 1.0), ("", "k2", "{}", 1.0)]
    assert values(path, one_driver, "SELECT name FROM sqlite_master WHERE name = ?", ROUTING_LEFT) == []
    assert golden_faults(path, one_driver) == []
    check_quiet(path, one_driver)


@pytest.mark.parametrize("adopted", [False, True], ids=["new", "current"])
def test_both_kinds_of_usage_leftovers_at_once(path: Path, driver: str, adopted: bool) -> None:
    base_file(path, driver)
    if adopted:
        upgrade(path)
    first, second, gone = USAGE_ROWS
    present = second | {"model": "m3"}
    reshape(path, driver, "session_model_usage_v21", USAGE_FIVE_KEYS, cut([first, second], USAGE_FIVE_KEYS))
    reshape(path, driver, "session_model_usage_legacy_pk", USAGE_FIVE_KEYS, cut([gone], USAGE_FIVE_KEYS))
    reshape(path, driver, USAGE, USAGE_SIX_KEYS, [present])
    report = upgrade(path)
    assert set(report.leftovers_adopted) == {"session_model_usage_v21", "session_model_usage_legacy_pk"}
    assert report.adopted is not adopted
    assert usage_in(values(path, driver, USAGE_QUERY)) == merge([first, second, gone, present])
    check_sound(path, driver, OWNER, keys=False)
    check_quiet(path, driver)


def test_an_empty_leftover_goes(path: Path, one_driver: str) -> None:
    base_file(path, one_driver)
    reshape(path, one_driver, USAGE, USAGE_SIX_KEYS, USAGE_ROWS[:1])
    for name in ("session_model_usage_v21", "session_model_usage_legacy_pk", ROUTING_LEFT):
        reshape(path, one_driver, name, USAGE_FIVE_KEYS if "usage" in name else ROUTING_COLUMNS, [])
    assert len(upgrade(path).leftovers_adopted) == 3
    assert usage_in(values(path, one_driver, USAGE_QUERY)) == merge(USAGE_ROWS[:1])
    assert golden_faults(path, one_driver) == []


def test_a_leftover_with_a_column_that_nobody_knows_brings_it_along(path: Path, one_driver: str) -> None:
    base_file(path, one_driver)
    columns = (*USAGE_FIVE_KEYS[:-1], "note TEXT", USAGE_FIVE_KEYS[-1])
    rows = [row | {"note": "kept"} for row in cut(USAGE_ROWS[:1], columns)]
    reshape(path, one_driver, "session_model_usage_v21", columns, rows)
    upgrade(path)
    assert values(path, one_driver, f"SELECT {HEALTHY_KEY[1]}, note FROM {USAGE}") == [("m1", "kept")]


# -- topics of chats --------------------------------------------------------------------------------------------

TOPICS, TOPICS_NEW = "telegram_dm_topic_bindings", "telegram_dm_topic_bindings_new"


def _binding(thread: str, session_id: str) -> Row:
    return {"chat_id": "1", "thread_id": thread, "user_id": "u", "session_key": f"k{thread}"} | {
        "session_id": session_id, "linked_at": 1.0, "updated_at": 2.0,
    }  # fmt: skip


def test_a_binding_made_since_stays_beside_those_that_were_left(path: Path, driver: str) -> None:
    """The rebuild was killed between drop and rename; a later use made a new table, and bound one session."""
    base_file(path, driver)
    other = values(path, driver, "SELECT id FROM sessions WHERE id <> ?", OWNER)[0][0]
    alter(path, module_of(driver), *ON_DEMAND_SQL[TOPICS])
    table = ON_DEMAND_SQL[TOPICS][0]
    alter(path, module_of(driver), table.replace(TOPICS, TOPICS_NEW))
    statement = "INSERT INTO {} ({}) VALUES ({})"
    for name, row in (
        (TOPICS_NEW, _binding("7", OWNER)),
        (TOPICS, _binding("8", other)),
        (TOPICS_NEW, _binding("8", other)),
    ):
        marks = ", ".join("?" for _ in row)
        alter(path, module_of(driver), (statement.format(name, ", ".join(row), marks), tuple(row.values())))
    assert upgrade(path).leftovers_adopted == (TOPICS_NEW,)
    held: list[Any] = values(path, driver, f"SELECT thread_id, session_id FROM {TOPICS} ORDER BY thread_id")
    assert held == [("7", OWNER), ("8", other)]
    assert values(path, driver, "SELECT name FROM sqlite_master WHERE name = ?", TOPICS_NEW) == []
    with SessionDB(path) as db:
        assert db.delete_session(OWNER)
    assert values(path, driver, f"SELECT thread_id FROM {TOPICS}") == [("8",)]
