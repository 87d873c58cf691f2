"""Usage is told apart by route and task.

Purpose: `session_model_usage` gets the key (session_id, model, billing_provider, billing_base_url, billing_mode, task),
none of its parts NULL, and goes with its session. Files in the field have keys of three and of five columns, and parts
that are NULL. Rows that become one are added up. The rows of `session_model_usage_v21` and
`session_model_usage_legacy_pk`, which an interrupted rebuild of Hermes Agent leaves, come back. Rows of sessions that
are gone stay.
Stamp: 22, and any stamp whose table has another shape.
Cost on a large file: a copy of the usage table, which has a few rows for every session.
Rule: SCHEMA-13.
Runs again: yes; a table of the right shape without leftovers is not touched.
Downgrade: not possible, since the key of before cannot hold the usage of two tasks.
"""

from alembic import op

from hermes_store.schema.operations import irreversible, online_only, rebuild_table, rows, tables_among

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_TABLE = "session_model_usage"
_LEFTOVERS = ["session_model_usage_v21", "session_model_usage_legacy_pk"]
_ROUTE = ("billing_provider", "billing_base_url", "billing_mode", "task")
_KEY = ("session_id", "model", *_ROUTE)
_COUNTERS = ("api_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
             "reasoning_tokens")  # fmt: skip
_COSTS = ("estimated_cost_usd", "actual_cost_usd")
_COLUMNS = {
    "session_id": "TEXT NOT NULL",
    "model": "TEXT NOT NULL",
    **dict.fromkeys(_ROUTE, "TEXT DEFAULT '' NOT NULL"),
    **dict.fromkeys(_COUNTERS, "INTEGER DEFAULT 0 NOT NULL"),
    **dict.fromkeys(_COSTS, "REAL DEFAULT 0 NOT NULL"),
    "cost_status": "TEXT",
    "cost_source": "TEXT",
    "first_seen": "REAL",
    "last_seen": "REAL",
}


def upgrade() -> None:
    """Rebuild the table where it has to be, and take the leftovers over."""
    online_only(op, revision)
    leftovers = tables_among(op, _LEFTOVERS)
    if _has_shape() and not leftovers:
        return
    sources = [*leftovers, *tables_among(op, [_TABLE])]
    rebuild_table(
        op,
        _TABLE,
        columns=_COLUMNS,
        constraints=[
            f"PRIMARY KEY ({', '.join(_KEY)})",
            "FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE",
        ],
        in_place_of_null={
            "session_id": "''",
            "model": "'unknown'",
            **dict.fromkeys(_ROUTE, "''"),
            **dict.fromkeys((*_COUNTERS, *_COSTS), "0"),
        },
        sources=dict.fromkeys(sources, "last_seen"),
        # A table that is copied first has no row of another one to meet.
        on_conflict=[_merged(same_row="0"), *[_merged(same_row=_SAME_ROW)] * (len(sources) - 1)],
    )
    for column in ("model", "session_id"):
        name = f"idx_session_model_usage_{column.removesuffix('_id')}"
        op.get_bind().exec_driver_sql(f"CREATE INDEX IF NOT EXISTS {name} ON {_TABLE} ({column})")


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "the key of before cannot hold the usage of two tasks")


def _has_shape() -> bool:
    declared = {}
    for name, definition in _COLUMNS.items():
        kind, _, rest = definition.partition(" ")
        default = rest.partition("DEFAULT ")[2].partition(" ")[0] or None
        declared[name] = (kind, int("NOT NULL" in rest), default, _KEY.index(name) + 1 if name in _KEY else 0)
    found = {
        row[0]: tuple(row[1:])
        for row in rows(op, 'SELECT name, upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', _TABLE)
    }
    keys = rows(op, 'SELECT "table", "from", on_delete FROM pragma_foreign_key_list(?)', _TABLE)
    has_columns = all(found.get(name) == shape for name, shape in declared.items())
    if rows(op, "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND wr", _TABLE):
        return False
    return has_columns and [tuple(key) for key in keys] == [("sessions", "session_id", "CASCADE")]


# A rebuild that was interrupted behind its copy left the same row twice, the later one possibly grown since; one that
# was interrupted before it left two rows that have to be added up.
_SAME_ROW = "excluded.first_seen IS first_seen"


def _merged(*, same_row: str) -> str:
    """What happens to a row that meets one of the same key."""
    sums = ", ".join(
        f"{name} = CASE WHEN {same_row} THEN MAX({name}, excluded.{name}) ELSE {name} + excluded.{name} END"
        for name in (*_COUNTERS, *_COSTS)
    )
    return (
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {sums}, "
        "cost_status = COALESCE(excluded.cost_status, cost_status), "
        "cost_source = COALESCE(excluded.cost_source, cost_source), "
        "first_seen = MIN(COALESCE(first_seen, excluded.first_seen), COALESCE(excluded.first_seen, first_seen)), "
        "last_seen = MAX(COALESCE(last_seen, excluded.last_seen), COALESCE(excluded.last_seen, last_seen))"
    )
