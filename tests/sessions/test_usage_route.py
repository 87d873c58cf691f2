"""Which model and route a session is billed under (rules USAGE-3 and USAGE-4)."""

from typing import Any

import pytest

from hermes_store import SessionDB
from tests.sessions.raw import RawFile, on_one_engine, present

ROUTE = ("model", "billing_provider", "billing_base_url", "billing_mode")
PRIMARY: dict[str, Any] = dict(zip(ROUTE, ("primary", "p", "u", "o"), strict=True))
FALLBACK: dict[str, Any] = {"model": "fallback", "billing_provider": "f"}

both_kinds = pytest.mark.parametrize("absolute", [False, True])


def route_of(db: SessionDB, session_id: str = "a") -> tuple[str | None, ...]:
    row = present(db.get_session(session_id))
    return tuple(row[name] for name in ROUTE)


def with_route(raw: RawFile, **columns: Any) -> None:
    raw.session("a", **columns)


@both_kinds
@pytest.mark.parametrize("amount", [{"input_tokens": 1}, {"estimated_cost_usd": 0.5}, {"actual_cost_usd": 0.5}])
def test_a_report_fills_what_is_null(db: SessionDB, raw: RawFile, absolute: bool, amount: dict[str, Any]) -> None:
    with_route(raw, billing_provider="p")
    db.update_token_counts("a", **amount, billing_base_url="u", absolute=absolute)
    assert route_of(db) == (None, "p", "u", None)
    db.update_token_counts("a", **amount, model="m", billing_base_url="v", billing_mode="o", absolute=absolute)
    assert route_of(db) == ("m", "p", "u", "o")


@both_kinds
@pytest.mark.parametrize("zeros", [{}, {"input_tokens": 0, "estimated_cost_usd": 0.0, "actual_cost_usd": 0.0}])
def test_a_report_of_zeros_fills_the_model_alone(
    db: SessionDB, raw: RawFile, absolute: bool, zeros: dict[str, Any]
) -> None:
    with_route(raw)
    db.update_token_counts("a", **zeros, **PRIMARY, absolute=absolute)
    assert route_of(db) == ("primary", None, None, None)
    db.update_token_counts("a", **zeros, **FALLBACK, absolute=absolute)
    assert route_of(db) == ("primary", None, None, None)


@both_kinds
@pytest.mark.parametrize("count", [0, None])
@pytest.mark.parametrize("differing", ["model", "billing_provider"])
def test_the_first_accounted_route_replaces_the_stored_one_as_a_whole(
    db: SessionDB, raw: RawFile, absolute: bool, count: int | None, differing: str
) -> None:
    with_route(raw, **PRIMARY, api_call_count=count)
    given: dict[str, Any] = {
        "model": PRIMARY["model"],
        "billing_provider": PRIMARY["billing_provider"],
        differing: "other",
    }
    db.update_token_counts("a", api_call_count=1, **given, absolute=absolute)
    assert route_of(db) == (given["model"], given["billing_provider"], None, None)


def test_the_route_stays_once_a_call_was_counted(db: SessionDB, raw: RawFile) -> None:
    with_route(raw, **PRIMARY)
    for _ in range(2):
        # Tokens without a call: still nothing is settled.
        db.update_token_counts("a", 1, **FALLBACK)
        assert route_of(db) == ("fallback", "f", None, None)
        db.update_token_counts("a", 1, **PRIMARY)
        assert route_of(db) == tuple(PRIMARY.values())
    db.update_token_counts("a", 1, api_call_count=1, **FALLBACK)
    db.update_token_counts("a", 1, api_call_count=1, **{**PRIMARY, "billing_base_url": None})
    assert route_of(db) == ("fallback", "f", None, "o")


@both_kinds
@pytest.mark.parametrize(
    "given",
    [
        {"model": "primary", "billing_provider": "p", "billing_base_url": "elsewhere"},
        {"model": "fallback"},
        {"model": "fallback", "billing_provider": ""},
        {"model": "", "billing_provider": "f"},
        {"billing_provider": "f"},
    ],
)
def test_what_does_not_name_another_model_and_provider_replaces_nothing(
    db: SessionDB, raw: RawFile, absolute: bool, given: dict[str, Any]
) -> None:
    with_route(raw, **PRIMARY)
    db.update_token_counts("a", 1, api_call_count=1, **given, absolute=absolute)
    assert route_of(db) == tuple(PRIMARY.values())


def test_an_absolute_report_without_calls_opens_the_route_again(db: SessionDB, raw: RawFile) -> None:
    with_route(raw, **PRIMARY, api_call_count=3)
    db.update_token_counts("a", 1, absolute=True, **FALLBACK)
    assert route_of(db) == tuple(PRIMARY.values())
    db.update_token_counts("a", 1, api_call_count=4, absolute=True, **FALLBACK)
    assert route_of(db) == ("fallback", "f", None, None)


@on_one_engine
@both_kinds
@pytest.mark.parametrize("tokens", [0, 7])
def test_an_empty_name_is_none(db: SessionDB, absolute: bool, tokens: int) -> None:
    empty: dict[str, Any] = dict.fromkeys(ROUTE, "")
    db.update_token_counts("a", tokens, **empty, absolute=absolute)
    assert route_of(db) == (None, None, None, None)
    db.update_token_counts("a", 1, api_call_count=1, **PRIMARY)
    assert route_of(db) == tuple(PRIMARY.values())


def test_the_row_of_a_replaced_route_does_not_borrow_from_the_old_one(db: SessionDB, raw: RawFile) -> None:
    with_route(raw, **PRIMARY)
    db.update_token_counts("a", 7, api_call_count=1, **FALLBACK)
    with db.store.reader() as reader:
        (row,) = reader.usage.of_session("a")
    assert (row.model, row.billing_provider, row.billing_base_url, row.billing_mode) == ("fallback", "f", "", "")
