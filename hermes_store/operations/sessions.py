"""Creating a session, with what it takes over from its parent (rules SESSION-1 and SESSION-2)."""

import json
from collections.abc import Mapping
from typing import Any

from hermes_store.errors import InvalidValue
from hermes_store.repositories import Repositories
from hermes_store.repositories.sessions import BACKFILLED
from hermes_store.text import scrub_if_text


def session_values(session_id: str, source: str | None, fields: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The row of a new session; `model_config` is encoded unless it is empty.

    Raises InvalidValue for an id that is None or holds a NUL, TypeError for what JSON cannot hold.
    """
    if not isinstance(session_id, (str, int)) or "\0" in str(session_id):
        raise InvalidValue(f"{session_id!r} cannot be the id of a session")
    values: dict[str, Any] = {name: scrub_if_text(fields.get(name)) for name in ("user_id", *BACKFILLED)}
    config = fields.get("model_config")
    values["model_config"] = json.dumps(config) if config else None
    values["id"] = scrub_if_text(session_id)
    values["source"] = scrub_if_text(source)
    values["started_at"] = now
    return values


def create_session(repos: Repositories, values: Mapping[str, Any]) -> None:
    """Add a session, or fill what an existing one lacks; then inherit from the parent that was named.

    Raises ForeignKeyFailed for an unknown parent, ConstraintFailed for a source that is None.
    """
    repos.sessions.create(values)
    if values["parent_session_id"]:
        repos.sessions.inherit_from_parent(values["id"])
