"""Tool calls, reasoning columns and display metadata (rules CODEC-3 to CODEC-5)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store.conversation.content import (
    count_tool_calls,
    decode_display_metadata,
    decode_json,
    decode_tool_calls,
    encode_display_metadata,
    encode_json,
    parse_tool_calls,
)
from tests.unit.strategies import any_text, json_values

CALL = {"id": "c1", "function": {"name": "search"}}


@pytest.mark.parametrize(
    ("given_calls", "count"),
    [
        (None, 0),
        ([], 0),
        ([CALL], 1),
        ([CALL, CALL, CALL], 3),
        (json.dumps([CALL, CALL]), 2),
        ("[]", 0),
        ({}, 1),
        (CALL, 1),
        (json.dumps(CALL), 1),
        ("not json", 0),
        ("", 0),
        ("null", 0),
        ("5", 1),
        (7, 1),
    ],
)
def test_how_many_tool_calls_a_message_makes(given_calls: object, count: int) -> None:
    assert count_tool_calls(parse_tool_calls(given_calls)) == count


@given(st.one_of(json_values, any_text))
def test_tool_calls_of_anything_can_be_parsed_and_counted(calls: Any) -> None:
    assert count_tool_calls(parse_tool_calls(calls)) >= 0


@pytest.mark.parametrize(
    ("stored", "decoded"),
    [
        (None, None),
        ("", ""),
        ('[{"id": "c"}]', [{"id": "c"}]),
        ("null", None),
        ("{broken", []),
        ("5", 5),
        ("[" * 200_000, []),
    ],
)
def test_tool_calls_of_a_row(stored: str | None, decoded: object) -> None:
    assert decode_tool_calls(stored) == decoded


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ("", None),
        ([{"t": "ü\udc00"}], '[{"t": "\\u00fc\\udc00"}]'),
        ({"a": 1}, '{"a": 1}'),
        ('[{"already": "text"}]', '[{"already": "text"}]'),
        ("lone \ud800", "lone \ufffd"),
    ],
)
def test_other_json_columns_store_text_verbatim_and_dump_the_rest(value: object, stored: str | None) -> None:
    assert encode_json(value) == stored


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_json([{1}])


@pytest.mark.parametrize(
    ("stored", "decoded"), [(None, None), ("", None), ("[1]", [1]), ("{broken", None), ('"text"', "text")]
)
def test_other_json_columns_of_a_row(stored: str | None, decoded: object) -> None:
    assert decode_json(stored) == decoded


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ({}, None),
        ("", None),
        ({"a": "é"}, '{"a": "\\u00e9"}'),
        ('{"a":1}', '{"a": 1}'),
        ("not json", None),
        ("[1]", None),
        ('"{\\"a\\": 1}"', None),
        ([1], None),
        (5, None),
        ("5", None),
    ],
)
def test_display_metadata_is_an_object_or_nothing(value: object, stored: str | None) -> None:
    assert encode_display_metadata(value) == stored


def test_a_metadata_object_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_display_metadata({"a": {1}})


@pytest.mark.parametrize(
    ("stored", "decoded"),
    [
        (None, None),
        ('{"a": 1}', {"a": 1}),
        (json.dumps(json.dumps({"a": 1})), {"a": 1}),
        (json.dumps(json.dumps(json.dumps({"a": 1}))), None),
        ("{broken", None),
        ("[1]", None),
        ("", None),
        ('"text"', None),
        ("[" * 200_000, None),
    ],
)
def test_display_metadata_of_a_row(stored: str | None, decoded: object) -> None:
    assert decode_display_metadata(stored) == decoded


@given(st.dictionaries(any_text, json_values, min_size=1, max_size=4))
def test_a_metadata_object_comes_back_equal_also_after_a_second_round(metadata: dict[str, Any]) -> None:
    stored = encode_display_metadata(metadata)
    assert decode_display_metadata(stored) == metadata
    assert encode_display_metadata(stored) == stored


@given(any_text)
def test_reading_any_text_as_json_never_raises(stored: str) -> None:
    decoded = decode_display_metadata(stored)
    assert decoded is None or isinstance(decoded, dict)
    decode_tool_calls(stored)
    decode_json(stored)
