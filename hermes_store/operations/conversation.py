"""Reading a conversation in the model's format (rules REPLAY-*)."""

from hermes_store.conversation.replay import Conversation, build_conversation, repair_message_sequence
from hermes_store.repositories import Repositories


def read_conversation(
    repos: Repositories,
    session_id: str,
    *,
    include_ancestors: bool = False,
    include_inactive: bool = False,
    repair_alternation: bool = False,
    include_row_ids: bool = False,
) -> Conversation:
    """The messages of a session, with `include_ancestors` those of its whole lineage before them."""
    sessions = repos.lineage.root_to_tip(session_id) if include_ancestors else [session_id]
    messages = build_conversation(
        repos.messages.replay_rows(sessions, include_inactive=include_inactive),
        suppress_duplicates=include_ancestors,
        include_row_ids=include_row_ids,
    )
    if repair_alternation and messages:
        repair_message_sequence(messages)
    return messages
