"""Session titles: cleaning, setting, and finding sessions by them."""

from hermes_store.compat.methods.table import Constant, Kind, Method, State

METHODS: tuple[Method, ...] = (
    Method("sanitize_title", "(title)", "str | None", State.BUILT, "titles", Kind.STATIC),
    Method("set_session_title", "(session_id, title)", "bool", State.BUILT, "titles"),
    Method("set_auto_title_if_empty", "(session_id, title)", "bool", State.PLANNED, "titles"),
    Method("get_session_title", "(session_id)", "str | None", State.BUILT, "titles"),
    Method("get_session_by_title", "(title)", "dict | None", State.PLANNED, "titles"),
    Method("resolve_session_by_title", "(title)", "str | None", State.BUILT, "titles"),
    Method("get_next_title_in_lineage", "(base_title)", "str", State.BUILT, "titles"),
)

CONSTANTS: tuple[Constant, ...] = (Constant("MAX_TITLE_LENGTH", 100, State.BUILT, "titles"),)
