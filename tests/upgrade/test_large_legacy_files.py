"""Above the limit opening fills no old index: it is marked, everything is found by scanning, and writing goes on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.fts import indexes
from hermes_store.fts.query import Route
from hermes_store.maintenance.optimize import optimize_storage
from tests.schema.inspecting import change, meta, opened, rows
from tests.snapshots.build import build_version, plan_of
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.history import step_of
from tests.snapshots.story import Story
from tests.support.clocks import FakeClock
from tests.upgrade.files import (
    NEW_WORDS,
    check_quiet,
    check_sound,
    found,
    golden_faults,
    holders,
    kept,
    marks,
    module_of,
    upgrade,
    values,
)
from tests.upgrade.told import INDEXES, triggers

PARTIAL = "hermes_store_fts_partial"
EVENTS = ("insert", "delete", "update")


def _drop(index: str, *events: str) -> tuple[str, ...]:
    return tuple(f"DROP TRIGGER {index}_{event}" for event in events)


SICK: dict[str, tuple[int, tuple[str, ...]]] = {
    **{f"v{version}": (version, ()) for version in (1, 4, 6, 9)},
    "v9_no_insert": (9, _drop("messages_fts", "insert")),
    "v10_no_insert": (10, _drop("messages_fts", "insert")),
    "v10_no_trigram_delete": (10, _drop("messages_fts_trigram", "delete")),
    "v10_no_trigrams": (10, (*_drop("messages_fts_trigram", *EVENTS), "DROP TABLE messages_fts_trigram")),
    "v16_no_insert": (16, _drop("messages_fts", "insert")),
    "v16_no_update": (16, _drop("messages_fts_trigram", "update")),
    "v22_no_triggers": (22, (*_drop("messages_fts", *EVENTS), *_drop("messages_fts_trigram", *EVENTS))),
    "v22_no_words": (22, (*_drop("messages_fts", *EVENTS), "DROP TABLE messages_fts")),
    "v22_nothing": (
        22,
        (*_drop("messages_fts", *EVENTS), *_drop("messages_fts_trigram", *EVENTS), "DROP TABLE messages_fts",
         "DROP TABLE messages_fts_trigram"),
    ),
}  # fmt: skip
"""Files whose old indexes would have to be filled: the version, and what is taken away."""

MIXED = [name for name in DAMAGES if name.startswith(("mixed_", "missing_", "refilled", "inline_update"))]


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file of more than 50 messages were a large one."""
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", 50)


def _build(path: Path, driver: str, version: int, statements: Sequence[str]) -> Story:
    story = build_version(path, module_of(driver), version, sessions=14, turns=2)
    change(path, driver, *statements)
    return story


@pytest.mark.parametrize("name", SICK)
def test_nothing_is_filled_and_everything_is_found(path: Path, driver: str, name: str) -> None:
    version, statements = SICK[name]
    story = _build(path, driver, version, statements)
    with kept(path, driver, but=["sessions.model_config"]):
        report = upgrade(path)
    assert report.search_rebuilt == ()
    # Without any index there is no old layout either.
    is_new = name == "v22_nothing"
    with opened(path, driver) as raw:
        assert (meta(raw).get(PARTIAL), meta(raw).get("fts_rebuild_high_water")) == (
            (None, str(story.message_rows)) if is_new else ("1", None)
        )
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]
    assert report.search_pending == INDEXES
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)
    told = plan_of(step_of(max(version, 11))).story
    with SessionDB(path) as db:
        with db.store.reader() as reader:
            assert {reader.search.plan(word).route for word in NEW_WORDS} == {Route.SCAN}
        for words in (story.english, story.chinese, story.other_scripts, story.tool_only):
            for word, owners in words.items():
                assert holders(db, word) == set(owners), word
        assert {word for word in told.call_only if not holders(db, word)} == set()


