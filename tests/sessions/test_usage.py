"""What calls have used is added up on the session and per route (rules USAGE-1, USAGE-2 and USAGE-5)."""

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from hermes_store import NewUsage, SessionDB, Store, Unit, UsageRecord
from hermes_store.errors import InvalidValue, ReadOnlyStore
from tests.sessions.raw import INTEGRITY_ERROR, RawFile, insertion, on_one_engine, present
from tests.support.clocks import FakeClock

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
COUNTERS = (*TOKENS, "api_call_count")
COSTS = ("estimated_cost_usd", "actual_cost_usd")
LABELS = ("cost_status", "cost_source", "pricing_version")
EVERY_COUNT: dict[str, Any] = dict(zip(COUNTERS, (1, 20, 300, 4_000, 50_000, 6), strict=True))


def picked(row: dict[str, Any] | None, *names: str) -> tuple[Any, ...]:
    return tuple(present(row)[name] for name in names)


def usage_of(db: SessionDB, session_id: str = "a") -> list[UsageRecord]:
    with db.store.reader() as reader:
        return reader.usage.of_session(session_id)


def arguments(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


@pytest.fixture
def db(db: SessionDB) -> SessionDB:
    db.create_session("a", "cli")
    return db


# -- counts -----------------------------------------------------------------------------------------------------


def test_counts_are_added_column_by_column(db: SessionDB) -> None:
    db.create_session("b", "cli")
    db.update_token_counts("a", **EVERY_COUNT)
    db.update_token_counts("a", **EVERY_COUNT)
    assert picked(db.get_session("a"), *COUNTERS) == (2, 40, 600, 8_000, 100_000, 12)
    assert picked(db.get_session("b"), *COUNTERS) == (0,) * 6


def test_an_absolute_report_overwrites_and_sets_what_it_leaves_out_to_zero(db: SessionDB) -> None:
    db.update_token_counts("a", **EVERY_COUNT, estimated_cost_usd=0.5, actual_cost_usd=0.25)
    db.update_token_counts("a", input_tokens=5, output_tokens=6, absolute=True)
    assert picked(db.get_session("a"), *COUNTERS, *COSTS) == (5, 6, 0, 0, 0, 0, 0.0, 0.25)


def test_positional_arguments_have_their_place(db: SessionDB) -> None:
    db.update_token_counts("a", 1, 2, "m", 3, 4, 5)
    assert picked(db.get_session("a"), *TOKENS, "model") == (1, 2, 3, 4, 5, "m")


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("absolute", [False, True])
def test_none_counts_as_zero_and_the_next_report_is_right(db: SessionDB, name: str, absolute: bool) -> None:
    db.update_token_counts("a", **arguments(name, None), absolute=absolute)
    assert picked(db.get_session("a"), name) == (0,)
    db.update_token_counts("a", **arguments(name, 7))
    db.update_token_counts("a", **arguments(name, None))
    assert picked(db.get_session("a"), name) == (7,)


@pytest.mark.parametrize("name", [*COUNTERS, *COSTS])
def test_a_total_that_is_null_starts_again(db: SessionDB, raw: RawFile, name: str) -> None:
    db.update_token_counts("a", **EVERY_COUNT, estimated_cost_usd=0.5, actual_cost_usd=0.5)
    before = present(db.get_session("a"))
    raw.change("a", **arguments(name, None))
    db.update_token_counts("a", **arguments(name, 7))
    after = present(db.get_session("a"))
    assert after[name] == 7
    assert {**after, name: before[name]} == before


def test_a_report_of_zeros_repairs_totals_that_are_null(db: SessionDB, raw: RawFile) -> None:
    raw.change("a", **dict.fromkeys(COUNTERS))
    db.update_token_counts("a")
    assert picked(db.get_session("a"), *COUNTERS, *COSTS) == (0, 0, 0, 0, 0, 0, 0.0, None)
    assert usage_of(db) == []


def test_a_usage_row_with_null_counters_starts_again(db: SessionDB, raw: RawFile) -> None:
    """Tables of old files had no NOT NULL everywhere."""
    raw.run(
        [
            ("DROP TABLE session_model_usage", ()),
            (f"CREATE TABLE session_model_usage ({', '.join(UsageRecord.__slots__)})", ()),
            insertion("session_model_usage", {"session_id": "a", "model": "m", "task": "", **dict.fromkeys(COUNTERS)}),
            ("UPDATE session_model_usage SET billing_provider = '', billing_base_url = '', billing_mode = ''", ()),
        ]
    )
    db.update_token_counts("a", input_tokens=7, model="m")
    assert raw.rows("SELECT input_tokens, output_tokens, estimated_cost_usd FROM session_model_usage") == [(7, 0, 0.0)]


@on_one_engine
@pytest.mark.parametrize(
    ("given", "counted"),
    [(-3, -3), ("12", 12), (" 12 ", 12), ("1e3", 1000), ("2.6", 3), (2.6, 3), (4.0, 4), (True, 1), (Decimal(5), 5)],
)
def test_what_is_a_number_counts(db: SessionDB, given: Any, counted: int) -> None:
    db.update_token_counts("a", input_tokens=10)
    db.update_token_counts("a", input_tokens=given)
    found = picked(db.get_session("a"), "input_tokens")
    assert (found, type(found[0])) == ((10 + counted,), int)
    assert sum(row.input_tokens for row in usage_of(db)) == 10 + counted


@on_one_engine
@pytest.mark.parametrize("name", ["input_tokens", "api_call_count", "estimated_cost_usd", "actual_cost_usd"])
@pytest.mark.parametrize("given", ["many", "", b"\xff", [1], {}, object()])
@pytest.mark.parametrize("absolute", [False, True])
def test_what_is_no_number_is_refused_and_nothing_is_written(
    db: SessionDB, raw: RawFile, name: str, given: Any, absolute: bool
) -> None:
    with pytest.raises(InvalidValue, match=name):
        db.update_token_counts("new", **{"output_tokens": 5, name: given}, absolute=absolute)
    assert (db.get_session("new"), raw.count("session_model_usage")) == (None, 0)


@on_one_engine
@pytest.mark.parametrize("given", [math.nan, math.inf, -math.inf, "nan"])
def test_a_count_without_a_value_is_refused(db: SessionDB, given: Any) -> None:
    with pytest.raises(InvalidValue, match="reasoning_tokens"):
        db.update_token_counts("a", reasoning_tokens=given)


def test_a_count_beyond_64_bits_is_refused_and_nothing_is_written(db: SessionDB) -> None:
    with pytest.raises(InvalidValue, match="64 bits"):
        db.update_token_counts("new", input_tokens=2**63, output_tokens=1)
    assert db.get_session("new") is None


def test_an_unknown_argument_is_refused(db: SessionDB) -> None:
    arguments: dict[str, Any] = {"prompt_tokens": 1}
    with pytest.raises(TypeError):
        db.update_token_counts("a", **arguments)
    with pytest.raises(TypeError):
        NewUsage(**arguments)


# -- costs ------------------------------------------------------------------------------------------------------


def test_a_report_without_costs_makes_the_estimate_zero_and_leaves_the_actual_cost_open(db: SessionDB) -> None:
    assert picked(db.get_session("a"), *COSTS) == (None, None)
    db.update_token_counts("a", input_tokens=1)
    assert picked(db.get_session("a"), *COSTS) == (0.0, None)


@pytest.mark.parametrize("absolute", [False, True])
def test_an_actual_cost_that_is_not_given_stays(db: SessionDB, absolute: bool) -> None:
    db.update_token_counts("a", actual_cost_usd=0.5)
    db.update_token_counts("a", input_tokens=1, absolute=absolute)
    assert picked(db.get_session("a"), "actual_cost_usd") == (0.5,)


def test_costs_add_up_or_are_overwritten(db: SessionDB) -> None:
    for _ in range(2):
        db.update_token_counts("a", estimated_cost_usd=0.5, actual_cost_usd=0.25)
    db.update_token_counts("a", estimated_cost_usd="-0.25")  # type: ignore[arg-type]
    assert picked(db.get_session("a"), *COSTS) == (0.75, 0.5)
    db.update_token_counts("a", estimated_cost_usd=2, actual_cost_usd=1, absolute=True)
    assert picked(db.get_session("a"), *COSTS) == (2.0, 1.0)
    db.update_token_counts("a", absolute=True)
    assert picked(db.get_session("a"), *COSTS) == (0.0, 1.0)


@on_one_engine
@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("given", [math.nan, math.inf, -math.inf, "nan", Decimal("NaN")])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_cost_that_nobody_can_add_up_costs_no_tokens(db: SessionDB, name: str, given: Any, absolute: bool) -> None:
    first: dict[str, Any] = {"estimated_cost_usd": 0.5, "actual_cost_usd": 0.25}
    db.update_token_counts("a", **first, cost_status="actual", cost_source="provider_cost_api")
    db.update_token_counts("a", input_tokens=7, cost_status="actual", **{name: given}, absolute=absolute)
    assert picked(db.get_session("a"), "input_tokens", *COSTS) == (7, 0.0 if absolute else 0.5, 0.25)
    assert picked(db.get_session("a"), "cost_status", "cost_source") == ("unknown", "none")


@pytest.mark.parametrize("absolute", [False, True])
def test_labels_are_the_latest_that_were_given(db: SessionDB, absolute: bool) -> None:
    db.update_token_counts("a", cost_status="estimated", cost_source="s", pricing_version="1", absolute=absolute)
    db.update_token_counts("a", pricing_version="2", absolute=absolute)
    assert picked(db.get_session("a"), *LABELS) == ("estimated", "s", "2")


# -- sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("tokens", [0, 7])
def test_an_unknown_session_is_created(db: SessionDB, absolute: bool, tokens: int) -> None:
    db.update_token_counts("new", input_tokens=tokens, model="m", absolute=absolute)
    assert picked(db.get_session("new"), "source", "model", "input_tokens", "ended_at") == (
        "unknown",
        "m",
        tokens,
        None,
    )


def test_an_existing_session_keeps_its_source_and_start(db: SessionDB) -> None:
    before = present(db.get_session("a"))
    db.update_token_counts("a", input_tokens=7)
    after = present(db.get_session("a"))
    assert after == {**before, "input_tokens": 7, "estimated_cost_usd": 0.0}


@pytest.mark.parametrize("reason", ["user_exit", "compression"])
def test_an_ended_session_is_accounted_and_stays_ended(db: SessionDB, raw: RawFile, reason: str) -> None:
    raw.change("a", ended_at=5.0, end_reason=reason)
    raw.lock("a", "somebody", 1e12)
    db.update_token_counts("a", input_tokens=7)
    assert picked(db.get_session("a"), "input_tokens", "ended_at", "end_reason") == (7, 5.0, reason)


@on_one_engine
@pytest.mark.parametrize("session_id", [None, b"x", 1.5, ("a",), "a\0b"])
def test_what_is_no_id_is_refused(db: SessionDB, raw: RawFile, session_id: Any) -> None:
    with pytest.raises(InvalidValue, match="cannot be the id"):
        db.update_token_counts(session_id, input_tokens=7)
    assert (raw.count("sessions"), raw.count("session_model_usage")) == (1, 0)


def test_texts_that_sqlite_cannot_hold_are_replaced(db: SessionDB) -> None:
    for _ in range(2):
        db.update_token_counts("x\ud800", 7, model="m\ud800", cost_status="s\ud800", billing_provider="p\ud800")
    assert picked(db.get_session("x\ufffd"), "input_tokens", "model", "cost_status") == (14, "m\ufffd", "s\ufffd")
    assert [row.input_tokens for row in usage_of(db, "x\ufffd")] == [14]


def test_a_store_for_reading_refuses(db: SessionDB) -> None:
    db.close()
    with SessionDB(db.db_path, read_only=True) as reading, pytest.raises(ReadOnlyStore):
        reading.update_token_counts("a", input_tokens=7)


# -- usage rows -------------------------------------------------------------------------------------------------


def test_a_usage_row_holds_the_sums_of_its_route(store: Store, clock: FakeClock) -> None:
    route: dict[str, Any] = {"model": "m", "billing_provider": "p", "billing_base_url": "u", "billing_mode": "o"}
    began = clock.now()
    usage = NewUsage(**EVERY_COUNT, estimated_cost_usd=0.5, cost_status="estimated", cost_source="s", **route)
    store.write(lambda unit: unit.record_usage("a", usage))
    clock.advance(60)
    usage = NewUsage(**EVERY_COUNT, actual_cost_usd=0.25, cost_status="actual", **route)
    store.write(lambda unit: unit.record_usage("a", usage))
    counts = {name: 2 * value for name, value in EVERY_COUNT.items()}
    with store.reader() as reader:
        assert reader.usage.of_session("nobody") == []
        assert reader.usage.of_session("a") == [
            UsageRecord(
                session_id="a",
                task="",
                **route,
                **counts,
                estimated_cost_usd=0.5,
                actual_cost_usd=0.25,
                cost_status="actual",
                cost_source="s",
                first_seen=began,
                last_seen=began + 60,
            )
        ]


@pytest.mark.parametrize(
    ("report", "rows"),
    [
        ({}, 0),
        ({"model": "m", "cost_status": "actual", "estimated_cost_usd": 0.0}, 0),
        ({"actual_cost_usd": 0.5}, 0),
        ({"estimated_cost_usd": 0.5}, 1),
        *(({name: 1}, 1) for name in COUNTERS),
        *(({name: 1, "absolute": True}, 0) for name in (*COUNTERS, "estimated_cost_usd")),
    ],
)
def test_what_makes_a_usage_row(db: SessionDB, report: dict[str, Any], rows: int) -> None:
    db.update_token_counts("a", **report)
    assert len(usage_of(db)) == rows


def test_two_routes_have_a_row_each_and_the_session_the_sum(db: SessionDB) -> None:
    primary: dict[str, Any] = {"model": "m", "billing_provider": "p", "billing_base_url": "u", "billing_mode": "o"}
    fallback: dict[str, Any] = {"model": "n", "billing_provider": "q", "billing_base_url": "v", "billing_mode": "w"}
    db.update_token_counts("a", 100, 50, estimated_cost_usd=0.5, api_call_count=1, **primary)
    db.update_token_counts("a", 30, 20, estimated_cost_usd=0.25, api_call_count=1, **fallback)
    assert picked(db.get_session("a"), *primary) == tuple(primary.values())
    assert picked(db.get_session("a"), "input_tokens", "output_tokens", "estimated_cost_usd") == (130, 70, 0.75)
    assert [(row.model, row.input_tokens, row.output_tokens, row.estimated_cost_usd) for row in usage_of(db)] == [
        ("m", 100, 50, 0.5),
        ("n", 30, 20, 0.25),
    ]


@pytest.mark.parametrize("part", ["model", "billing_provider", "billing_base_url", "billing_mode"])
def test_every_part_of_a_route_tells_rows_apart(db: SessionDB, part: str) -> None:
    route: dict[str, Any] = {"model": "m", "billing_provider": "p", "billing_base_url": "u", "billing_mode": "o"}
    for value in ("x", "y", "x"):
        db.update_token_counts("a", 1, api_call_count=1, **{**route, part: value})
    assert [(getattr(row, part), row.api_call_count) for row in usage_of(db)] == [("x", 2), ("y", 1)]


def test_what_a_report_does_not_name_is_taken_from_the_session(db: SessionDB) -> None:
    db.update_token_counts("a", 1)
    db.update_token_counts("a", 2, model="m", billing_provider="p", billing_base_url="u", billing_mode="o")
    db.update_token_counts("a", 4)
    db.update_token_counts("a", 8, model="n")
    assert [(*row_route(row), row.input_tokens) for row in usage_of(db)] == [
        ("m", "p", "u", "o", 6),
        ("n", "p", "u", "o", 8),
        ("unknown", "", "", "", 1),
    ]


def row_route(row: UsageRecord) -> tuple[str, str, str, str]:
    return row.model, row.billing_provider, row.billing_base_url, row.billing_mode


def test_rows_of_other_tasks_and_sessions_are_left_alone(db: SessionDB, raw: RawFile) -> None:
    db.create_session("b", "cli")
    for session_id, task in (("a", "vision"), ("b", "")):
        row = {"session_id": session_id, "model": "a", "task": task, "input_tokens": 3}
        raw.run([insertion("session_model_usage", row)])
    db.update_token_counts("a", 7, model="m")
    assert [(row.task, row.input_tokens) for row in usage_of(db)] == [("", 7), ("vision", 3)]
    assert [(row.task, row.input_tokens) for row in usage_of(db, "b")] == [("", 3)]


def test_usage_rows_go_with_their_session(db: SessionDB) -> None:
    db.update_token_counts("a", 7)
    db.delete_session("a")
    assert usage_of(db) == []


# -- counted once -----------------------------------------------------------------------------------------------


def test_totals_that_are_reported_again_count_once(db: SessionDB, raw: RawFile) -> None:
    db.update_token_counts("a", 100, 50, estimated_cost_usd=0.5, api_call_count=1)
    db.create_session("b", "cli", parent_session_id="a", model_config={"_branched_from": "a"})
    db.update_token_counts("b", 30, 20, estimated_cost_usd=0.25, api_call_count=1)
    for _ in range(3):
        db.update_token_counts("a", 100, 50, estimated_cost_usd=0.5, api_call_count=1, absolute=True)
    sums = "sum(input_tokens + output_tokens), sum(estimated_cost_usd), sum(api_call_count)"
    assert raw.rows(f"SELECT {sums} FROM sessions") == [(200, 0.75, 2)]
    assert raw.rows(f"SELECT {sums} FROM session_model_usage") == [(200, 0.75, 2)]


def test_a_report_whose_row_fails_leaves_nothing(db: SessionDB, raw: RawFile) -> None:
    db.update_token_counts("a", 1, model="m")
    raw.rows(
        "CREATE TRIGGER refuse BEFORE INSERT ON session_model_usage WHEN NEW.model = 'n'"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )
    before = db.get_session("a")
    for session_id in ("a", "new"):
        with pytest.raises(INTEGRITY_ERROR, match="refused"):
            db.update_token_counts(session_id, 7, model="n", api_call_count=1)
    assert (db.get_session("a"), db.get_session("new"), raw.count("session_model_usage")) == (before, None, 1)


def test_usage_is_part_of_its_unit(store: Store) -> None:
    usage = NewUsage(input_tokens=7, model="m")

    def body(unit: Unit) -> None:
        unit.record_usage("a", usage)
        assert [row.input_tokens for row in unit.usage.of_session("a")] == [7]
        raise KeyError

    with pytest.raises(KeyError):
        store.write(body)
    with store.transaction() as unit:
        unit.create_session("b", "cli")
        unit.record_usage("b", usage)
        unit.record_usage("b", usage)
        unit.record_usage("b", NewUsage(output_tokens=1), absolute=True)
    with store.reader() as reader:
        assert reader.sessions.find("a") is None
        found = reader.sessions.get("b")
        assert (found.input_tokens, found.output_tokens) == (0, 1)
        assert [row.input_tokens for row in reader.usage.of_session("b")] == [14]


def test_reports_of_many_threads_and_handles_all_count(db: SessionDB) -> None:
    def report(handle: SessionDB) -> None:
        for _ in range(5):
            handle.update_token_counts("new", 1, model="m", estimated_cost_usd=0.5, api_call_count=1)

    with SessionDB(db.db_path) as other, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(report, handle) for handle in (db, other, db, other)]:
            done.result()
    assert picked(db.get_session("new"), "input_tokens", "api_call_count", "estimated_cost_usd") == (20, 20, 10.0)
    (row,) = usage_of(db, "new")
    assert (row.input_tokens, row.api_call_count, row.estimated_cost_usd) == (20, 20, 10.0)
