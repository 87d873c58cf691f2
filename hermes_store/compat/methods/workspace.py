"""Working directory and repository of a session."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "update_session_cwd",
        "(session_id, cwd, git_branch=None, git_repo_root=None, replace_git_meta=False)",
        "None",
        State.PLANNED,
        "workspace",
    ),
    Method("backfill_repo_roots", "(cwd_to_root)", "None", State.PLANNED, "workspace"),
    Method("retag_kanban_worker_sessions", "(workspaces_root)", "int", State.PLANNED, "workspace"),
)
