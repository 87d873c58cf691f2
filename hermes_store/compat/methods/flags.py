"""Archived, pinned and read marks."""

from hermes_store.compat.methods.table import Kind, Method, State

METHODS: tuple[Method, ...] = (
    Method("set_session_archived", "(session_id, archived)", "bool", State.PLANNED, "flags"),
    Method("set_session_pinned", "(session_id, pinned)", "bool", State.PLANNED, "flags"),
    Method("set_session_read", "(session_id, read=True)", "bool", State.PLANNED, "flags"),
    Method("session_unread", "(row)", "bool", State.PLANNED, "flags", Kind.STATIC),
)
