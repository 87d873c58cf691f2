"""The handle itself."""

from hermes_store.compat.methods.table import Kind, Method, State

METHODS: tuple[Method, ...] = (
    Method("db_path", "()", "Path", State.BUILT, "engine", Kind.PROPERTY),
    Method("store", "()", "Store", State.BUILT, "engine", Kind.PROPERTY),
    Method("close", "()", "None", State.BUILT, "engine"),
)
