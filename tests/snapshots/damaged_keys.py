"""Damage to keys: tables with an old primary key, rebuilds that were interrupted, rows whose owner is gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .build import build_version, plan_of
from .facts import INDEXES_OF, STAMPS, Answer, Damage, Facts, add, facts, names_in_master, small_file
from .hermes_v23 import ON_DEMAND_SQL
from .history import (
    USAGE_FIVE_KEYS,
    USAGE_SIX_KEYS,
    USAGE_THREE_KEYS,
    create,
    index_statement,
    plain_objects,
    tables_of,
)
from .search_indexes import inline_indexes, search_objects
from .story import Row, Story
from .writing import alter, write_file

ROUTING: Final = "gateway_routing"
ROUTING_LEFT: Final = "gateway_routing_legacy_pk"
USAGE: Final = "session_model_usage"
TOPICS: Final = "telegram_dm_topic_bindings"
TOPICS_NEW: Final = "telegram_dm_topic_bindings_new"

_ROUTES: Final = f"SELECT scope, session_key, entry_json, updated_at FROM {ROUTING} ORDER BY scope, session_key"
_UNSCOPED: Final = ("session_key TEXT PRIMARY KEY", "entry_json TEXT NOT NULL", "updated_at REAL NOT NULL")
_NULLABLE: Final = ("scope TEXT DEFAULT ''", "session_key TEXT", "entry_json TEXT NOT NULL", "updated_at REAL NOT NULL")
_REVERSED: Final = (*_NULLABLE, "PRIMARY KEY (session_key, scope)")

_KEY: Final = "agent:main:telegram:dm:7"


def _routing_healed(after: Answer) -> dict[str, Answer]:
    return {
        _ROUTES: after,
        names_in_master(ROUTING_LEFT): [],
        f"SELECT name FROM pragma_table_info('{ROUTING}') WHERE pk > 0 ORDER BY pk": [("scope",), ("session_key",)],
    }


def _route(scope: str | None, key: str, entry: str, at: float) -> Row:
    return {"scope": scope, "session_key": key, "entry_json": entry, "updated_at": at}


def _unscoped(*rows: Row) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "scope"} for row in rows]


def routing(version: int, columns: tuple[str, ...], rows: Iterable[Row], after: Answer) -> Damage:
    """A routing table of another shape with rows of its own instead of the story's."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, version)
        alter(path, driver, f"DROP TABLE {ROUTING}", create(ROUTING, columns))
        add(path, driver, {ROUTING: rows})
        return facts(path, driver, story, _routing_healed(after), rows=list(rows))

    return Damage(make)


