"""Messages in the form that a model or a reader gets."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "get_messages_as_conversation",
        (
            "(session_id, include_ancestors=False, include_inactive=False, repair_alternation=False, "
            "include_row_ids=False)"
        ),
        "list[dict]",
        State.BUILT,
        "conversation",
    ),
    Method(
        "get_resume_conversations",
        "(session_id)",
        "tuple[list[dict], list[dict]]",
        State.PLANNED,
        "conversation",
    ),
    Method("get_ancestor_display_prefix", "(session_id)", "list[dict]", State.PLANNED, "conversation"),
)
