"""The routing table gets its key (scope, session_key); of several entries of one key the newest stays."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.snapshots.history import create
from tests.snapshots.story import Row
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, golden_faults, kept, module_of, upgrade, use, values
from tests.upgrade.tables import (
    OWNER,
    ROUTING,
    ROUTING_COLUMNS,
    ROUTING_SHAPES,
    ROUTING_THREE_KEYS,
    base_file,
    cut,
    reshape,
    stamp,
)

SHAPES = pytest.mark.parametrize("shape", ROUTING_SHAPES)
HEALTHY = (*ROUTING_COLUMNS, "PRIMARY KEY (scope, session_key)")
LEFTOVER = "gateway_routing_legacy_pk"
ENTRIES = f"SELECT scope, session_key, entry_json, updated_at FROM {ROUTING} ORDER BY scope, session_key"


def _entry(scope: str | None, key: str | None, entry: str | None, at: float | None) -> Row:
    return {"scope": scope, "session_key": key, "entry_json": entry, "updated_at": at}


TWO = [_entry("", "k1", '{"session_id": "一"}', 1.0), _entry("", "k2", "{}", 2.0)]
SAME = [_entry("", "k", "here", 5.0), _entry("s", "k", "there", 4.0)]


def _entries(path: Path, driver: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in values(path, driver, ENTRIES)]


def _as_tuples(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["scope"] or "", row["session_key"], row["entry_json"], row["updated_at"]) for row in rows)


@pytest.mark.parametrize("number", [20, 23, 25])
@SHAPES
def test_every_wrong_shape_is_healed_under_every_stamp(path: Path, one_driver: str, shape: str, number: int) -> None:
    base_file(path, one_driver)
    columns = ROUTING_SHAPES[shape]
    rows = TWO + ([] if shape in {"no_scope", "scope_outside", "capitals"} else SAME)
    reshape(path, one_driver, ROUTING, columns, cut(rows, columns))
    stamp(path, one_driver, number)
    with kept(path, one_driver, but=(ROUTING,)):
        report = upgrade(path)
    assert report.keys_healed == (ROUTING,)
    assert report.revisions_run == ("0021", "0022", "0023")
    assert _entries(path, one_driver) == _as_tuples(rows)
    assert golden_faults(path, one_driver) == []
    check_quiet(path, one_driver)


@SHAPES
def test_what_another_program_did_to_a_current_file_is_healed_too(path: Path, driver: str, shape: str) -> None:
    base_file(path, driver)
    upgrade(path)
    columns = ROUTING_SHAPES[shape]
    reshape(path, driver, ROUTING, columns, cut(TWO, columns))
    report = upgrade(path)
    assert (report.adopted, report.keys_healed) == (False, (ROUTING,))
    assert _entries(path, driver) == _as_tuples(TWO)
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)
    use(path, OWNER)


def test_what_is_null_is_empty_afterwards(path: Path, driver: str) -> None:
    base_file(path, driver)
    rows = [_entry(None, None, None, None), _entry(None, "k", "null scope", 20.0), _entry("", "k", "scope", 9.0)]
    reshape(path, driver, ROUTING, ROUTING_SHAPES["nullable"], rows)
    upgrade(path)
    assert _entries(path, driver) == [("", "", "{}", 0.0), ("", "k", "null scope", 20.0)]


def test_a_part_of_the_key_that_only_a_later_release_knows_stays(path: Path, driver: str) -> None:
    base_file(path, driver)
    reshape(path, driver, ROUTING, ROUTING_THREE_KEYS, [entry | {"host": host} for entry in SAME for host in "ab"])
    with kept(path, driver):
        assert upgrade(path).keys_healed == ()
    check_quiet(path, driver)


def test_columns_indexes_triggers_and_views_of_others_stay(path: Path, driver: str) -> None:
    base_file(path, driver)
    columns = ("session_key TEXT PRIMARY KEY", "note TEXT", *ROUTING_COLUMNS[2:], "weight INTEGER NOT NULL DEFAULT 3")
    rows = [{**row, "note": f"note {place}"} for place, row in enumerate(cut(TWO, columns))]
    strangers = (
        f"CREATE INDEX stranger_by_note ON {ROUTING} (note)",
        f"CREATE VIEW stranger_routes AS SELECT session_key, note, weight FROM {ROUTING}",
        f"CREATE TRIGGER stranger_added AFTER INSERT ON {ROUTING} BEGIN SELECT RAISE(ABORT, 'not twice'); END",
    )
    reshape(path, driver, ROUTING, columns, rows, *strangers)
    named = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'stranger_%' ORDER BY name"
    before = values(path, driver, named)
    upgrade(path)
    assert values(path, driver, named) == before
    assert values(path, driver, "SELECT * FROM stranger_routes") == [("k1", "note 0", 3), ("k2", "note 1", 3)]


# -- any entries ------------------------------------------------------------------------------------------------

_times = st.integers(0, 10_000).map(float)


@st.composite
def entries(draw: st.DrawFn) -> list[Row]:
    """Entries of few keys, no two of one time."""
    keys = st.tuples(st.sampled_from(["", "s", None]), st.sampled_from(["k1", "k2"]))
    chosen = draw(st.lists(keys, max_size=8))
    at = draw(st.lists(_times, min_size=len(chosen), max_size=len(chosen), unique=True))
    return [_entry(scope, key, f"entry {time}", time) for (scope, key), time in zip(chosen, at, strict=True)]


def _newest(rows: list[Row]) -> list[tuple[Any, ...]]:
    newest: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: float(row["updated_at"])):
        newest[row["scope"] or "", row["session_key"]] = row
    return _as_tuples(list(newest.values()))


@pytest.fixture
def base(path: Path, one_driver: str) -> bytes:
    base_file(path, one_driver)
    return path.read_bytes()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=entries(), split=st.integers(0, 8))
def test_the_newest_entry_of_a_key_stays_in_whichever_table_it_was(
    path: Path, one_driver: str, base: bytes, rows: list[Row], split: int
) -> None:
    path.write_bytes(base)
    left, present = rows[:split], rows[split:]
    reshape(path, one_driver, ROUTING, ROUTING_SHAPES["nullable"], present)
    alter(path, module_of(one_driver), create(LEFTOVER, ROUTING_SHAPES["nullable"]))
    reshape(path, one_driver, LEFTOVER, ROUTING_SHAPES["nullable"], left)
    report = upgrade(path)
    assert (report.keys_healed, report.leftovers_adopted) == ((ROUTING,), (LEFTOVER,))
    assert _entries(path, one_driver) == _newest(rows)
