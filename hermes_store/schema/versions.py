"""The two version lines of a file: the stamp of Hermes Agent and the revision of Alembic (rules SCHEMA-1 and SCHEMA-2).

A revision's id is the stamp whose step it does. So a file is adopted at the last revision whose number is not above its
stamp, and revisions for steps in between can be added without renumbering anything.
"""

STAMP = 23
"""What `schema_version` says of a file of the current shape."""

ROOT_REVISION = "0001"
HEAD_REVISION = "0023"

REVISIONS = (ROOT_REVISION, HEAD_REVISION)
"""All revisions, oldest first."""

FIRST_OWN_REVISION = 100
"""Revisions from this number on answer to no stamp."""

OLDEST_STAMP = 23
"""The oldest stamp that this release can bring to the current shape."""

CREATE_REVISION_TABLE = (
    "CREATE TABLE IF NOT EXISTS alembic_version ("
    "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def revision_of_stamp(stamp: int) -> str:
    """The revision at which a file with this stamp is adopted."""
    highest = min(max(stamp, 1), FIRST_OWN_REVISION - 1)
    return max(revision for revision in REVISIONS if int(revision) <= highest)
