"""The handle itself."""

from __future__ import annotations

from hermes_store.compat.methods.table import Kind, Method, State

METHODS: tuple[Method, ...] = (
    Method("db_path", "()", "Path", State.PLANNED, "engine", Kind.PROPERTY),
    Method("close", "()", "None", State.BUILT, "engine"),
)
