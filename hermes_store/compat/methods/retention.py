"""Deleting, pruning and archiving sessions."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("get_session_delete_targets", "(session_id)", "list[str]", State.PLANNED, "retention"),
    Method(
        "delete_session",
        "(session_id, sessions_dir=None, expected_delete_ids=None)",
        "bool",
        State.BUILT,
        "retention",
    ),
    Method("delete_sessions", "(session_ids, sessions_dir=None)", "int", State.PLANNED, "retention"),
    Method("delete_session_if_empty", "(session_id, sessions_dir=None)", "bool", State.PLANNED, "retention"),
    Method("count_empty_sessions", "()", "int", State.PLANNED, "retention"),
    Method("delete_empty_sessions", "(sessions_dir=None)", "int", State.PLANNED, "retention"),
    Method("prune_empty_ghost_sessions", "(sessions_dir=None)", "int", State.PLANNED, "retention"),
    Method(
        "list_prune_candidates",
        (
            "(older_than_days=None, source=None, *, last_active_before=None, last_active_after=None, "
            "started_before=None, started_after=None, end_reason=None, user_id=None, chat_id=None, "
            "chat_type=None, provider=None, title_like=None, model_like=None, branch_like=None, "
            "cwd_prefix=None, min_messages=None, max_messages=None, min_tokens=None, max_tokens=None, "
            "min_cost=None, max_cost=None, min_tool_calls=None, max_tool_calls=None, archived=None)"
        ),
        "list[dict]",
        State.PLANNED,
        "retention",
    ),
    Method(
        "prune_sessions",
        (
            "(older_than_days=90, source=None, sessions_dir=None, *, last_active_before=None, "
            "last_active_after=None, started_before=None, started_after=None, end_reason=None, "
            "user_id=None, chat_id=None, chat_type=None, provider=None, title_like=None, model_like=None, "
            "branch_like=None, cwd_prefix=None, min_messages=None, max_messages=None, min_tokens=None, "
            "max_tokens=None, min_cost=None, max_cost=None, min_tool_calls=None, max_tool_calls=None, "
            "archived=None)"
        ),
        "int",
        State.BUILT,
        "retention",
    ),
    Method(
        "archive_sessions",
        (
            "(older_than_days=None, source=None, *, last_active_before=None, last_active_after=None, "
            "started_before=None, started_after=None, end_reason=None, user_id=None, chat_id=None, "
            "chat_type=None, provider=None, title_like=None, model_like=None, branch_like=None, "
            "cwd_prefix=None, min_messages=None, max_messages=None, min_tokens=None, max_tokens=None, "
            "min_cost=None, max_cost=None, min_tool_calls=None, max_tool_calls=None, archived=False)"
        ),
        "int",
        State.PLANNED,
        "retention",
    ),
    Method(
        "archive_stale_sessions",
        "(idle_days, *, exclude_pinned=True)",
        "int",
        State.PLANNED,
        "retention",
    ),
    Method("prune_cron_job_runs", "(job_id, keep)", "unspecified", State.PLANNED, "retention"),
)
