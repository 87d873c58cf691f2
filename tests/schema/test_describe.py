"""Describing a schema: what counts and what does not."""

import pytest

from hermes_store.database import load_driver
from hermes_store.database.connection import Connection
from hermes_store.schema.describe import describe_schema
from hermes_store.schema.normalise import normalised
from tests.schema.inspecting import scratch
from tests.support.drivers import installed

PLAIN = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT 'X y', c REAL)",
    "CREATE INDEX i ON a (c DESC, b) WHERE b IS NOT NULL",
    "CREATE VIEW v AS SELECT id, b FROM a WHERE b <> 'Tool'",
    "CREATE TRIGGER t AFTER UPDATE OF b ON a WHEN old.b IS NOT new.b BEGIN DELETE FROM a WHERE id = 1; END",
    "CREATE VIRTUAL TABLE f USING fts5(b, content='a', content_rowid='id')",
)


def lines_of(driver: str, *statements: str) -> list[str]:
    with scratch(driver) as raw:
        for statement in statements:
            raw.execute(statement)
        return describe_schema(Connection(raw, load_driver(driver)))


@pytest.mark.parametrize("driver", installed())
def test_spelling_does_not_count(driver: str) -> None:
    table = """create table if not exists "A" (
        C real, -- a note
        [B] text not null default 'X y', `id` integer primary key)"""
    index = """create index if not exists "i" on "a"("c" desc,
        "b" ASC) where "b" is not null"""
    view = "CREATE VIEW IF NOT EXISTS V AS\n\tselect ID, B from A /* all */ where B<>'Tool'"
    trigger = """create trigger if not exists "t" after update of "b" on "a" for each row when old.b is not new.b
        begin delete from a where id=1; end"""
    virtual = "create virtual table if not exists F using FTS5(\n  b,\n  content='a', content_rowid='id'\n)"
    spelled = (table, index, view, trigger, virtual)
    assert lines_of(driver, *spelled) == lines_of(driver, *PLAIN)


CHANGES = {
    "type": (0, "c REAL", "c TEXT"),
    "not null": (0, "TEXT NOT NULL", "TEXT"),
    "default": (0, "'X y'", "'x y'"),
    "primary key": (0, "INTEGER PRIMARY KEY", "INTEGER"),
    "autoincrement": (0, "PRIMARY KEY", "PRIMARY KEY AUTOINCREMENT"),
    "without rowid": (0, "c REAL)", "c REAL) WITHOUT ROWID"),
    "strict": (0, "c REAL)", "c REAL) STRICT"),
    "a unique constraint": (0, "c REAL)", "c REAL, UNIQUE (b, c))"),
    "a foreign key": (0, "c REAL)", "c REAL, FOREIGN KEY (b) REFERENCES a (id))"),
    "a column more": (0, "c REAL)", "c REAL, d)"),
    "a generated column": (0, "c REAL)", "c REAL, d GENERATED ALWAYS AS (1))"),
    "unique": (1, "CREATE INDEX", "CREATE UNIQUE INDEX"),
    "desc": (1, "c DESC", "c"),
    "order of an index": (1, "c DESC, b", "b, c DESC"),
    "collation": (1, "DESC, b", "DESC, b COLLATE NOCASE"),
    "where": (1, "IS NOT NULL", "IS NULL"),
    "no where": (1, " WHERE b IS NOT NULL", ""),
    "an expression": (1, "DESC, b", "DESC, lower(b)"),
    "a literal of a view": (2, "'Tool'", "'tool'"),
    "event of a trigger": (3, "UPDATE OF b ON", "UPDATE ON"),
    "condition of a trigger": (3, "IS NOT new", "IS new"),
    "body of a trigger": (3, "id = 1", "id = 2"),
    "tokenizer": (4, "'id')", "'id', tokenize='trigram')"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_counts_changes_the_lines(name: str) -> None:
    place, old, new = CHANGES[name]
    assert old in PLAIN[place]
    changed = [text.replace(old, new) if place == each else text for each, text in enumerate(PLAIN)]
    driver = installed()[0]
    assert lines_of(driver, *changed) != lines_of(driver, *PLAIN)


def test_expressions_of_an_index_are_told_apart_by_their_place() -> None:
    lines = lines_of(
        installed()[0],
        "CREATE TABLE a (b, c)",
        "CREATE INDEX i ON a (coalesce(b, c) DESC, lower(c), b) WHERE (b IN (1, 2))",
    )
    assert "i: index on a (coalesce ( b , c ) desc, lower ( c ), b) where ( b in ( 1 , 2 ) )" in lines


def test_on_delete_of_an_inline_key_and_the_key_that_is_meant() -> None:
    lines = lines_of(
        installed()[0],
        "CREATE TABLE a (id TEXT PRIMARY KEY)",
        "CREATE TABLE b (x TEXT REFERENCES a ON DELETE CASCADE ON UPDATE SET NULL)",
    )
    assert "b: foreign key (x) to a (id) on delete cascade on update set null" in lines


def test_shadow_tables_and_those_of_sqlite_are_left_out() -> None:
    lines = lines_of(
        installed()[0], "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT)", "CREATE VIRTUAL TABLE f USING fts5(b)"
    )
    assert {line.partition(":")[0] for line in lines} == {"a", "a.id", "f"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 'It''s  A' ;", "select 'It''s  A'"),
        ('SELECT "a b", "Plain", [X]', 'select "a b" , plain , x'),
        ("SELECT 1 -- it's a note\n, 2", "select 1 , 2"),
        ("SELECT a!=b||c", "select a != b || c"),
        ("SELECT x'AB'", "select x'AB'"),
        # Only at the head of a CREATE statement.
        ("SELECT x IF NOT EXISTS y", "select x if not exists y"),
    ],
)
def test_one_spelling(sql: str, expected: str) -> None:
    assert normalised(sql) == expected
