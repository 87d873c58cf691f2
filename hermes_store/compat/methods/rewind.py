"""Undoing turns and bringing them back."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("rewind_to_message", "(session_id, target_message_id)", "dict", State.PLANNED, "rewind"),
    Method("restore_rewound", "(session_id, since_message_id)", "int", State.PLANNED, "rewind"),
)
