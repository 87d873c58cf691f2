"""Small questions about messages."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("message_count", "(session_id=None)", "int", State.PLANNED, "probes"),
    Method("has_archived_messages", "(session_id)", "bool", State.PLANNED, "probes"),
    Method(
        "latest_message_row_id",
        "(session_id, *, role='user', offset=0, require_text=True)",
        "int | None",
        State.PLANNED,
        "probes",
    ),
    Method("latest_user_message_row_id", "(session_id)", "int | None", State.PLANNED, "probes"),
    Method("get_message_role", "(session_id, row_id)", "str | None", State.PLANNED, "probes"),
    Method("has_platform_message_id", "(session_id, platform_message_id)", "bool", State.PLANNED, "probes"),
    Method("has_gateway_input_owner", "(session_id, owner)", "bool", State.PLANNED, "probes"),
    Method("get_first_assistant_text", "(session_id)", "str", State.PLANNED, "probes"),
)