@pytest.mark.parametrize("name", [*SICK, *MIXED])
def test_messages_are_written_changed_and_deleted(path: Path, driver: str, name: str) -> None:
    story = _build(path, driver, *SICK[name]) if name in SICK else DAMAGES[name].make(module_of(driver), path).story
    first, second = story.session_ids[:2]
    with SessionDB(path) as db:
        row_id = db.append_message(first, "user", "an axolotl 数据湖 部署")
        assert {word: row_id in found(db, word) for word in NEW_WORDS} == dict.fromkeys(NEW_WORDS, True)
        old = db.get_messages(first)[0]["id"]
        db.store.write(
            lambda unit: unit.connection.sql(
                "UPDATE messages SET content = 'a narwhal', tool_calls = NULL WHERE id IN (?, ?)", (row_id, old)
            )
        )
        assert set(found(db, "narwhal")) == {row_id, old}
        assert found(db, "axolotl") == []
        db.clear_messages(second)
        assert db.delete_session(first)
        assert found(db, "narwhal") == []
    assert values(path, driver, "PRAGMA integrity_check") == [("ok",)]
    check_quiet(path, driver)


@pytest.mark.parametrize("name", SICK)
def test_changing_the_layout_makes_it_whole(path: Path, one_driver: str, name: str) -> None:
    story = _build(path, one_driver, *SICK[name])
    with SessionDB(path) as db:
        db.append_message(story.session_ids[0], "user", "an axolotl 数据湖 部署")
        db.clear_messages(story.session_ids[1])
    with Store.open(path, clock=FakeClock()) as store:
        assert optimize_storage(store, vacuum=False).ok
    check_sound(path, one_driver, story.session_ids[0])
    assert marks(path, one_driver)["fts_storage_version"] == "1"
    with SessionDB(path) as db:
        with db.store.reader() as reader:
            assert reader.search.plan("axolotl").route is Route.WORDS
        for words in (story.english, story.chinese):
            for word, owners in words.items():
                assert set(owners) - {story.session_ids[1]} <= holders(db, word)


@pytest.mark.parametrize("version", [10, 11, 16, 22, 23])
def test_a_large_file_that_lacks_nothing_is_left_alone(path: Path, driver: str, version: int) -> None:
    story = _build(path, driver, version, ())
    before = triggers(path, driver)
    report = upgrade(path)
    assert (report.search_rebuilt, report.search_pending) == ((), ())
    assert triggers(path, driver).keys() == before.keys()
    assert version == 23 or triggers(path, driver) == before
    check_sound(path, driver, story.session_ids[0])
    with SessionDB(path) as db, db.store.reader() as reader:
        assert reader.search.plan("axolotl").route is Route.WORDS


def test_a_file_that_shrinks_below_the_limit_is_filled_by_the_next_open_that_looks(path: Path, driver: str) -> None:
    story = _build(path, driver, *SICK["v9"])
    upgrade(path)
    with SessionDB(path) as db:
        for name in story.session_ids[1:]:
            db.clear_messages(name)
    # A change of the schema makes the next open look.
    change(path, driver, "CREATE TABLE stranger (x)")
    assert set(upgrade(path).search_rebuilt) == set(INDEXES)
    with opened(path, driver) as raw:
        assert PARTIAL not in meta(raw)
    check_sound(path, driver, story.session_ids[0])


@pytest.mark.parametrize("version", [9, 16])
def test_the_limit_is_a_number_of_messages(
    path: Path, driver: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = _build(path, driver, version, _drop("messages_fts", "insert"))
    for limit, is_filled in ((story.message_rows - 1, False), (story.message_rows, True)):
        copy = path.with_name(f"{limit}.db")
        copy.write_bytes(path.read_bytes())
        monkeypatch.setattr(indexes, "REBUILD_LIMIT", limit)
        report = upgrade(copy)
        assert (bool(report.search_rebuilt), bool(report.search_pending)) == (is_filled, not is_filled)
