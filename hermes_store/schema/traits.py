"""What some files have and others have not, as far as statements depend on it (rule SCHEMA-14)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

PROMPTS_BY_HASH = "prompts-by-hash"
"""Newer files keep system prompts once each, in a table of their own, and sessions name them by a hash."""


def traits_of(connection: "Connection") -> frozenset[str]:
    """Look at the tables of a file. One statement."""
    found = connection.sql(
        "SELECT (SELECT count(*) FROM pragma_table_info('system_prompts') WHERE name IN ('hash', 'prompt')), "
        "(SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'system_prompt_hash')"
    )
    return frozenset({PROMPTS_BY_HASH}) if found == [(2, 1)] else frozenset()
