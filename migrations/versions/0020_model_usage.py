"""What a session spent stands in the usage table too.

Purpose: every session with tokens gets a row in `session_model_usage` under its model and route, with what the rows
that it may have already do not account for, so that nothing is counted twice.
Stamp: 20.
Cost on a large file: one look at every session.
Rule: MIGRATE-3.
Runs again: yes; a row of the same key is kept as it is.
Downgrade: not possible, since later usage is added to the same rows.
"""

from alembic import op

from hermes_store.schema.operations import irreversible, online_only, rows, tables_among

revision = "0020"
down_revision = "0018"
branch_labels = None
depends_on = None

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_COUNTERS = ("api_call_count", *_TOKENS, "estimated_cost_usd", "actual_cost_usd")
_ROUTE = ("billing_provider", "billing_base_url", "billing_mode", "task")
_IDENTITY = ("session_id", "model", *_ROUTE, "first_seen")
_REST = ", ".join(f"MAX(0, COALESCE(s.{name}, 0) - COALESCE(u.{name}, 0)) AS {name}" for name in _COUNTERS)
# Not SUM, which ends everything with an error where numbers are too large.
_SPENT = ", ".join(f"TOTAL({name}) AS {name}" for name in _COUNTERS)

_BACKFILL = f"""
    INSERT OR IGNORE INTO session_model_usage (
        session_id, model, billing_provider, billing_base_url, billing_mode, {", ".join(_COUNTERS)},
        cost_status, cost_source, first_seen, last_seen)
    SELECT * FROM (
        SELECT s.id, COALESCE(s.model, 'unknown'), COALESCE(s.billing_provider, ''), COALESCE(s.billing_base_url, ''),
            COALESCE(s.billing_mode, ''), {_REST}, s.cost_status, s.cost_source, s.started_at,
            COALESCE(s.ended_at, s.started_at)
        FROM sessions AS s
        LEFT JOIN (SELECT session_id, {_SPENT} FROM ({{rows}}) GROUP BY session_id) AS u ON u.session_id = s.id
        WHERE s.id IS NOT NULL)
    WHERE {" + ".join(_TOKENS)} > 0
"""


def upgrade() -> None:
    """Account for what is not accounted for."""
    online_only(op, revision)
    op.get_bind().exec_driver_sql(_BACKFILL.format(rows=_accounted()))


def _accounted() -> str:
    """The rows that account for something: those of the table, and those that an interrupted rebuild left elsewhere.

    A row that is in several tables, with the same key and the same beginning, is one row.
    """
    tables = tables_among(op, ["session_model_usage", "session_model_usage_v21", "session_model_usage_legacy_pk"])
    parts = []
    for table in tables:
        there = {row[0].lower() for row in rows(op, "SELECT name FROM pragma_table_info(?)", table)}
        shown = [name if name in there else f"NULL AS {name}" for name in (*_IDENTITY, *_COUNTERS)]
        parts.append(f"SELECT {', '.join(shown)} FROM {table}")
    largest = ", ".join(f"MAX({name}) AS {name}" for name in _COUNTERS)
    route = ", ".join(f"COALESCE({name}, '')" for name in _ROUTE)
    return (
        f"SELECT session_id, {largest} FROM ({' UNION ALL '.join(parts)}) "
        f"GROUP BY session_id, model, {route}, COALESCE(first_seen, -1)"
    )


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "later usage was added to the same rows")
