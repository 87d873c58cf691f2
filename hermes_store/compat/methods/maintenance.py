"""The meta store, scheduled clean-ups and file size."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method("get_meta", "(key)", "str | None", State.PLANNED, "maintenance"),
    Method("set_meta", "(key, value, *, cursor=None)", "None", State.PLANNED, "maintenance"),
    Method(
        "maybe_auto_prune_and_vacuum",
        ("(retention_days=90, min_interval_hours=24, vacuum=True, sessions_dir=None, min_vacuum_interval_days=30)"),
        "dict",
        State.PLANNED,
        "maintenance",
    ),
    Method(
        "maybe_auto_archive",
        "(idle_days=3, min_interval_hours=24, exclude_pinned=True)",
        "dict",
        State.PLANNED,
        "maintenance",
    ),
    Method("vacuum", "()", "int", State.PLANNED, "maintenance"),
    Method("logical_size_bytes", "()", "int | None", State.PLANNED, "maintenance"),
)
