"""Cleaning titles, their bases and numbers (rules TITLE-1 and TITLE-5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store.errors import InvalidValue
from hermes_store.repositories.titles import MAX_TITLE_LENGTH, base_of, number_of, sanitize_title
from tests.unit.strategies import LOW_SURROGATES


@pytest.mark.parametrize(
    ("title", "cleaned"),
    [
        (None, None),
        ("", None),
        (0, None),
        (False, None),
        ([], None),
        ("\u200b", None),
        ("   ", None),
        ("\x00\x1f\ufeff", None),
        ("plain", "plain"),
        ("  a  b  ", "a b"),
        ("a\tb", "a b"),
        ("a\nb", "a b"),
        ("a\r\nb", "a b"),
        ("a\u0085b", "a b"),
        ("a\u00a0b", "a b"),
        ("a\u202fb", "a b"),
        ("a\u205fb", "a b"),
        ("a\u3000b", "a b"),
        ("a\x00b", "ab"),
        ("a\x08b", "ab"),
        ("a\x0bb", "ab"),
        ("a\x0cb", "ab"),
        ("a\x1cb", "ab"),
        ("a\x7fb", "ab"),
        ("a\u2028b", "ab"),
        ("a\u200bb", "ab"),
        ("a\u200fb", "ab"),
        ("a\u202eb", "ab"),
        ("a\u2060b", "ab"),
        ("a\u2069b", "ab"),
        ("a\ufeffb", "ab"),
        ("a\ufffcb", "ab"),
        ("a\ufff9b", "ab"),
        ("a\ufffbb", "ab"),
        ("a\u206ab", "a\u206ab"),
        ("a\u061cb", "a\u061cb"),
        ("a\u00adb", "a\u00adb"),
        ("lone \ud800", "lone \ufffd"),
        ("部署 🎉", "部署 🎉"),
    ],
)
def test_cleaning(title: object, cleaned: str | None) -> None:
    assert sanitize_title(title) == cleaned


@pytest.mark.parametrize("character", ["x", "🎉", "部"])
def test_a_hundred_characters_fit_and_one_more_does_not(character: str) -> None:
    assert sanitize_title(character * MAX_TITLE_LENGTH) == character * 100
    with pytest.raises(ValueError, match=r"^Title too long \(101 chars, max 100\)$"):
        sanitize_title(character * 101)


@pytest.mark.parametrize("around", ["  ", "\x00", "\u200b\n", "\ufeff \t"])
def test_the_length_is_measured_after_cleaning(around: str) -> None:
    assert sanitize_title(around + "x" * 100 + around) == "x" * 100


@pytest.mark.parametrize("title", [5, b"x", ["a"], {"a": 1}, 1.5])
def test_what_is_no_text_is_refused(title: object) -> None:
    with pytest.raises(TypeError):
        sanitize_title(title)


@given(st.text(st.one_of(st.characters(), LOW_SURROGATES), max_size=130))
def test_cleaning_a_second_time_changes_nothing(title: str) -> None:
    try:
        cleaned = sanitize_title(title)
    except InvalidValue:
        assert len(title) > 100
        return
    assert cleaned is None or (cleaned == sanitize_title(cleaned) and cleaned == cleaned.strip() and cleaned)


@pytest.mark.parametrize(
    ("title", "base", "number"),
    [
        ("solo", "solo", None),
        ("solo #2", "solo", 2),
        ("x #2 #3", "x #2", 3),
        ("x #", "x #", None),
        ("x #abc", "x #abc", None),
        ("x#2", "x#2", None),
        ("x #2 ", "x #2 ", None),
        ("#2", "#2", None),
        (" #2", "", 2),
        ("x #007", "x", 7),
        ("", "", None),
    ],
)
def test_base_and_number(title: str, base: str, number: int | None) -> None:
    assert base_of(title) == base
    assert number_of(title) == number
