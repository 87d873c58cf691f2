"""Creating, finding, ending and reopening sessions."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "create_session",
        (
            "(session_id, source, *, model=None, model_config=None, system_prompt=None, user_id=None, "
            "session_key=None, chat_id=None, chat_type=None, thread_id=None, parent_session_id=None, "
            "cwd=None, profile_name=None, git_repo_root=None)"
        ),
        "str",
        State.BUILT,
        "lifecycle",
    ),
    Method(
        "ensure_session",
        (
            "(session_id, source='unknown', model=None, *, model_config=None, system_prompt=None, "
            "user_id=None, session_key=None, chat_id=None, chat_type=None, thread_id=None, "
            "parent_session_id=None, cwd=None, profile_name=None, git_repo_root=None)"
        ),
        "str",
        State.PLANNED,
        "lifecycle",
    ),
    Method("get_session", "(session_id)", "dict | None", State.BUILT, "lifecycle"),
    Method("end_session", "(session_id, end_reason)", "None", State.BUILT, "lifecycle"),
    Method("reopen_session", "(session_id)", "None", State.BUILT, "lifecycle"),
    Method(
        "promote_to_session_reset",
        "(session_id, reason='session_reset')",
        "bool",
        State.PLANNED,
        "lifecycle",
    ),
    Method("resolve_session_id", "(session_id_or_prefix)", "str | None", State.PLANNED, "lifecycle"),
)
