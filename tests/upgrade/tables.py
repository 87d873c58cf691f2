"""Tables of wrong shapes in otherwise sound files, and the rule by which usage rows of one key become one."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.snapshots.build import build_version
from tests.snapshots.facts import add
from tests.snapshots.history import USAGE_FIVE_KEYS, USAGE_SIX_KEYS, USAGE_THREE_KEYS, create
from tests.snapshots.story import Row
from tests.snapshots.writing import alter
from tests.upgrade.files import module_of

USAGE, ROUTING = "session_model_usage", "gateway_routing"
HEALTHY_KEY: Final = ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task")
COUNTERS: Final = (
    "api_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
    "estimated_cost_usd", "actual_cost_usd",
)  # fmt: skip
LAST: Final = ("cost_status", "cost_source", "first_seen", "last_seen")


def _loose(*, key: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The usage table without NOT NULL, defaults or reference."""
    numbers = [f"{name} {'REAL' if name.endswith('usd') else 'INTEGER'}" for name in COUNTERS]
    columns = (*(f"{name} TEXT" for name in HEALTHY_KEY), *numbers, "cost_status TEXT", "cost_source TEXT",
               "first_seen REAL", "last_seen REAL")  # fmt: skip
    return (*columns, f"PRIMARY KEY ({', '.join(key)})") if key else columns


def _with_key(*names: str) -> tuple[str, ...]:
    return (*USAGE_SIX_KEYS[:-1], f"PRIMARY KEY ({', '.join(names)})")


LOOSE: Final = _loose()
USAGE_SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "three_parts": USAGE_THREE_KEYS,
    "five_parts": USAGE_FIVE_KEYS,
    "task_outside": (*USAGE_FIVE_KEYS[:-1], "task TEXT DEFAULT ''", USAGE_FIVE_KEYS[-1]),
    "reversed": _with_key(*HEALTHY_KEY[::-1]),
    "no_key": USAGE_SIX_KEYS[:-1],
    "nullable": LOOSE,
    "nullable_with_key": _loose(key=HEALTHY_KEY),
    "no_cascade": tuple(text.replace(" ON DELETE CASCADE", "") for text in USAGE_SIX_KEYS),
    "no_reference": tuple(text.replace(" REFERENCES sessions(id) ON DELETE CASCADE", "") for text in USAGE_SIX_KEYS),
    "no_defaults": tuple(text.replace(" DEFAULT ''", "").replace(" DEFAULT 0", "") for text in USAGE_SIX_KEYS),
    "capitals": (
        *(text.replace("model ", "MODEL ") for text in USAGE_FIVE_KEYS[:-1]),
        "Task TEXT",
        USAGE_FIVE_KEYS[-1],
    ),
}
"""Wrong shapes of the usage table, as definitions of columns and keys."""

HOST: Final = "host TEXT NOT NULL DEFAULT ''"
USAGE_SEVEN_KEYS: Final = (*USAGE_SIX_KEYS[:-1], HOST, f"PRIMARY KEY ({', '.join(HEALTHY_KEY)}, host)")
"""As a later release may tell usage apart further: today's key, and a part that nobody knows yet."""

ROUTING_COLUMNS: Final = ("scope TEXT NOT NULL DEFAULT ''", "session_key TEXT NOT NULL", "entry_json TEXT NOT NULL",
                          "updated_at REAL NOT NULL")  # fmt: skip
_LOOSE_ROUTING: Final = ("scope TEXT", "session_key TEXT", "entry_json TEXT", "updated_at REAL")
ROUTING_SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "no_scope": ("session_key TEXT PRIMARY KEY", *ROUTING_COLUMNS[2:]),
    "scope_outside": ("session_key TEXT PRIMARY KEY", *ROUTING_COLUMNS[2:], "scope TEXT DEFAULT ''"),
    "reversed": (*ROUTING_COLUMNS, "PRIMARY KEY (session_key, scope)"),
    "no_key": ROUTING_COLUMNS,
    "nullable": _LOOSE_ROUTING,
    "nullable_with_key": (*_LOOSE_ROUTING, "PRIMARY KEY (scope, session_key)"),
    "capitals": ("Scope TEXT", "Session_Key TEXT PRIMARY KEY", *ROUTING_COLUMNS[2:]),
}
"""Wrong shapes of the routing table."""

ROUTING_THREE_KEYS: Final = (*ROUTING_COLUMNS, HOST, "PRIMARY KEY (scope, session_key, host)")
"""As a later release may tell entries apart further."""

OWNER: Final = "20260105_000000_9e3779"


def base_file(path: Path, driver: str, version: int = 23) -> None:
    """A small sound file with the sessions `OWNER` and one more, and no usage or routing rows."""
    story = build_version(path, module_of(driver), version, variant="late", sessions=2, turns=1)
    assert story.session_ids[0] == OWNER
    alter(path, module_of(driver), f"DELETE FROM {USAGE}", f"DELETE FROM {ROUTING}")


