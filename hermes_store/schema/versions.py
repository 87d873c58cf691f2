"""The two version lines of a file: the stamp of Hermes Agent and the revision of Alembic (rules SCHEMA-1 and SCHEMA-2).

A revision's id is the stamp whose step it does. So a file is adopted at the last revision whose number is not above its
stamp, and revisions for steps in between can be added without renumbering anything.
"""

STAMP = 23
"""What `schema_version` says of a file of the current shape."""

REVISIONS = ("0001", "0016", "0018", "0020", "0021", "0022", "0023")
"""All revisions, oldest first."""

ROOT_REVISION, HEAD_REVISION = REVISIONS[0], REVISIONS[-1]

FIRST_OWN_REVISION = 100
"""Revisions from this number on answer to no stamp."""

CREATE_REVISION_TABLE = (
    "CREATE TABLE IF NOT EXISTS alembic_version ("
    "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def revision_of_stamp(stamp: int) -> str:
    """The revision at which a file with this stamp is adopted."""
    highest = min(max(stamp, 1), FIRST_OWN_REVISION - 1)
    return max(revision for revision in REVISIONS if int(revision) <= highest)


def revision_below(revision: str) -> str:
    """The revision that stands before another one, which is not the first."""
    return REVISIONS[REVISIONS.index(revision) - 1]


def revisions_after(revision: str) -> tuple[str, ...]:
    """Those that a file at this revision still needs."""
    return REVISIONS[REVISIONS.index(revision) + 1 :]