def interrupted_routing(left: Iterable[Row], present: Iterable[Row], after: Answer) -> Damage:
    """The old routing table under the name of the rebuild, and the healthy one that was made beside it."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, 23)
        alter(path, driver, f"DELETE FROM {ROUTING}", create(ROUTING_LEFT, _UNSCOPED))
        add(path, driver, {ROUTING_LEFT: left, ROUTING: present})
        return facts(path, driver, story, _routing_healed(after))

    return Damage(make)


_USAGE_COLUMNS: Final = (
    "session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task", "api_call_count",
    "input_tokens", "output_tokens", "estimated_cost_usd", "first_seen", "last_seen",
)  # fmt: skip
_USED: Final = f"SELECT {', '.join(_USAGE_COLUMNS)} FROM {USAGE} ORDER BY session_id, model, task"
_DEFAULTS: Final[Row] = dict.fromkeys(_USAGE_COLUMNS[2:6], "") | dict.fromkeys(_USAGE_COLUMNS[6:10], 0)
_USAGE_INDEXES: Final = (f"idx_{USAGE}_model", f"idx_{USAGE}_session")
_SUMMED: Final = _USAGE_COLUMNS[6:10]


def _answer(rows: Iterable[Row]) -> Answer:
    """The rows as `_USED` gives them; a NULL in a part of the key becomes ''."""
    full = [_DEFAULTS | {name: value for name, value in row.items() if value is not None} for row in rows]
    return sorted(
        (tuple(row.get(name) for name in _USAGE_COLUMNS) for row in full), key=lambda row: (row[0], row[1], row[5])
    )


def _usage_healed(rows: Iterable[Row], *left: str) -> dict[str, Answer]:
    return {
        _USED: _answer(rows),
        INDEXES_OF.format(USAGE): [(name,) for name in _USAGE_INDEXES],
        names_in_master(f"{USAGE}_v21", f"{USAGE}_legacy_pk", *left): [],
        "SELECT count(*) FROM pragma_table_info('session_model_usage') WHERE pk > 0": [(6,)],
        STAMPS: [(23,)],
    }


def _with(columns: tuple[str, ...], *added: str) -> tuple[str, ...]:
    """Definitions of a table to which a reconcile has added columns, which stand behind the others."""
    return (*columns[:-1], *added, columns[-1])


_TASK_OUTSIDE: Final = _with(USAGE_FIVE_KEYS, "task TEXT DEFAULT ''")


def _upgraded(
    path: Path, driver: Any, stamp: int, columns: tuple[str, ...], usage: list[Row], *, inline: bool
) -> Story:
    """A file with all tables of version 23 but for the usage table, as an interrupted upgrade left it."""
    plan = plan_of(235)
    swapped = create(USAGE, tables_of(235)[USAGE]), create(USAGE, columns)
    index = inline_indexes() if inline else search_objects(23)
    statements = [text.replace(*swapped) for text in (*plain_objects(235), *index)]
    tables = dict(plan.tables) | {USAGE: usage}
    write_file(path, driver, statements, tables)
    alter(path, driver, ("UPDATE schema_version SET version = ?", (stamp,)))
    return replace(plan.story, usage_rows=len(usage))


def _main_rows() -> list[Row]:
    """The usage of main loops: what a table without tasks could hold."""
    return [row for row in plan_of(235).tables[USAGE] if not row["task"]]


def interrupted_usage(suffix: str, state: str) -> Damage:
    """The old usage table under the name of a rebuild, at one of the places where a crash can leave it.

    States: `renamed` (no new table), `created` (new and empty), `used` (the copy never came, the new table holds
    what was spent since, seen later), `copied` (both hold the rows, the new ones have grown since, but were first
    seen when the old ones were).
    """
    left = f"{USAGE}_{suffix}"

    def make(driver: Any, path: Path) -> Facts:
        old = _main_rows()
        finished = state in {"used", "copied"} or suffix == "legacy_pk"
        stamp = 23 if finished else 21
        story = _upgraded(path, driver, stamp, _TASK_OUTSIDE, old, inline=suffix == "v21")
        alter(path, driver, f"ALTER TABLE {USAGE} RENAME TO {left}")
        new: list[Row] = []
        after = old
        if state != "renamed":
            alter(path, driver, create(USAGE, USAGE_SIX_KEYS))
        fresh = {"session_id": old[0]["session_id"], "model": "example/new-1", "input_tokens": 3, "first_seen": 1.9e9}
        fresh |= {"last_seen": 1.9e9}
        if state == "used":
            new = [_later(row) for row in old[1:3]] + [fresh]
            after = [old[0], *(_sum(was, more) for was, more in zip(old[1:3], new, strict=False)), *old[3:], fresh]
        elif state == "copied":
            new = [old[0], *(_grown(row) for row in old[1:3]), *old[3:], fresh]
            after = new
        add(path, driver, {USAGE: new})
        return facts(path, driver, story, _usage_healed(after), left=left, old=old, new=new)

    return Damage(make)


def _later(row: Row) -> Row:
    """What was spent under the same key after a crash."""
    key = {name: row[name] for name in _USAGE_COLUMNS[:6]}
    spent = {"api_call_count": 2, "input_tokens": 70, "output_tokens": 9, "estimated_cost_usd": 0.5}
    return key | spent | {"first_seen": row["last_seen"] + 1000, "last_seen": row["last_seen"] + 2000}


def _sum(was: Row, more: Row) -> Row:
    return was | {name: was[name] + more[name] for name in _SUMMED} | {"last_seen": more["last_seen"]}


def _grown(row: Row) -> Row:
    return row | {name: row[name] + 5 for name in _SUMMED} | {"last_seen": row["last_seen"] + 2000}


def failed_usage_v20(driver: Any, path: Path) -> Facts:
    """The three-part usage table under the name of a rebuild that could not copy its NULLs, and an empty new one."""
    old = plan_of(200).tables[USAGE]
    added = ("billing_mode TEXT DEFAULT ''", "task TEXT DEFAULT ''", "actual_cost_usd REAL NOT NULL DEFAULT 0")
    columns = _with(USAGE_THREE_KEYS, *added, "cost_status TEXT", "cost_source TEXT")
    story = _upgraded(path, driver, 20, columns, old, inline=True)
    left = f"{USAGE}_v21"
    alter(path, driver, f"ALTER TABLE {USAGE} RENAME TO {left}", create(USAGE, USAGE_SIX_KEYS))
    return facts(path, driver, story, _usage_healed(old), left=left, old=old, new=[])


def _orphans(version: int, columns: tuple[str, ...]) -> Damage:
    """A usage table with the five-part key, in which one row names a session that does not exist."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, version)
        owned = {"session_id": story.session_ids[0], "model": "m1", "input_tokens": 5, "first_seen": 1.0}
        lost = owned | {"session_id": "gone", "input_tokens": 8}
        rows = [owned | {"last_seen": 2.0}, lost | {"last_seen": 3.0}]
        alter(path, driver, f"DROP TABLE {USAGE}", create(USAGE, columns))
        alter(path, driver, *(index_statement(name) for name in _USAGE_INDEXES))
        add(path, driver, {USAGE: rows})
        return facts(path, driver, story, _usage_healed(rows), orphan="gone", owner=owned["session_id"], model="m1")

    return Damage(make, sound_keys=False)


