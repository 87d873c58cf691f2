"""What some files have and others have not, as far as statements depend on it (rule SCHEMA-14)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

PROMPTS_BY_HASH = "prompts-by-hash"
"""Newer files keep system prompts once each, in a table of their own, and sessions name them by a hash."""

TOPICS_STAY = "topics-stay"
"""Bindings of Telegram topics in their first form, which do not go with their session and keep it there."""


def traits_of(connection: "Connection") -> frozenset[str]:
    """Look at the tables of a file. One statement."""
    prompts, hashes, stay = connection.sql(
        "SELECT (SELECT count(*) FROM pragma_table_info('system_prompts') WHERE name IN ('hash', 'prompt')), "
        "(SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'system_prompt_hash'), "
        "EXISTS (SELECT 1 FROM pragma_foreign_key_list('telegram_dm_topic_bindings') "
        "WHERE \"table\" = 'sessions' AND on_delete <> 'CASCADE')"
    )[0]
    found = {PROMPTS_BY_HASH} if (prompts, hashes) == (2, 1) else set()
    return frozenset(found | {TOPICS_STAY} if stay else found)
