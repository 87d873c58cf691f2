"""Gateway peers of sessions and durable routing entries."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "record_gateway_session_peer",
        (
            "(session_id, *, source, user_id=None, session_key=None, chat_id=None, chat_type=None, "
            "thread_id=None, display_name=None, origin_json=None, include_compression_ancestors=False)"
        ),
        "None",
        State.PLANNED,
        "gateway",
    ),
    Method("set_expiry_finalized", "(session_id, finalized=True)", "None", State.PLANNED, "gateway"),
    Method(
        "list_gateway_sessions",
        "(*, platform=None, active_only=True)",
        "list[dict]",
        State.PLANNED,
        "gateway",
    ),
    Method(
        "find_session_by_origin",
        "(*, platform, chat_id, thread_id=None, user_id=None)",
        "str | None",
        State.PLANNED,
        "gateway",
    ),
    Method(
        "find_latest_gateway_session_for_peer",
        "(*, source, user_id=None, session_key=None, chat_id=None, chat_type=None, thread_id=None)",
        "dict | None",
        State.PLANNED,
        "gateway",
    ),
    Method(
        "save_gateway_routing_entry",
        "(session_key, entry_json, *, scope='')",
        "None",
        State.PLANNED,
        "gateway",
    ),
    Method("replace_gateway_routing_entries", "(entries, *, scope='')", "None", State.PLANNED, "gateway"),
    Method("load_gateway_routing_entries", "(*, scope='')", "dict[str, str]", State.PLANNED, "gateway"),
    Method("delete_gateway_routing_entries", "(session_keys, *, scope='')", "None", State.PLANNED, "gateway"),
)
