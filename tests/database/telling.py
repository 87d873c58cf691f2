"""What is told of an error: its cause, and the answers to the questions that can be asked of it."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import DBAPIError

from hermes_store import errors
from hermes_store.compat import classify_persistence_error
from hermes_store.database.causes import (
    Problem,
    is_disk_full_error,
    is_index_unavailable_error,
    is_malformed_db_error,
    is_malformed_schema_error,
    is_sqlite_lock_error,
    is_transient_error,
)
from hermes_store.database.translation import translate

QUESTIONS: dict[str, Callable[[Problem], bool]] = {
    "lock": is_sqlite_lock_error,
    "malformed": is_malformed_db_error,
    "schema": is_malformed_schema_error,
    "full": is_disk_full_error,
    "transient": is_transient_error,
    "no index": is_index_unavailable_error,
}

Told = tuple[str, str]
"""The cause, and the questions that are answered with yes."""

LOCKED: Told = ("locked", "lock transient")
CORRUPT: Told = ("corrupt", "malformed")
BAD_SCHEMA: Told = ("corrupt", "malformed schema")
FULL: Told = ("disk", "full")
FAILING: Told = ("disk", "transient")
DISK: Told = ("disk", "")
INDEX: Told = ("fts_index", "")
NO_ROW: Told = ("session_row_missing", "")
NO_INDEX: Told = ("unknown", "no index")
UNKNOWN: Told = ("unknown", "")


def told(problem: Problem) -> Told:
    return (
        classify_persistence_error(problem),
        " ".join(name for name, ask in QUESTIONS.items() if ask(problem)),
    )


def raised_from(error: BaseException) -> BaseException:
    outer = RuntimeError("the turn could not be saved")
    outer.__cause__ = error
    return outer


def assert_told(error: Any, expected: Told, *, by_text: Told | None = None) -> None:
    """The driver's error is told, in every form in which it can reach a caller; as a text, perhaps less well."""
    ours = translate(error)
    lost = errors.UnitLost()
    lost.reason = ours
    forms = {
        "the driver's": error,
        "ours": ours,
        "SQLAlchemy's": DBAPIError("SELECT 1", (), error),
        "raised from it": raised_from(error),
        "a lost unit": lost,
        "raised from a lost unit": raised_from(lost),
    }
    assert {name: told(form) for name, form in forms.items()} == dict.fromkeys(forms, expected), repr(error)
    assert told(str(error)) == (expected if by_text is None else by_text), str(error)
