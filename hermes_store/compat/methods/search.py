"""Full-text search over messages."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "search_messages",
        (
            "(query, source_filter=None, exclude_sources=None, role_filter=None, limit=20, offset=0, "
            "sort=None, include_inactive=False, fields=None)"
        ),
        "list[dict]",
        State.BUILT,
        "search",
    ),
)
