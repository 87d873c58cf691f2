"""Export and import of sessions."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("export_session", "(session_id)", "dict | None", State.BUILT, "portability"),
    Method("export_session_lineage", "(session_id)", "dict | None", State.PLANNED, "portability"),
    Method("export_all", "(source=None)", "list[dict]", State.BUILT, "portability"),
    Method("import_sessions", "(sessions)", "dict", State.PLANNED, "portability"),
)
