"""Messages as stored rows."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "get_messages",
        "(session_id, include_inactive=False, limit=None, offset=0)",
        "list[dict]",
        State.BUILT,
        "reads",
    ),
    Method(
        "get_messages_around",
        "(session_id, around_message_id, window=5)",
        "dict",
        State.PLANNED,
        "reads",
    ),
    Method(
        "get_anchored_view",
        "(session_id, around_message_id, window=5, bookend=3, keep_roles=('user', 'assistant'))",
        "dict",
        State.PLANNED,
        "reads",
    ),
    Method(
        "list_recent_user_messages",
        "(session_id, limit=20, include_inactive=False)",
        "list[dict]",
        State.PLANNED,
        "reads",
    ),
)