def reshape(path: Path, driver: str, table: str, columns: Iterable[str], rows: Iterable[Row], *more: str) -> None:
    """Put a table of these columns, with these rows, in the place of one; `more` are statements that come last."""
    module = module_of(driver)
    suffix = ""
    columns = tuple(columns)
    if columns[-1] == "WITHOUT ROWID":
        columns, suffix = columns[:-1], " WITHOUT ROWID"
    alter(path, module, f"DROP TABLE IF EXISTS {table}", create(table, columns) + suffix)
    add(path, module, {table: rows})
    alter(path, module, *more)


def columns_in(columns: Iterable[str]) -> set[str]:
    """Names in definitions, in lower case."""
    return {text.split()[0].lower() for text in columns} - {"primary", "foreign", "without"}


def cut(rows: Iterable[Row], columns: Iterable[str]) -> list[Row]:
    """Rows without what the columns have no place for."""
    known = columns_in(columns)
    return [{name: value for name, value in row.items() if name in known} for row in rows]


def stamp(path: Path, driver: str, number: int) -> None:
    alter(path, module_of(driver), ("UPDATE schema_version SET version = ?", (number,)))


# -- the rule of usage rows -------------------------------------------------------------------------------------

Merged = dict[tuple[Any, ...], Row]
"""Usage rows by their six keys."""


def complete(row: Mapping[str, Any]) -> Row:
    """A usage row with something in the place of what it lacks."""
    key = {name: row.get(name) if row.get(name) is not None else "" for name in HEALTHY_KEY}
    if row.get("model") is None:
        key["model"] = "unknown"
    numbers = {name: row.get(name) if row.get(name) is not None else 0 for name in COUNTERS}
    return key | numbers | {name: row.get(name) for name in LAST}


def _earlier(one: float | None, other: float | None, choose: Callable[[float, float], float]) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return choose(one, other)


def merge(rows: Iterable[Row], into: Merged | None = None) -> Merged:
    """Rows of one table, by their keys, added up; with `into`, rows of another table beside its merged ones.

    A row that is in both with the same first_seen is the same row, and counts once: the larger number is the later.
    """
    merged: Merged = dict(into or {})
    for row in sorted(map(complete, rows), key=lambda row: -1e300 if row["last_seen"] is None else row["last_seen"]):
        key = tuple(row[name] for name in HEALTHY_KEY)
        old = merged.get(key)
        if old is None:
            merged[key] = row
            continue
        same = into is not None and old["first_seen"] == row["first_seen"]
        for name in COUNTERS:
            row[name] = max(old[name], row[name]) if same else old[name] + row[name]
        for name in ("cost_status", "cost_source"):
            row[name] = old[name] if row[name] is None else row[name]
        row["first_seen"] = _earlier(old["first_seen"], row["first_seen"], min)
        row["last_seen"] = _earlier(old["last_seen"], row["last_seen"], max)
        merged[key] = row
    return merged


USAGE_ROWS: Final[list[Row]] = [
    {"session_id": OWNER, "model": "m1", "billing_provider": "p", "billing_base_url": "u1", "billing_mode": "b"}
    | {"task": "", "api_call_count": 1, "input_tokens": 10, "output_tokens": 20, "cache_read_tokens": 30}
    | {"cache_write_tokens": 40, "reasoning_tokens": 50, "estimated_cost_usd": 0.5, "actual_cost_usd": 0.25}
    | {"cost_status": "actual", "cost_source": "none", "first_seen": 100.0, "last_seen": 200.0},
    {"session_id": OWNER, "model": "m2", "billing_provider": "p", "billing_base_url": "", "billing_mode": ""}
    | {"task": "", "input_tokens": 5, "first_seen": 1.5, "last_seen": 2.5},
    {"session_id": "gone", "model": "m1", "billing_provider": "", "billing_base_url": "", "billing_mode": ""}
    | {"task": "", "input_tokens": 7, "output_tokens": 2**53 + 1, "last_seen": 3.0},
]
"""Rows that every shape has a place for; one is of a session that does not exist."""
for _row in USAGE_ROWS:
    for _name in COUNTERS:
        _row.setdefault(_name, 0)


def usage_in(connection_rows: Iterable[tuple[Any, ...]]) -> Merged:
    """Rows of `USAGE_QUERY` by their keys."""
    found = [dict(zip((*HEALTHY_KEY, *COUNTERS, *LAST), row, strict=True)) for row in connection_rows]
    return {tuple(row[name] for name in HEALTHY_KEY): row for row in found}


USAGE_QUERY: Final = f"SELECT {', '.join((*HEALTHY_KEY, *COUNTERS, *LAST))} FROM {USAGE}"