def task_outside_key(driver: Any, path: Path) -> Facts:
    """Version 22 whose usage rows say a task, or NULL, in a column that is no part of the key."""
    story = small_file(path, driver, 22)
    alter(path, driver, f"DROP TABLE {USAGE}", create(USAGE, _TASK_OUTSIDE))
    base = {"session_id": story.session_ids[0], "input_tokens": 4, "first_seen": 1.0, "last_seen": 2.0}
    rows = [base | {"model": f"m{place}", "task": task} for place, task in enumerate(("", None, "vision"))]
    add(path, driver, {USAGE: rows})
    return facts(path, driver, story, _usage_healed(rows))


def interrupted_topics(state: str) -> Damage:
    """Topic bindings of the first form, at one of the places where a crash can leave their rebuild.

    States: `created` (new and empty), `copied` (both hold the rows), `dropped` (only the new one is left),
    `recreated` (as `dropped`, and a later use made an empty table under the old name).
    """

    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, 23, variant="late", sessions=4, turns=2)
        table, *indexes = ON_DEMAND_SQL[TOPICS]
        first_form = table.replace(" ON DELETE CASCADE", "")
        rows = [
            {"chat_id": "1", "thread_id": str(place), "user_id": "u", "session_key": f"k{place}", "session_id": name}
            | {"linked_at": 10.0 + place, "updated_at": 20.0 + place}
            for place, name in enumerate(story.session_ids)
        ]
        old = state in {"created", "copied"}
        statements = [*ON_DEMAND_SQL["telegram_dm_topic_mode"], table.replace(TOPICS, TOPICS_NEW)]
        statements += [first_form, *indexes] if old else [table] if state == "recreated" else []
        alter(path, driver, *statements)
        meta = {"key": "telegram_dm_topic_schema_version", "value": "1"}
        tables: dict[str, list[Row]] = {"state_meta": [meta], TOPICS_NEW: rows if state != "created" else []}
        add(path, driver, tables | ({TOPICS: rows} if old else {}))
        healed: dict[str, Answer] = {
            f"SELECT chat_id, thread_id, session_id, linked_at FROM {TOPICS} ORDER BY thread_id": [
                ("1", row["thread_id"], row["session_id"], row["linked_at"]) for row in rows
            ],
            names_in_master(TOPICS_NEW): [],
        }
        return facts(path, driver, story, healed, rows=rows)

    return Damage(make)


_KEYLESS: Final = (
    _route("", "k", "old", 1.0), _route("", "k", "new", 9.0), _route("", "k", "mid", 5.0),
    _route(None, "k", "nul", 20.0), _route("s", "k", "sc", 2.0),
)  # fmt: skip
_TWO: Final = (_route("", "k1", "one", 1.0), _route("", "k2", "two", 2.0))
_AFTER_TWO: Final[Answer] = [("", "k1", "one", 1.0), ("", "k2", "two", 2.0)]
_SCOPES: Final = (_route("", _KEY, "here", 5.0), _route("s", _KEY, "there", 4.0), _route(None, _KEY, "null", 3.0))

DAMAGES: Final[dict[str, Damage]] = {
    **{
        f"routing_without_scope_v{version}": routing(version, _UNSCOPED, _unscoped(*_TWO), _AFTER_TWO)
        for version in (19, 23)
    },
    "routing_scope_outside_key": routing(23, (*_UNSCOPED, "scope TEXT DEFAULT ''"), _TWO, _AFTER_TWO),
    "routing_without_key": routing(23, _NULLABLE, _KEYLESS, [("", "k", "nul", 20.0), ("s", "k", "sc", 2.0)]),
    "routing_reversed_key": routing(23, _REVERSED, _TWO, _AFTER_TWO),
    "routing_same_key_in_two_scopes": routing(
        23, _REVERSED, _SCOPES, [("", _KEY, "here", 5.0), ("s", _KEY, "there", 4.0)]
    ),
    "interrupted_routing_rebuild": interrupted_routing(_unscoped(*_TWO), (), _AFTER_TWO),
    "interrupted_routing_rebuild_used": interrupted_routing(
        _unscoped(*_TWO),
        (_route("", "k2", "newer", 9.0), _route("", "k3", "three", 8.0)),
        [("", "k1", "one", 1.0), ("", "k2", "newer", 9.0), ("", "k3", "three", 8.0)],
    ),
    **{
        f"interrupted_usage_rebuild_{suffix}_{state}": interrupted_usage(suffix, state)
        for suffix in ("v21", "legacy_pk")
        for state in ("renamed", "created", "used", "copied")
    },
    "failed_usage_rebuild_v20": Damage(failed_usage_v20),
    "orphan_usage_v21": _orphans(21, USAGE_FIVE_KEYS),
    "orphan_usage_v22_five_column_key": _orphans(22, USAGE_FIVE_KEYS),
    "usage_task_outside_key": Damage(task_outside_key),
    **{
        f"interrupted_topic_rebuild_{state}": interrupted_topics(state)
        for state in ("created", "copied", "dropped", "recreated")
    },
}
