"""Files of later releases are opened, read and written in place: nothing of theirs is lowered, changed or lost."""

import re
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.database.connection import Connection, connect
from hermes_store.fts.layouts import Layout, layouts, objects
from tests.schema.inspecting import change, describe_all, master, meta, opened, rows
from tests.snapshots.checking import index_faults
from tests.snapshots.newer import FORMS, LAYOUTS, STAMPS, Newer, build_newer, prompt_hash
from tests.upgrade.files import (
    NEW_WORDS,
    check_quiet,
    found,
    golden_faults,
    holders,
    kept,
    module_of,
    upgrade,
    use,
    values,
)

FILES = [
    (stamp, form, layout) for stamp in STAMPS for form in FORMS for layout in LAYOUTS if stamp == 30 or layout == "1"
]
EVERY = pytest.mark.parametrize(("stamp", "form", "layout"), FILES)
BY_HASH = pytest.mark.parametrize(
    ("stamp", "form", "layout"), [(25, "born", "1"), (25, "upgraded", "1"), (30, "born", "3"), (30, "upgraded", "2")]
)
PROMPTS = "SELECT hash, prompt FROM system_prompts ORDER BY hash"


def _build(path: Path, driver: str, stamp: int, form: str, layout: str) -> Newer:
    return build_newer(path, module_of(driver), stamp, form=form, layout=layout)


@EVERY
def test_it_opens_and_everything_of_it_stays(path: Path, driver: str, stamp: int, form: str, layout: str) -> None:
    newer = _build(path, driver, stamp, form, layout)
    with opened(path, driver) as raw:
        before = master(raw)
        tables = describe_all(raw)
    with kept(path, driver):
        report = upgrade(path)
    assert (report.adopted, report.stamp, report.revision, report.revisions_run) == (True, stamp, "0023", ())
    assert (report.keys_healed, report.search_rebuilt, report.search_pending) == ((), (), ())
    with opened(path, driver) as raw:
        after = master(raw)
        now = describe_all(raw)
        assert rows(raw, "SELECT version FROM schema_version") == [(stamp,)]
        assert meta(raw)["fts_storage_version"] == layout
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]
        assert rows(raw, "PRAGMA foreign_key_check") == []
        assert index_faults(raw, newer.story.session_ids[0]) == []
    # Nothing is gone; of what was there, only tables may have got columns, at their ends.
    assert {each[:3] for each in before} <= {each[:3] for each in after}
    assert {each for each in before if each[0] in {"index", "view"}} <= after
    if stamp > 25:
        assert {each for each in before if each[0] == "trigger"} <= after
    for name, table in tables.items():
        assert now[name].columns[: len(table.columns)] == table.columns
        assert (table.foreign_keys, set(table.indexes)) <= (now[name].foreign_keys, set(now[name].indexes))
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)


@EVERY
def test_it_is_searched_and_written(path: Path, driver: str, stamp: int, form: str, layout: str) -> None:
    newer = _build(path, driver, stamp, form, layout)
    story = newer.story
    with SessionDB(path) as db:
        for words in (story.english, story.chinese, story.other_scripts, story.tool_only, story.call_only):
            for word, owners in words.items():
                assert holders(db, word) == set(owners), word
        assert newer.long_id in found(db, newer.long_word) or layout == "3"
        db.create_session("new", "cli", system_prompt="a prompt of today")
        row_id = db.append_message("new", "tool", "an axolotl 数据湖 部署" + " pad" * 3000 + " okapi", tool_name="t")
        parts = db.append_message("new", "user", [{"type": "text", "text": "数据湖 axolotl"}])
        assert {row_id, parts} <= set(found(db, "axolotl"))
        assert db.delete_session("new")
        assert found(db, "axolotl") == []
    use(path, story.session_ids[0])
    with opened(path, driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(stamp,)]
        assert meta(raw)["fts_storage_version"] == layout
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]
        assert rows(raw, "PRAGMA foreign_key_check") == []
        assert index_faults(raw, story.session_ids[1]) == []
    check_quiet(path, driver)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_keeps_the_columns_that_it_has(path: Path, driver: str, layout: str) -> None:
    newer = _build(path, driver, 30, "born", layout)
    upgrade(path)
    use(path, newer.story.session_ids[0])
    connection = Connection(connect(path, driver=driver), load_driver(driver))
    try:
        kinds = {index.name: kind for index, kind in layouts(objects(connection)).items()}
    finally:
        connection.close()
    current, unknown = Layout.CURRENT, Layout.UNKNOWN
    words = unknown if layout == "3" else current
    assert kinds == {"messages_fts": words, "messages_fts_trigram": current if layout == "1" else unknown}


@pytest.mark.parametrize("layout", ["2", "3"])
@pytest.mark.parametrize("trigger", ["messages_fts_insert", "messages_fts_trigram_delete"])
def test_a_trigger_that_a_later_layout_lacks_is_not_made_in_our_form(
    path: Path, driver: str, layout: str, trigger: str
) -> None:
    """Writing goes on, whatever the trigger would have said: it is for those to mend who know the layout."""
    newer = _build(path, driver, 30, "born", layout)
    change(path, driver, f"DROP TRIGGER {trigger}")
    with SessionDB(path) as db:
        row_id = db.append_message(newer.story.session_ids[0], "user", "an axolotl 数据湖 部署")
        assert {word: row_id in found(db, word) for word in NEW_WORDS} == dict.fromkeys(NEW_WORDS, True)
        assert db.delete_session(newer.story.session_ids[1])
    named = values(path, driver, "SELECT sql FROM sqlite_master WHERE name = ?", trigger)
    is_current = layout == "2" and "trigram" not in trigger
    assert bool(named) == is_current
    check_quiet(path, driver)


