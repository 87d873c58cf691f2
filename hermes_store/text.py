"""Text that SQLite can hold (rule CODEC-1)."""

import unicodedata
from typing import TypeVar

_T = TypeVar("_T")

_SURROGATES = dict.fromkeys(range(55296, 57344), 65533)


def scrub(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD: SQLite stores UTF-8, which has none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


def scrub_if_text(value: _T) -> _T:
    """A text without lone surrogates; anything else as it is."""
    return scrub(value) if isinstance(value, str) else value  # type: ignore[return-value]  # a str is a str


def fold(text: str) -> str:
    """The text as it is compared where upper and lower case, composed and decomposed forms are the same."""
    return unicodedata.normalize("NFC", text).casefold()


def is_folded_by_ascii(text: str) -> bool:
    """True if lowering ASCII letters is all that `fold` does to this text and to whatever equals it."""
    rest = "".join(character for character in text if not character.isascii())
    return rest == rest.lower() == rest.upper() == unicodedata.normalize("NFD", rest)
