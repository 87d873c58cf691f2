"""Telegram topics bound to sessions."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("apply_telegram_topic_migration", "()", "None", State.PLANNED, "topics"),
    Method(
        "enable_telegram_topic_mode",
        "(*, chat_id, user_id, has_topics_enabled=None, allows_users_to_create_topics=None)",
        "None",
        State.PLANNED,
        "topics",
    ),
    Method(
        "disable_telegram_topic_mode",
        "(*, chat_id, clear_bindings=True)",
        "None",
        State.PLANNED,
        "topics",
    ),
    Method("is_telegram_topic_mode_enabled", "(*, chat_id, user_id)", "bool", State.PLANNED, "topics"),
    Method(
        "bind_telegram_topic",
        "(*, chat_id, thread_id, user_id, session_key, session_id, managed_mode='auto')",
        "None",
        State.PLANNED,
        "topics",
    ),
    Method("get_telegram_topic_binding", "(*, chat_id, thread_id)", "dict | None", State.PLANNED, "topics"),
    Method(
        "get_telegram_topic_binding_by_session",
        "(*, session_id)",
        "dict | None",
        State.PLANNED,
        "topics",
    ),
    Method("list_telegram_topic_bindings_for_chat", "(*, chat_id)", "list[dict]", State.PLANNED, "topics"),
    Method("is_telegram_session_linked_to_topic", "(*, session_id)", "bool", State.PLANNED, "topics"),
    Method("delete_telegram_topic_binding", "(*, chat_id, thread_id)", "int", State.PLANNED, "topics"),
    Method(
        "list_unlinked_telegram_sessions_for_user",
        "(*, chat_id, user_id, limit=10)",
        "list[dict]",
        State.PLANNED,
        "topics",
    ),
)
