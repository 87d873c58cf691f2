"""Sent text, display kinds and reactions of messages."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "set_latest_user_api_content",
        "(session_id, content, api_content)",
        "int",
        State.PLANNED,
        "display",
    ),
    Method(
        "set_message_api_content",
        "(session_id, row_id, content, api_content)",
        "unspecified",
        State.PLANNED,
        "display",
    ),
    Method(
        "set_latest_matching_message_display_kind",
        "(session_id, *, role, content, display_kind, display_metadata=None)",
        "bool",
        State.PLANNED,
        "display",
    ),
    Method(
        "set_message_reaction",
        "(session_id, row_id, emoji, *, author='user')",
        "list[dict] | None",
        State.PLANNED,
        "display",
    ),
    Method("get_message_reactions", "(session_id, row_id)", "list[dict]", State.PLANNED, "display"),
    Method("take_unseen_reactions", "(session_id, *, author='user')", "list[dict]", State.PLANNED, "display"),
)
