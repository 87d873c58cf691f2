"""What the content column holds, and what comes back (rules CODEC-1 and CODEC-2)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from hermes_store.conversation.content import decode_content, encode_content, plain_text, text_or_none
from hermes_store.text import scrub
from tests.unit.strategies import any_text, anything, json_containers

PREFIX = "\x00json:"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("caf\u00e9 部署 🎉", "caf\u00e9 部署 🎉"),
        ("\ud800", "\ufffd"),
        ("a\udfffb\ud83dc", "a\ufffdb\ufffdc"),
        ("\ud83d\ude00", "\ufffd\ufffd"),
        ("nul\0inside", "nul\0inside"),
    ],
)
def test_scrub_replaces_each_surrogate_and_nothing_else(text: str, expected: str) -> None:
    assert scrub(text) == expected


@given(any_text)
def test_scrubbed_text_is_utf8_of_the_same_length_and_stays(text: str) -> None:
    cleaned = scrub(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
    assert scrub(cleaned) == cleaned
    assert all(new == old or "\ud800" <= old <= "\udfff" for new, old in zip(cleaned, text, strict=True))


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        (None, None),
        ("", ""),
        ("hello", "hello"),
        ("lone \udc00", "lone \ufffd"),
        (b"\x00\xff", b"\x00\xff"),
        (5, 5),
        (2.5, 2.5),
        (True, True),
        ([1, "a"], PREFIX + '[1, "a"]'),
        ({"a": 1, "b": None}, PREFIX + '{"a": 1, "b": null}'),
        ((1, 2), PREFIX + "[1, 2]"),
        ([], PREFIX + "[]"),
        ({}, PREFIX + "{}"),
        ({"k": "部\udc00"}, PREFIX + '{"k": "\\u90e8\\udc00"}'),
        ({1}, "{1}"),
        ([{2}], "[{2}]"),
        (["\udc00", {3}], "['\\udc00', {3}]"),
        (PREFIX + "[1]", PREFIX + "[1]"),
    ],
)
def test_encoding(content: Any, stored: Any) -> None:
    encoded = encode_content(content)
    assert encoded == stored
    assert type(encoded) is type(stored)


@pytest.mark.parametrize(
    ("stored", "content"),
    [
        (None, None),
        ("", ""),
        ("text", "text"),
        (b"\xff", b"\xff"),
        (PREFIX + '{"a": [1]}', {"a": [1]}),
        (PREFIX + "null", None),
        (PREFIX + "{broken", PREFIX + "{broken"),
        (PREFIX, PREFIX),
        (PREFIX[:-1], PREFIX[:-1]),
        ("json:[1]", "json:[1]"),
        (" " + PREFIX + "[1]", " " + PREFIX + "[1]"),
    ],
)
def test_decoding(stored: Any, content: Any) -> None:
    assert decode_content(stored) == content


def test_damaged_structured_content_is_noticed_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    decode_content(PREFIX + "{broken")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@given(json_containers)
def test_lists_and_objects_come_back_equal(content: Any) -> None:
    assert decode_content(encode_content(content)) == content


@given(json_containers)
def test_structured_content_is_ascii(content: Any) -> None:
    encoded = encode_content(content)
    assert isinstance(encoded, str)
    assert encoded.isascii()


@given(any_text.filter(lambda text: not text.startswith(PREFIX)))
def test_text_comes_back_scrubbed(text: str) -> None:
    assert decode_content(encode_content(text)) == scrub(text)


@settings(max_examples=200)
@given(anything)
def test_encoding_never_raises_and_gives_what_a_column_takes(content: Any) -> None:
    encoded = encode_content(content)
    assert encoded is None or isinstance(encoded, (str, bytes, int, float))
    if isinstance(encoded, str):
        encoded.encode()


def test_content_that_contains_itself_becomes_text() -> None:
    content: list[Any] = [1]
    content.append(content)
    assert encode_content(content) == "[1, [...]]"


def test_content_too_deep_for_json_is_not_an_error() -> None:
    content: list[Any] = []
    for _ in range(50_000):
        content = [content]
    assert isinstance(encode_content(content), str)


def test_stored_content_too_deep_for_json_comes_back_raw() -> None:
    stored = PREFIX + "[" * 200_000 + "]" * 200_000
    assert decode_content(stored) == stored


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ("", ""),
        ("x\ud800", "x\ufffd"),
        (5, "5"),
        (False, "False"),
        ({"a": 1}, "{'a': 1}"),
        (["\udc00"], "['\\udc00']"),
    ],
)
def test_a_text_column_takes_anything_as_text(value: object, stored: str | None) -> None:
    assert text_or_none(value) == stored


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it is ", "as it is "),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a b"),
        ([{"type": "image_url", "image_url": "x"}], "[multimodal content]"),
        ([], "[multimodal content]"),
        ([{"type": "text", "text": None}, "loose", 5], "[multimodal content]"),
        (None, ""),
        ({"text": "no list"}, ""),
    ],
)
def test_plain_text_for_people(content: object, text: str) -> None:
    assert plain_text(content) == text


@given(json_containers)
def test_plain_text_of_anything_is_text(content: Any) -> None:
    assert isinstance(plain_text(content), str)
    json.dumps(plain_text(content))
