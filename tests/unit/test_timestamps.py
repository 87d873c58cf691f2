"""When a message was said, from whatever a caller calls a time (rule CODEC-6)."""

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store.conversation.content import coerce_timestamp
from tests.unit.strategies import anything

NOW = 1_772_000_000.0


class Unreadable:
    def timestamp(self) -> float:
        raise ValueError("no time")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, NOW),
        (12.5, 12.5),
        (12, 12.0),
        ("12.5", 12.5),
        (" 7 ", 7.0),
        (True, 1.0),
        (0, 0.0),
        (-3.5, -3.5),
        (math.inf, NOW),
        (dt.datetime(2026, 3, 1, tzinfo=dt.UTC), 1_772_323_200.0),
        ("yesterday", NOW),
        ("", NOW),
        ([], NOW),
        ({"at": 1}, NOW),
        (math.nan, NOW),
        ("nan", NOW),
        (10**400, NOW),
        (Unreadable(), NOW),
        (b"12.5", 12.5),
    ],
)
def test_coercion(value: object, seconds: float) -> None:
    assert coerce_timestamp(value, NOW) == seconds


@given(st.one_of(anything, st.datetimes(), st.dates(), st.floats()))
def test_anything_gives_a_number_that_is_one(value: Any) -> None:
    result = coerce_timestamp(value, NOW)
    assert isinstance(result, float)
    assert math.isfinite(result)
