"""Compression locks, failure cooldowns and streaks."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "record_compression_failure_cooldown",
        "(session_id, cooldown_until, error=None)",
        "None",
        State.PLANNED,
        "compression",
    ),
    Method("clear_compression_failure_cooldown", "(session_id)", "None", State.PLANNED, "compression"),
    Method("get_compression_failure_cooldown", "(session_id)", "dict | None", State.PLANNED, "compression"),
    Method("get_compression_failure_cooldown_row", "(session_id)", "dict", State.PLANNED, "compression"),
    Method(
        "restore_compression_failure_cooldown_row",
        "(session_id, snapshot)",
        "None",
        State.PLANNED,
        "compression",
    ),
    Method("get_compression_fallback_streak", "(session_id)", "int", State.PLANNED, "compression"),
    Method("set_compression_fallback_streak", "(session_id, streak)", "None", State.PLANNED, "compression"),
    Method("get_compression_ineffective_count", "(session_id)", "int", State.PLANNED, "compression"),
    Method("set_compression_ineffective_count", "(session_id, count)", "None", State.PLANNED, "compression"),
    Method(
        "try_acquire_compression_lock",
        "(session_id, holder, ttl_seconds=300.0)",
        "bool",
        State.PLANNED,
        "compression",
    ),
    Method(
        "refresh_compression_lock",
        "(session_id, holder, ttl_seconds=300.0)",
        "bool",
        State.PLANNED,
        "compression",
    ),
    Method("release_compression_lock", "(session_id, holder)", "None", State.PLANNED, "compression"),
    Method("get_compression_lock_holder", "(session_id)", "str | None", State.PLANNED, "compression"),
)
