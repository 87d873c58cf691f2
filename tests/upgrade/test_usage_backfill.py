"""What sessions spent before version 20 is accounted for once: rows that are there already are not counted twice."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.snapshots.build import build_version
from tests.snapshots.facts import add, session
from tests.snapshots.history import USAGE_SIX_KEYS, create
from tests.snapshots.story import Row
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, golden_faults, module_of, upgrade, values
from tests.upgrade.tables import COUNTERS, LAST, USAGE

TOKENS = COUNTERS[1:6]
ROUTE = "model, billing_provider, billing_base_url, billing_mode, task"
ROW = f"SELECT {ROUTE}, {', '.join((*COUNTERS, *LAST))} FROM {USAGE}"
FULL: Row = {
    "model": "m1", "billing_provider": "p", "billing_base_url": "u", "billing_mode": "b", "api_call_count": 6,
    "input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4, "reasoning_tokens": 5,
    "estimated_cost_usd": 0.5, "actual_cost_usd": 0.25, "cost_status": "actual", "cost_source": "none",
    "started_at": 100.0, "ended_at": 900.0,
}  # fmt: skip


def _file(path: Path, driver: str, *rows: Row, usage: list[Row] | None = None, version: int = 19) -> None:
    build_version(path, module_of(driver), version, sessions=1, turns=1)
    alter(path, module_of(driver), "DELETE FROM messages", "DELETE FROM sessions")
    add(path, module_of(driver), {"sessions": rows})
    if usage is not None:
        alter(path, module_of(driver), create(USAGE, USAGE_SIX_KEYS))
        add(path, module_of(driver), {USAGE: usage})


def _rows(path: Path, driver: str) -> list[Any]:
    return values(path, driver, f"{ROW} ORDER BY session_id, model, task")


def test_a_row_says_what_the_session_says(path: Path, driver: str) -> None:
    _file(path, driver, session("s", **FULL))
    upgrade(path)
    route = ("m1", "p", "u", "b", "")
    assert _rows(path, driver) == [(*route, 6, 1, 2, 3, 4, 5, 0.5, 0.25, "actual", "none", 100.0, 900.0)]
    check_quiet(path, driver)


def test_what_is_null_is_unknown_empty_or_none(path: Path, driver: str) -> None:
    nulls = dict.fromkeys(FULL) | {"started_at": 100.0, "reasoning_tokens": 7}
    _file(path, driver, session("s", **nulls))
    upgrade(path)
    assert _rows(path, driver) == [("unknown", "", "", "", "", 0, 0, 0, 0, 0, 7, 0.0, 0.0, None, None, 100.0, 100.0)]


@pytest.mark.parametrize("name", TOKENS)
def test_any_kind_of_tokens_makes_a_row(path: Path, one_driver: str, name: str) -> None:
    _file(path, one_driver, session("s", **{name: 1}))
    upgrade(path)
    assert values(path, one_driver, f"SELECT {name} FROM {USAGE}") == [(1,)]


@pytest.mark.parametrize("columns", [{}, {"api_call_count": 3}, {"estimated_cost_usd": 1.0}, {"actual_cost_usd": 1.0}])
def test_calls_and_costs_without_tokens_make_none(path: Path, one_driver: str, columns: Row) -> None:
    _file(path, one_driver, session("s", model="m", **columns))
    upgrade(path)
    assert _rows(path, one_driver) == []


@pytest.mark.parametrize("version", [20, 22, 23])
def test_files_that_count_already_get_none(path: Path, one_driver: str, version: int) -> None:
    build_version(path, module_of(one_driver), version, sessions=1, turns=1)
    alter(path, module_of(one_driver), f"DELETE FROM {USAGE}")
    upgrade(path)
    assert _rows(path, one_driver) == []


def _usage(model: str, **columns: Any) -> Row:
    return {"session_id": "s", "model": model, "first_seen": 1.0, "last_seen": 2.0} | columns


def test_what_rows_of_other_models_account_for_is_not_counted_twice(path: Path, driver: str) -> None:
    spent = {"input_tokens": 100, "api_call_count": 9, "estimated_cost_usd": 2.0, "output_tokens": 5}
    other = _usage("other", input_tokens=30, api_call_count=2, estimated_cost_usd=0.5, output_tokens=6)
    _file(path, driver, session("s", model="m", **spent), usage=[other])
    upgrade(path)
    names = ("model", "input_tokens", "api_call_count", "estimated_cost_usd", "output_tokens")
    assert values(path, driver, f"SELECT {', '.join(names)} FROM {USAGE} ORDER BY model") == [
        ("m", 70, 7, 1.5, 0),
        ("other", 30, 2, 0.5, 6),
    ]


def test_a_row_of_the_same_key_stays_as_it_is(path: Path, driver: str) -> None:
    _file(path, driver, session("s", model="m", input_tokens=100), usage=[_usage("m", input_tokens=30)])
    upgrade(path)
    assert values(path, driver, f"SELECT model, input_tokens FROM {USAGE}") == [("m", 30)]


def test_what_is_accounted_for_in_full_gets_no_row(path: Path, driver: str) -> None:
    usage = [_usage("a", input_tokens=60), _usage("b", input_tokens=50)]
    _file(path, driver, session("s", model="m", input_tokens=100, api_call_count=5), usage=usage)
    upgrade(path)
    assert values(path, driver, f"SELECT model FROM {USAGE} ORDER BY model") == [("a",), ("b",)]


@pytest.mark.parametrize("value", ["", "many", b"\x01", "12"])
def test_counters_that_are_no_numbers_are_no_obstacle(path: Path, one_driver: str, value: object) -> None:
    _file(path, one_driver, session("odd", input_tokens=value), session("s", input_tokens=4))
    upgrade(path)
    assert values(path, one_driver, f"SELECT input_tokens FROM {USAGE} WHERE session_id = 's'") == [(4,)]
    assert golden_faults(path, one_driver) == []


def test_negative_and_huge_counters_are_no_obstacle(path: Path, one_driver: str) -> None:
    huge = 2**63 - 1
    rows = [session("less", input_tokens=-5), session("more", input_tokens=huge, output_tokens=huge)]
    _file(path, one_driver, *rows, session("s", input_tokens=4))
    upgrade(path)
    assert values(path, one_driver, f"SELECT session_id, input_tokens FROM {USAGE} ORDER BY session_id") == [
        ("more", huge),
        ("s", 4),
    ]


def test_two_huge_rows_of_a_session_are_no_obstacle(path: Path, one_driver: str) -> None:
    huge = 2**63 - 1
    usage = [_usage("a", input_tokens=huge), _usage("b", input_tokens=huge)]
    _file(path, one_driver, session("s", model="m", input_tokens=5), session("t", input_tokens=4), usage=usage)
    upgrade(path)
    held = values(path, one_driver, f"SELECT session_id, model, input_tokens FROM {USAGE} ORDER BY 1, 2")
    assert held == [("s", "a", huge), ("s", "b", huge), ("t", "unknown", 4)]


# -- any numbers ------------------------------------------------------------------------------------------------

_numbers = st.dictionaries(st.sampled_from(TOKENS), st.integers(0, 2**40))


@pytest.fixture
def base(path: Path, one_driver: str) -> bytes:
    _file(path, one_driver, usage=[])
    return path.read_bytes()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spent=_numbers, first=_numbers, second=_numbers)
def test_in_the_end_as_much_is_accounted_for_as_was_spent(
    path: Path, one_driver: str, base: bytes, spent: dict[str, int], first: dict[str, int], second: dict[str, int]
) -> None:
    path.write_bytes(base)
    usage = [_usage("a", **first), _usage("b", **second)]
    add(path, module_of(one_driver), {"sessions": [session("s", model="m", **spent)], USAGE: usage})
    upgrade(path)
    sums = ", ".join(f"sum({name})" for name in TOKENS)
    (totals,) = values(path, one_driver, f"SELECT {sums} FROM {USAGE}")
    known = [first.get(name, 0) + second.get(name, 0) for name in TOKENS]
    assert list(totals) == [max(spent.get(name, 0), held) for name, held in zip(TOKENS, known, strict=True)]
