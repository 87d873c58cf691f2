"""Titles: what a user calls a session; unique among all sessions that have one."""

import re
import unicodedata

from sqlalchemy import bindparam, select, update

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.errors import InvalidValue
from hermes_store.models.tables import SESSIONS
from hermes_store.text import fold, scrub

MAX_TITLE_LENGTH = 100
"""Characters of a title, counted after cleaning."""

# Control characters other than white space, and characters that are invisible or change the direction of text.
_REMOVED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffc\ufff9-\ufffb]"
)
_NUMBER = re.compile(r" #(\d+)$")

_table = SESSIONS
_c = _table.c

_TITLE = Statement(select(_c.title).where(_c.id == bindparam("session_id")))
_OWNER = Statement(select(_c.id).where(_c.title == bindparam("title")))
_SET = Statement(update(_table).where(_c.id == bindparam("known_id")).values(title=bindparam("new_title")))
_NUMBERED = Statement(
    select(_c.id, _c.title, _c.started_at).where(_c.title.like("% #%")).order_by(_c.started_at.desc(), _c.id.desc())
)

_TITLED = Statement(select(_c.id, _c.title).where(_c.title.is_not(None)).order_by(_c.started_at.desc(), _c.id.desc()))


def sanitize_title(title: object) -> str | None:
    """A title as it is stored: cleaned of control and invisible characters, white space folded. Rule TITLE-1.

    None for an empty one. Raises TypeError for what is no text, InvalidValue (a ValueError) above 100 characters.
    """
    if not title:
        return None
    if not isinstance(title, str):
        raise TypeError(f"a title is a text, not {type(title).__name__}")
    cleaned = " ".join(_REMOVED.sub("", scrub(title)).split())
    if len(cleaned) > MAX_TITLE_LENGTH:
        raise InvalidValue(f"Title too long ({len(cleaned)} chars, max {MAX_TITLE_LENGTH})")
    return cleaned or None


def base_of(title: str) -> str:
    """The title without one trailing ` #<digits>`."""
    return _NUMBER.sub("", title)


def number_of(title: str) -> int | None:
    """The number of a trailing ` #<digits>`, or None."""
    found = _NUMBER.search(title)
    return int(found.group(1)) if found else None


class TitleRepository:
    """Who is called what."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, session_id: str) -> str | None:
        """The title of a session; None if it has none or is unknown."""
        title: str | None = self._connection.scalar(_TITLE, {"session_id": session_id})
        return title

    def owner(self, title: str) -> str | None:
        """The session that is called exactly so, or None."""
        owner: str | None = self._connection.scalar(_OWNER, {"title": title})
        return owner

    def set(self, session_id: str, title: str | None) -> bool:
        """Overwrite the title; False if the session is unknown. Raises UniqueFailed when another one holds it."""
        return self._connection.run(_SET, {"known_id": session_id, "new_title": title}).rowcount > 0

    def variants(self, base: str) -> list[tuple[str, str, float]]:
        """Id, title and start of every session called `<base> #...`, whatever the case; latest start first."""
        beginning = fold(f"{base} #")
        return [
            (owner, title, started_at)
            for owner, title, started_at in self._connection.rows(_NUMBERED)
            if fold(title).startswith(beginning)
        ]

    def spelled_otherwise(self, title: str) -> str | None:
        """The session whose title is the same text in another composition of its characters, or None."""
        wanted = unicodedata.normalize("NFC", title)
        same = (
            owner for owner, other in self._connection.rows(_TITLED) if unicodedata.normalize("NFC", other) == wanted
        )
        return next(same, None)
