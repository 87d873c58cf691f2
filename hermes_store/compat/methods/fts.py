"""Upkeep of the full-text indexes."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("fts_rebuild_status", "()", "dict | None", State.BUILT, "fts"),
    Method("fts_rebuild_step", "()", "bool", State.BUILT, "fts"),
    Method("fts_cjk_rebuild_status", "()", "dict | None", State.PLANNED, "fts"),
    Method("fts_cjk_rebuild_step", "()", "bool", State.PLANNED, "fts"),
    Method("fts_optimize_available", "()", "bool", State.BUILT, "fts"),
    Method("optimize_fts_storage", "(*, progress_cb=None, vacuum=True)", "dict", State.BUILT, "fts"),
    Method("rebuild_fts", "()", "int", State.PLANNED, "fts"),
    Method("optimize_fts", "()", "int", State.PLANNED, "fts"),
)
