"""Handing a session over to another platform."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("request_handoff", "(session_id, platform)", "bool", State.PLANNED, "handoff"),
    Method("claim_handoff", "(session_id)", "bool", State.PLANNED, "handoff"),
    Method("complete_handoff", "(session_id)", "None", State.PLANNED, "handoff"),
    Method("fail_handoff", "(session_id, error, only_states=None)", "bool", State.PLANNED, "handoff"),
    Method("get_handoff_state", "(session_id)", "dict | None", State.PLANNED, "handoff"),
    Method("list_pending_handoffs", "()", "list[dict]", State.PLANNED, "handoff"),
    Method("has_pending_handoffs", "()", "bool", State.PLANNED, "handoff"),
    Method("reclaim_stale_running_handoffs", "(error)", "list[str]", State.PLANNED, "handoff"),
)
