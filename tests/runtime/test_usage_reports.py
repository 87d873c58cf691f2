"""Adding reports up changes nothing of what they say (rule RUNTIME-2)."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_store import Store, UsageRecord
from hermes_store.errors import InvalidValue
from hermes_store.runtime.usage_reports import UsageReport, coalesce
from tests.runtime.helpers import report

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
SUMS = (*COUNTS, "api_call_count", "estimated_cost_usd", "actual_cost_usd")
LABELS = (
    "model", "billing_provider", "billing_base_url", "billing_mode", "cost_status", "cost_source", "pricing_version",
)  # fmt: skip


def shown(reports: Iterable[UsageReport]) -> list[tuple[str | None, int | None, bool]]:
    return [(each.usage.model, each.usage.input_tokens, each.absolute) for each in reports]


def test_neighbours_of_one_session_and_route_become_one() -> None:
    given_ = [
        report(input_tokens=1, model="a"),
        report(input_tokens=2, model="a"),
        report(input_tokens=4, model="b"),
        report(input_tokens=8, model="a", absolute=True),
        report(input_tokens=16, model="a"),
    ]
    merged = coalesce(given_)
    assert shown(merged) == [("a", 3, False), ("b", 4, False), ("a", 8, True), ("a", 16, False)]
    assert [each.reports for each in merged] == [2, 1, 1, 1]


def test_every_number_is_added() -> None:
    two: dict[str, Any] = dict.fromkeys(SUMS, 2)
    three: dict[str, Any] = dict.fromkeys(SUMS, 3)
    (merged,) = coalesce([report(**two), report(**three)])
    assert [getattr(merged.usage, name) for name in SUMS] == [5] * len(SUMS)


@pytest.mark.parametrize(("costs", "total"), [((None, None), None), ((None, 0.5), 0.5), ((0.25, 0.5), 0.75)])
@pytest.mark.parametrize("name", ["estimated_cost_usd", "actual_cost_usd"])
def test_a_cost_that_is_not_given_stays_open(name: str, costs: tuple[float | None, ...], total: float | None) -> None:
    given_: list[dict[str, Any]] = [{name: cost} for cost in costs]
    (merged,) = coalesce(report(input_tokens=1, **each) for each in given_)
    assert getattr(merged.usage, name) == total


@pytest.mark.parametrize("name", LABELS)
def test_reports_that_say_something_else_stay_apart(name: str) -> None:
    labelled: dict[str, Any] = {name: "x"}
    assert len(coalesce([report(input_tokens=1, **labelled), report(input_tokens=1)])) == 2
    assert len(coalesce([report(input_tokens=1, **labelled)] * 2)) == 1


def test_other_sessions_and_absolute_totals_stay_apart() -> None:
    assert len(coalesce([report("a", input_tokens=1), report("b", input_tokens=1)])) == 2
    assert len(coalesce([report(input_tokens=1, absolute=True)] * 2)) == 2


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param([{"input_tokens": 2**62}] * 2, id="a sum beyond 64 bits"),
        pytest.param([{"input_tokens": 1, "actual_cost_usd": 1e308}] * 2, id="a sum beyond every number"),
        pytest.param([{"input_tokens": 5}, {"input_tokens": -5}], id="a sum of nothing"),
        pytest.param([{"input_tokens": 5}, {"actual_cost_usd": 1.0}], id="one that makes no usage row"),
        pytest.param([{"input_tokens": 5}, {}], id="one that counts nothing"),
        pytest.param([{"input_tokens": 1, "api_call_count": -1}] * 2, id="calls that are taken back"),
    ],
)
def test_reports_whose_sum_would_be_stored_otherwise_stay_apart(pair: list[dict[str, Any]]) -> None:
    assert len(coalesce(report(**each) for each in pair)) == 2


def test_calls_that_are_taken_back_change_no_route() -> None:
    batch = [
        report(input_tokens=1, api_call_count=1, model="m", billing_provider="p"),
        report(input_tokens=1, api_call_count=-2, model="n", billing_provider="q"),
        report(input_tokens=1, api_call_count=1, model="n", billing_provider="q"),
        report(input_tokens=1, api_call_count=1, model="n", billing_provider="q"),
    ]
    assert stored(coalesce(batch)) == stored(batch)


@pytest.mark.parametrize("name", ["input_tokens", "estimated_cost_usd"])
def test_what_is_no_number_is_told_by_its_name_and_type_alone(name: str) -> None:
    given_: dict[str, Any] = {name: "secret words"}
    with pytest.raises(InvalidValue, match=f"{name} is a str ") as caught:
        report(**given_)
    assert "secret" not in str(caught.value)


# -- any reports ------------------------------------------------------------------------------------------------

costs = st.none() | st.integers(-8, 64).map(lambda quarters: quarters / 4)  # whose sums are exact
names = st.sampled_from([None, "m", "n"])
usages = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys((*COUNTS, "api_call_count"), st.integers(-3, 50)),
        **dict.fromkeys(("estimated_cost_usd", "actual_cost_usd"), costs),
        **dict.fromkeys(("model", "billing_provider", "cost_status"), names),
    },
)
batches = st.lists(
    st.builds(
        lambda session_id, usage, absolute: report(session_id, absolute=absolute, **usage),
        st.sampled_from(["a", "b"]),
        usages,
        st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)


def summed(reports: Iterable[UsageReport]) -> Counter[tuple[Any, ...]]:
    """The sums of everything, per session, route and kind of report."""
    found: Counter[tuple[Any, ...]] = Counter()
    for each in reports:
        route = (each.session_id, each.absolute, *(getattr(each.usage, name) for name in LABELS))
        found[(*route, "reports")] += each.reports
        for name in SUMS:
            found[(*route, name)] += getattr(each.usage, name) or 0
    return found


@given(batches)
def test_totals_per_session_and_route_stay_and_nothing_grows(batch: list[UsageReport]) -> None:
    merged = coalesce(batch)
    assert summed(merged) == summed(batch)
    assert len(merged) <= len(batch)
    assert coalesce(merged) == merged


def stored(reports: Iterable[UsageReport]) -> tuple[list[Any], list[UsageRecord]]:
    """What a store holds after these reports."""
    with Store.open(":memory:") as store:
        with store.transaction() as unit:
            for each in reports:
                unit.record_usage(each.session_id, each.usage, absolute=each.absolute)
        with store.reader() as reader:
            rows = [reader.sessions.find(name) for name in ("a", "b")]
            usage = [row for name in ("a", "b") for row in reader.usage.of_session(name)]
    columns = [None if row is None else [getattr(row, name) for name in (*SUMS, *LABELS)] for row in rows]
    return columns, [_without_times(row) for row in usage]


def _without_times(row: UsageRecord) -> Any:
    return [getattr(row, name) for name in UsageRecord.__slots__ if name not in ("first_seen", "last_seen")]


@given(batches)
@settings(max_examples=40, deadline=None)
def test_the_store_holds_the_same_after_fewer_reports(batch: list[UsageReport]) -> None:
    assert stored(coalesce(batch)) == stored(batch)
