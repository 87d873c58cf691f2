"""The mark by which a file is told from another one at its path (rule FILE-7)."""

import secrets
from typing import TYPE_CHECKING

from hermes_store.fts.marks import read_mark, set_mark

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

GENERATION_KEY = "db_file_generation"
_LARGEST_ID = 2**31 - 1


def stamp_generation(connection: "Connection") -> None:
    """Give a file its mark, in an open unit; one that it has stays.

    The same number stands in the header of the file, for programs that look at the header alone, unless somebody else
    has put a number there.
    """
    token = read_mark(connection, GENERATION_KEY)
    if not token:
        token = secrets.token_hex(16)
        set_mark(connection, GENERATION_KEY, token)
    if connection.sql("PRAGMA application_id")[0][0] == 0:
        connection.sql(f"PRAGMA application_id = {_number_of(token)}")


def application_id(connection: "Connection") -> int:
    """The number in the header if it is somebody else's; 0 for our own mark, and where there is none."""
    found = int(connection.sql("PRAGMA application_id")[0][0])
    if found == 0 or not connection.sql("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'state_meta'"):
        return found
    token = read_mark(connection, GENERATION_KEY)
    return 0 if token and found == _number_of(token) else found


def _number_of(token: str) -> int:
    try:
        return int(token[:8], 16) & _LARGEST_ID or 1
    except ValueError:
        return 1  # not of our making