def test_a_trigger_of_later_releases_is_not_narrowed_or_replaced(path: Path, driver: str) -> None:
    _build(path, driver, 30, "born", "1")
    statement = "SELECT sql FROM sqlite_master WHERE name = 'messages_fts_trigram_insert'"
    ((text,),) = values(path, driver, statement)
    changed = re.sub(r"WHEN\s", "WHEN new.session_id NOT LIKE 'cron%' AND ", text, count=1)
    assert changed != text
    change(path, driver, "DROP TRIGGER messages_fts_trigram_insert", changed)
    upgrade(path)
    assert values(path, driver, statement) == [(changed,)]
    check_quiet(path, driver)


# -- prompts ----------------------------------------------------------------------------------------------------


@BY_HASH
@pytest.mark.parametrize("read_only", [False, True])
def test_prompts_are_shown_wherever_sessions_are(
    path: Path, driver: str, stamp: int, form: str, layout: str, read_only: bool
) -> None:
    newer = _build(path, driver, stamp, form, layout)
    before = path.read_bytes()
    with SessionDB(path, read_only=read_only) as db:
        exported = {each["id"]: each for each in db.export_all()}
        listed = {each["id"]: each for each in db.list_sessions_rich(limit=100)}
        for name, prompt in newer.prompts.items():
            shown = db.get_session(name)
            assert shown is not None
            assert (shown["system_prompt"], shown["system_prompt_hash"]) == (prompt, prompt_hash(prompt))
            one = db.export_session(name)
            assert one is not None
            assert (one["system_prompt"], exported[name]["system_prompt"]) == (prompt, prompt)
        assert {each["system_prompt"] for each in listed.values() if "system_prompt" in each} <= set(
            newer.prompts.values()
        )
    if read_only:
        assert path.read_bytes() == before


@BY_HASH
def test_the_table_of_prompts_is_left_to_those_who_keep_it(
    path: Path, driver: str, stamp: int, form: str, layout: str
) -> None:
    newer = _build(path, driver, stamp, form, layout)
    before = values(path, driver, PROMPTS)
    first, second, *_ = newer.story.session_ids
    with SessionDB(path) as db:
        db.create_session("new", "cli", system_prompt="a prompt of today")
        assert _prompt(db, "new") == "a prompt of today"
        assert db.delete_session(first)
        assert db.delete_session(second)
    assert values(path, driver, PROMPTS) == before
    held = values(path, driver, "SELECT system_prompt, system_prompt_hash FROM sessions WHERE id = 'new'")
    assert held == [("a prompt of today", None)]


def _prompt(db: SessionDB, name: str) -> Any:
    shown = db.get_session(name)
    assert shown is not None
    return shown["system_prompt"]


@BY_HASH
@pytest.mark.parametrize("prompt", [None, "another prompt"])
def test_a_session_that_is_there_keeps_the_prompt_of_its_hash(
    path: Path, driver: str, stamp: int, form: str, layout: str, prompt: str | None
) -> None:
    newer = _build(path, driver, stamp, form, layout)
    name = newer.story.session_ids[0]
    with SessionDB(path) as db:
        db.create_session(name, "cli", system_prompt=prompt)
        assert _prompt(db, name) == newer.prompts[name]
    with SessionDB(path) as db:
        assert _prompt(db, name) == newer.prompts[name]


@BY_HASH
def test_a_hash_that_names_nothing_shows_the_prompt_beside_it(
    path: Path, driver: str, stamp: int, form: str, layout: str
) -> None:
    newer = _build(path, driver, stamp, form, layout)
    first, second, third, *_ = newer.story.session_ids
    change(
        path,
        driver,
        f"UPDATE sessions SET system_prompt_hash = 'nowhere', system_prompt = 'inline' WHERE id = '{first}'",
        f"UPDATE sessions SET system_prompt_hash = NULL, system_prompt = 'inline too' WHERE id = '{second}'",
        f"UPDATE sessions SET system_prompt_hash = NULL, system_prompt = NULL WHERE id = '{third}'",
    )
    for read_only in (False, True):
        with SessionDB(path, read_only=read_only) as db:
            assert [_prompt(db, each) for each in (first, second, third)] == ["inline", "inline too", None]


def test_an_empty_prompt_is_one(path: Path, driver: str) -> None:
    newer = _build(path, driver, 25, "born", "1")
    name = newer.story.session_ids[0]
    change(
        path,
        driver,
        f"INSERT INTO system_prompts VALUES ('{prompt_hash('')}', '')",
        f"UPDATE sessions SET system_prompt_hash = '{prompt_hash('')}' WHERE id = '{name}'",
    )
    with SessionDB(path) as db:
        assert _prompt(db, name) == ""


def test_a_handle_learns_of_prompts_when_it_opens(path: Path, driver: str) -> None:
    """A file of today that a later release has upgraded meanwhile."""
    with Store.open(path) as store, store.transaction() as unit:
        unit.create_session("s", "cli", system_prompt="inline")
    change(
        path,
        driver,
        "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL)",
        "INSERT INTO system_prompts VALUES ('h', 'by hash')",
        "ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT",
        "UPDATE sessions SET system_prompt_hash = 'h', system_prompt = NULL",
        "UPDATE schema_version SET version = 25",
    )
    with SessionDB(path) as db:
        assert _prompt(db, "s") == "by hash"
    assert values(path, driver, "SELECT version FROM schema_version") == [(25,)]
    check_quiet(path, driver)
