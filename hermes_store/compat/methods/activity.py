"""The activity heartbeat of a running session."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "touch_session_activity",
        "(session_id, ts=None, *, description=None, provenance=None)",
        "None",
        State.PLANNED,
        "activity",
    ),
    Method("clear_session_activity_labels", "(session_id)", "None", State.PLANNED, "activity"),
    Method("get_session_activity", "(session_id)", "dict | None", State.PLANNED, "activity"),
)
