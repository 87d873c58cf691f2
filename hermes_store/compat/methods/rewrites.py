"""Replacing, clearing and compacting the messages of a session."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "replace_messages",
        "(session_id, messages, active_only=False)",
        "None",
        State.PLANNED,
        "rewrites",
    ),
    Method("clear_messages", "(session_id)", "None", State.BUILT, "rewrites"),
    Method(
        "archive_and_compact",
        "(session_id, compacted_messages, model_config_patch=None)",
        "int",
        State.PLANNED,
        "rewrites",
    ),
    Method(
        "purge_stale_tool_call_markers",
        "(*, dry_run=False, backup=True)",
        "dict",
        State.PLANNED,
        "rewrites",
    ),
)
