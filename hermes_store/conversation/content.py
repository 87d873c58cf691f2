"""The codec between what an agent says and what a row holds (rules CODEC-*). Pure functions; none of them raises."""

import json
import logging
import math
import reprlib
from typing import Any

from hermes_store.text import scrub

log = logging.getLogger(__name__)

STRUCTURED_PREFIX = "\0json:"
"""Marks a content column that holds JSON of a list or an object."""


def text_or_none(value: object) -> str | None:
    """A text column's value: None stays, text is scrubbed, anything else becomes its text. Rule CODEC-1."""
    if value is None:
        return None
    return scrub(value if isinstance(value, str) else str(value))


def encode_content(content: object) -> str | bytes | int | float | None:
    """What the content column stores. Rule CODEC-2.

    Text (scrubbed), None, bytes and numbers go as they are; lists, objects and tuples become the prefix and ASCII JSON;
    whatever JSON cannot hold becomes its text.
    """
    if isinstance(content, int) and not -(2**63) <= content < 2**63:
        return str(content)
    if content is None or isinstance(content, (bytes, int, float)):
        return content
    if isinstance(content, str):
        return scrub(content)
    try:
        return STRUCTURED_PREFIX + json.dumps(content)
    except RecursionError:
        # Its text would be nested as deeply.
        return scrub(reprlib.repr(content))
    except (TypeError, ValueError):
        return scrub(str(content))


def decode_content(stored: Any) -> Any:
    """The content of a row; damaged structured content comes back as the raw text. Rule CODEC-2."""
    if isinstance(stored, str) and stored.startswith(STRUCTURED_PREFIX):
        try:
            return json.loads(stored[len(STRUCTURED_PREFIX) :])
        except (ValueError, RecursionError):
            log.warning("structured content cannot be decoded; the raw text is given")
    return stored


def parse_tool_calls(tool_calls: object) -> Any:
    """Tool calls as an object: JSON text is parsed, text that is no JSON counts as an empty list. Rule CODEC-3."""
    if not isinstance(tool_calls, str):
        return tool_calls
    try:
        return json.loads(tool_calls)
    except (ValueError, RecursionError):
        return []


def count_tool_calls(parsed: object) -> int:
    """How many calls `parse_tool_calls` found: the length of a list, 1 for anything else that is there."""
    if parsed is None:
        return 0
    return len(parsed) if isinstance(parsed, list) else 1


def encode_json(value: object) -> str | None:
    """A JSON column's value: None where there is nothing to say; text is stored as it is. Rule CODEC-4.

    Raises TypeError for what JSON cannot hold.
    """
    if not value:
        return None
    return scrub(value) if isinstance(value, str) else json.dumps(value)


def decode_tool_calls(stored: str | None) -> Any:
    """The tool calls of a row: None where there are none, an empty list where the text is damaged."""
    if not stored:
        return stored
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        log.warning("tool calls cannot be decoded; an empty list is given")
        return []


def decode_json(stored: str | None) -> Any:
    """Any other JSON column; None where the text is damaged."""
    if not stored:
        return None
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        log.warning("a JSON column cannot be decoded; it is left out")
        return None


def encode_display_metadata(value: object) -> str | None:
    """An object, or the JSON text of one; anything else is dropped with a warning. Rule CODEC-5.

    Raises TypeError for an object that JSON cannot hold.
    """
    if not value:
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, dict):
        return json.dumps(value)
    log.warning("display metadata is no object; it is left out")
    return None


def decode_display_metadata(stored: str | None) -> dict[str, Any] | None:
    """The object of a row, also where old writers encoded it twice; None where there is none. Rule CODEC-5."""
    if stored is None:
        return None
    decoded: object = stored
    for _ in range(2):
        if isinstance(decoded, str):
            try:
                decoded = json.loads(decoded)
            except (ValueError, RecursionError):
                break
    if isinstance(decoded, dict):
        return decoded
    log.warning("display metadata cannot be decoded; it is left out")
    return None


def coerce_timestamp(value: object, default: float) -> float:
    """Unix seconds from a number, its text, or a datetime; anything else gives the default. Rule CODEC-6."""
    if value is None:
        return default
    try:
        moment = value.timestamp() if hasattr(value, "timestamp") else value
        seconds = float(moment)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        log.debug("a timestamp cannot be used; the default is taken")
        return default
    return seconds if math.isfinite(seconds) else default


def plain_text(content: object) -> str:
    """What a person reads of a content: text itself, the text parts of a list, or a note that it has none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        joined = " ".join(part for part in parts if isinstance(part, str) and part).strip()
        return joined or "[multimodal content]"
    return ""
