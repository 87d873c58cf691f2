"""A piece of a text around what was searched (rule SEARCH-8). Pure functions."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from hermes_store.conversation.content import decode_content, decode_tool_calls, plain_text

EXCERPT_CHARACTERS = 120
BEFORE = 40
_MARKED_CHARACTERS = 240
_ELLIPSIS = "..."


def excerpt(text: str, needles: Sequence[str]) -> str:
    """At most 120 characters of `text`, from 40 before the first needle that is in it; else its beginning."""
    found = _first(text, needles)
    begin = max(found.start() - BEFORE, 0) if found is not None else 0
    return text[begin : begin + EXCERPT_CHARACTERS]


def marked_excerpt(text: str, needles: Sequence[str], begin_mark: str, end_mark: str) -> str:
    """A longer piece with every needle between the marks, and dots where text was left out."""
    found = _first(text, needles)
    begin = max(found.start() - _MARKED_CHARACTERS // 2, 0) if found is not None else 0
    piece = text[begin : begin + _MARKED_CHARACTERS]
    pattern = _pattern(needles)
    if pattern is not None:
        piece = pattern.sub(lambda match: f"{begin_mark}{match.group()}{end_mark}", piece)
    before = _ELLIPSIS if begin else ""
    after = _ELLIPSIS if begin + _MARKED_CHARACTERS < len(text) else ""
    return f"{before}{piece}{after}"


def readable_texts(content: Any, tool_name: str | None, tool_calls: str | None) -> Iterable[str]:
    """The texts of a row that a person would search, without the escapes that they are stored in."""
    decoded = decode_content(content)
    yield plain_text(decoded) if isinstance(decoded, (str, list)) else ""
    if decoded is not None and not isinstance(decoded, str):
        yield json.dumps(decoded, ensure_ascii=False, default=str)
    yield tool_name or ""
    if tool_calls:
        yield json.dumps(decode_tool_calls(tool_calls), ensure_ascii=False)


def best_text(texts: Iterable[str], needles: Sequence[str]) -> str:
    """The first text that holds a needle; else the first of all."""
    listed = list(texts)
    pattern = _pattern(needles)
    matching = (text for text in listed if pattern is not None and pattern.search(text))
    return next(matching, listed[0] if listed else "")


def _first(text: str, needles: Sequence[str]) -> "re.Match[str] | None":
    pattern = _pattern(needles)
    return None if pattern is None else pattern.search(text)


def _pattern(needles: Sequence[str]) -> "re.Pattern[str] | None":
    longest_first = sorted({needle for needle in needles if needle}, key=len, reverse=True)
    if not longest_first:
        return None
    return re.compile("|".join(re.escape(needle) for needle in longest_first), flags=re.IGNORECASE)
