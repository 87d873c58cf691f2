"""Lists and counts of sessions."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "list_sessions_rich",
        (
            "(source=None, sources=None, exclude_sources=None, cwd_prefix=None, limit=20, offset=0, "
            "include_children=False, min_message_count=0, project_compression_tips=True, "
            "order_by_last_active=False, include_archived=False, archived_only=False, id_query=None, "
            "search_query=None, compact_rows=False, include_pinned=False, session_key=None)"
        ),
        "list[dict]",
        State.BUILT,
        "listing",
    ),
    Method(
        "get_session_rich_row",
        "(session_id, compact_rows=False)",
        "dict | None",
        State.PLANNED,
        "listing",
    ),
    Method(
        "search_sessions",
        "(source=None, limit=20, offset=0, workspace_key=None)",
        "list[dict]",
        State.PLANNED,
        "listing",
    ),
    Method(
        "search_sessions_by_id",
        "(query, limit=20, include_archived=True, source=None, sources=None, exclude_sources=None)",
        "list[dict]",
        State.PLANNED,
        "listing",
    ),
    Method(
        "list_recent_sessions_bounded",
        "(limit, candidate_limit, lineage_limit, timeout_seconds, exclude_sources)",
        "list[dict]",
        State.PLANNED,
        "listing",
    ),
    Method(
        "session_count",
        (
            "(source=None, sources=None, cwd_prefix=None, min_message_count=0, include_archived=False, "
            "archived_only=False, exclude_children=False, exclude_sources=None)"
        ),
        "int",
        State.PLANNED,
        "listing",
    ),
    Method("session_count_ge", "(n=1)", "bool", State.PLANNED, "listing"),
    Method(
        "session_count_by_source",
        "(*, include_archived=False, archived_only=False, exclude_children=False)",
        "dict[str, int]",
        State.PLANNED,
        "listing",
    ),
    Method("distinct_session_cwds", "(include_archived=False)", "list[dict]", State.PLANNED, "listing"),
    Method("list_cron_job_runs", "(job_id, limit=20, offset=0)", "list[dict]", State.PLANNED, "listing"),
    Method("list_skill_scaffolded_sessions", "(limit=200)", "list[dict]", State.PLANNED, "listing"),
)
