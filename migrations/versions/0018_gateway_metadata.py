"""Sessions of chats know the chat that they belong to.

Purpose: what the gateway kept in `sessions/sessions.json`, in the folder of the database, moves into the columns
`session_key`, `chat_id`, `chat_type`, `thread_id`, `display_name`, `origin_json` and `expiry_finalized`. A column that
holds something keeps it.
Stamp: 18.
Cost on a large file: one update by primary key for every entry of the JSON file.
Rule: MIGRATE-2.
Runs again: yes. An entry, or a value of one, that cannot be used is passed over; the others are not.
Downgrade: not possible, since nobody could tell these values from those that were there before.
"""

import json
import logging
import math
from typing import Any

from alembic import op

from hermes_store.schema.operations import database_folder, irreversible, online_only

revision = "0018"
down_revision = "0016"
branch_labels = None
depends_on = None

_LONG_NUMBER = 40  # digits

log = logging.getLogger("hermes_store.migrations")

_UPDATE = """
    UPDATE sessions SET
        session_key = COALESCE(session_key, ?), chat_id = COALESCE(chat_id, ?), chat_type = COALESCE(chat_type, ?),
        thread_id = COALESCE(thread_id, ?), display_name = COALESCE(display_name, ?),
        origin_json = COALESCE(origin_json, ?),
        expiry_finalized = CASE WHEN COALESCE(expiry_finalized, 0) = 0 AND ? THEN 1 ELSE expiry_finalized END
    WHERE id = ?
"""


def upgrade() -> None:
    """Take over every entry of the JSON file that names a session."""
    online_only(op, revision)
    connection = op.get_bind()
    for key, entry in _entries().items():
        session_id = entry.get("session_id") if isinstance(entry, dict) else None
        if key.startswith("_") or not session_id or _value(session_id) is None:
            continue
        origin = entry.get("origin")
        has_origin = isinstance(origin, dict)
        connection.exec_driver_sql(
            _UPDATE,
            (
                _value(entry.get("session_key")) or _value(key),
                _value(origin.get("chat_id")) if has_origin else None,
                _value(entry.get("chat_type")),
                _value(origin.get("thread_id")) if has_origin else None,
                _value(entry.get("display_name")),
                json.dumps(origin) if has_origin else None,
                bool(entry.get("expiry_finalized") or entry.get("memory_flushed")),
                str(_value(session_id)),
            ),
        )


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "its values look like those that were there before")


def _entries() -> dict[str, Any]:
    """The entries of the gateway's file beside this database; none where there is no such file, or no such JSON."""
    folder = database_folder(op)
    path = folder / "sessions" / "sessions.json" if folder is not None else None
    if path is None or not path.is_file():
        return {}
    try:
        # What is no JSON by the letter (numbers that nobody can hold, NaN) is no reason to pass over the rest.
        loaded = json.loads(
            path.read_text(encoding="utf-8-sig"),
            parse_int=lambda text: int(text) if len(text) < _LONG_NUMBER else text,
            parse_float=_finite,
            parse_constant=lambda _: None,
        )
    except (OSError, ValueError, RecursionError) as exc:
        log.warning("%s was not taken over: %s", path, type(exc).__name__)
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _value(value: object) -> str | int | float | None:
    """What a column can hold of a JSON value: texts without lone surrogates, and numbers of 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return value if isinstance(value, float) else None
