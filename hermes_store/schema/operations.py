"""Frozen operations that revisions may use. They carry literal DDL and never change what they do (rule SCHEMA-9)."""

from alembic.operations import Operations

from hermes_store.errors import IrreversibleMigration

__all__ = ["IrreversibleMigration", "ensure_column", "flag_joined_search_layout"]


def ensure_column(operations: Operations, table: str, column: str, definition: str) -> None:
    """Add a column unless it is there: opening a store may have added it first, and SQLite has no IF NOT EXISTS here.

    `definition` is the type with NOT NULL and DEFAULT, as ALTER TABLE ADD COLUMN takes them.
    """
    for name in (table, column):
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name of a table or column")
    if operations.get_context().as_sql:
        operations.execute(f'ALTER TABLE {table} ADD COLUMN "{column}" {definition}')
        return
    live = operations.get_bind().exec_driver_sql("SELECT lower(name) FROM pragma_table_info(?)", (table,))
    if column.lower() not in {row[0] for row in live}:
        operations.execute(f'ALTER TABLE {table} ADD COLUMN "{column}" {definition}')


def flag_joined_search_layout(operations: Operations) -> None:
    """Note in `state_meta` that the search index still has the layout of one joined text and could be made smaller."""
    operations.execute(
        "INSERT INTO state_meta(key, value) SELECT 'fts_optimize_available', '1' "
        "WHERE EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'messages_fts' "
        "AND instr(lower(sql), 'tool_name') = 0) "
        "AND NOT EXISTS (SELECT 1 FROM state_meta WHERE key = 'fts_optimize_available')"
    )
