"""Walks along parent links, and publication of compression children."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("get_compression_tip", "(session_id)", "str | None", State.PLANNED, "lineage"),
    Method("get_conversation_root", "(session_id)", "str", State.PLANNED, "lineage"),
    Method("get_compression_lineage", "(session_id)", "list[str]", State.PLANNED, "lineage"),
    Method("find_live_compression_child", "(parent_session_id)", "dict | None", State.PLANNED, "lineage"),
    Method("reopen_orphaned_compression_session", "(session_id)", "bool", State.PLANNED, "lineage"),
    Method(
        "publish_compression_child",
        (
            "(*, parent_session_id, child_session_id, source, messages, model=None, model_config=None, "
            "system_prompt=None, cwd=None, profile_name=None, compression_lock_holder=None, "
            "require_compression_lease=True)"
        ),
        "None",
        State.PLANNED,
        "lineage",
    ),
    Method("finalize_orphaned_compression_sessions", "()", "int", State.PLANNED, "lineage"),
    Method("resolve_resume_session_id", "(session_id)", "str", State.PLANNED, "lineage"),
    Method("lineage_root_to_tip", "(session_id)", "list[str]", State.PLANNED, "lineage"),
)
