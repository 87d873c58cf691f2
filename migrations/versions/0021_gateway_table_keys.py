"""Routing entries have a scope, and no row stays behind in a table of an interrupted rebuild.

Purpose: `gateway_routing` gets the key (scope, session_key) where it has another one or none; of several entries of one
key the newest stays. The rows of `gateway_routing_legacy_pk`, which an interrupted rebuild of Hermes Agent leaves, come
back, and so does `telegram_dm_topic_bindings` from `telegram_dm_topic_bindings_new`.
Stamp: none; the shapes of early builds are found under any stamp. It stands behind the revisions that move data once,
so that a file of any stamp can begin here without running those again.
Cost on a large file: a copy of the routing table, which has a row for every chat.
Rule: SCHEMA-13.
Runs again: yes; a table of the right shape without leftovers is not touched.
Downgrade: not possible, since the key of before cannot hold entries of two scopes.
"""

from alembic import op

from hermes_store.schema.operations import irreversible, online_only, rebuild_table, rows, tables_among

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_ROUTING = "gateway_routing"
_ROUTING_LEFTOVER = "gateway_routing_legacy_pk"
_COLUMNS = {
    "scope": "TEXT DEFAULT '' NOT NULL",
    "session_key": "TEXT NOT NULL",
    "entry_json": "TEXT NOT NULL",
    "updated_at": "REAL NOT NULL",
}
_SHAPE = [
    ("scope", "TEXT", 1, "''", 1),
    ("session_key", "TEXT", 1, None, 2),
    ("entry_json", "TEXT", 1, None, 0),
    ("updated_at", "REAL", 1, None, 0),
]
_BINDINGS = "telegram_dm_topic_bindings"
_BINDINGS_LEFTOVER = "telegram_dm_topic_bindings_new"


def upgrade() -> None:
    """Rebuild the routing table where it has to be, and take the leftovers over."""
    online_only(op, revision)
    _rebuild_routing()
    _take_over_bindings()


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "the key of before cannot hold entries of two scopes")


def _rebuild_routing() -> None:
    found = rows(op, 'SELECT name, upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', _ROUTING)
    known = {name for name, *_ in _SHAPE}
    has_shape = sorted(tuple(row) for row in found if row[0] in known) == sorted(_SHAPE) and not rows(
        op, "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND wr", _ROUTING
    )
    leftovers = tables_among(op, [_ROUTING_LEFTOVER])
    if has_shape and not leftovers:
        return
    newest_wins = (
        "ON CONFLICT (scope, session_key) DO UPDATE SET entry_json = excluded.entry_json, "
        "updated_at = excluded.updated_at{others} WHERE excluded.updated_at >= updated_at"
    )
    sources = [*leftovers, *tables_among(op, [_ROUTING])]
    rebuild_table(
        op,
        _ROUTING,
        columns=_COLUMNS,
        constraints=["PRIMARY KEY (scope, session_key)"],
        in_place_of_null={"scope": "''", "session_key": "''", "entry_json": "'{}'", "updated_at": "0"},
        sources=dict.fromkeys(sources, "updated_at"),
        on_conflict=[newest_wins] * len(sources),
    )


def _take_over_bindings() -> None:
    """The rebuild of Hermes Agent copied into the new table, dropped the old one and renamed: see how far it came."""
    if not tables_among(op, [_BINDINGS_LEFTOVER]):
        return
    connection = op.get_bind()
    if tables_among(op, [_BINDINGS]):
        # The old table was not dropped yet, so it holds everything; a chat may have bound more since.
        shared = [
            row[0]
            for row in rows(
                op,
                "SELECT name FROM pragma_table_info(?) WHERE name IN (SELECT name FROM pragma_table_info(?))",
                _BINDINGS_LEFTOVER,
                _BINDINGS,
            )
        ]
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in shared)
        connection.exec_driver_sql(
            f"INSERT OR IGNORE INTO {_BINDINGS} ({columns}) SELECT {columns} FROM {_BINDINGS_LEFTOVER}"
        )
        connection.exec_driver_sql(f"DROP TABLE {_BINDINGS_LEFTOVER}")
        return
    connection.exec_driver_sql("PRAGMA legacy_alter_table=ON")
    connection.exec_driver_sql(f"ALTER TABLE {_BINDINGS_LEFTOVER} RENAME TO {_BINDINGS}")
    connection.exec_driver_sql("PRAGMA legacy_alter_table=OFF")
    connection.exec_driver_sql(
        f"CREATE UNIQUE INDEX IF NOT EXISTS idx_telegram_dm_topic_bindings_session ON {_BINDINGS} (session_id)"
    )
    connection.exec_driver_sql(
        f"CREATE INDEX IF NOT EXISTS idx_telegram_dm_topic_bindings_user ON {_BINDINGS} (user_id, chat_id)"
    )
