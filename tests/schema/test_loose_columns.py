"""Columns that old releases added without NOT NULL and default: NULL in them hides nothing (SCHEMA-11)."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.fts.layouts import is_broad
from hermes_store.testing import check_upgrade
from tests.schema.inspecting import change, describe_file, master, meta, opened, rows
from tests.snapshots.build import build_version
from tests.snapshots.story import Story
from tests.support.drivers import Engine

LOOSE = {
    "sessions": ("rewind_count", "archived", "pinned", "compression_fallback_streak"),
    "messages": ("active", "compacted"),
}
"""Columns that a file of version 13 does not have, by table."""


@pytest.fixture
def story(path: Path, engine: Engine) -> Story:
    story = build_version(path, load_driver(engine.driver).module, 13, journal_mode=engine.journal_mode)
    for table, columns in LOOSE.items():
        change(path, engine.driver, *(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER" for column in columns))
    return story


def _nulls(path: Path, engine: Engine) -> int:
    with opened(path, engine.driver) as raw:
        return sum(
            rows(raw, f"SELECT count(*) FROM {table} WHERE {column} IS NULL")[0][0]
            for table, columns in LOOSE.items()
            for column in columns
        )


def test_what_is_null_becomes_the_default_and_nothing_is_hidden(path: Path, engine: Engine, story: Story) -> None:
    expected = _nulls(path, engine)
    assert expected > 0
    with SessionDB(path) as db:
        assert db.store.report.rows_repaired == expected
        listed = {each["id"] for each in db.list_sessions_rich(limit=100, include_children=True)}
        assert listed == set(story.session_ids)
        assert [len(db.get_messages(each)) for each in story.session_ids] == [
            story.rows[each] for each in story.session_ids
        ]
    assert _nulls(path, engine) == 0
    with Store.open(path) as store:
        assert not store.report.changed


def test_a_writer_that_leaves_such_a_column_out_is_healed_at_the_next_open(
    path: Path, engine: Engine, story: Story
) -> None:
    Store.open(path).close()
    change(path, engine.driver, "INSERT INTO sessions (id, source, started_at) VALUES ('late', 'cli', 1.0)")
    assert _nulls(path, engine) == len(LOOSE["sessions"])
    with SessionDB(path) as db:
        assert db.store.report.rows_repaired == len(LOOSE["sessions"])
        assert "late" in {each["id"] for each in db.list_sessions_rich(limit=100)}


def test_the_definitions_and_the_triggers_stay(path: Path, engine: Engine, story: Story) -> None:
    with opened(path, engine.driver) as raw:
        triggers = {row for row in master(raw) if row[0] == "trigger"}
    assert any(is_broad(row[3] or "") for row in triggers)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert {row for row in master(raw) if row[0] == "trigger"} == triggers
        assert "hermes_store_fingerprint" not in meta(raw)
    found = describe_file(path, engine.driver)
    for table, columns in LOOSE.items():
        loose = {column.name for column in found[table].columns if not column.not_null}
        assert set(columns) <= loose


def test_the_upgrade_check_explains_it(path: Path, engine: Engine, story: Story) -> None:
    check = check_upgrade(path)
    assert check.problems == ()
    assert {"active repaired", "default filled"} <= {each.name for each in check.exceptions}
