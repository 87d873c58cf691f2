"""Where SQLite has no full-text search, old files are upgraded, written and searched, and indexed later."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from hermes_store.fts.query import Route
from tests.schema.inspecting import meta, opened
from tests.search.helpers import lame_driver
from tests.snapshots.facts import message
from tests.upgrade.files import NEW_WORDS, check_quiet, check_sound, found, kept, marks, upgrade, use, values
from tests.upgrade.told import INDEXES, SAID, WORDS, indexed, tables, tell, triggers

VERSIONS = pytest.mark.parametrize("version", [1, 9, 10, 16, 19, 22, 23])
FTS5, TRIGRAM = {"has_fts5": False, "has_trigram": False}, {"has_trigram": False}


def _append(path: Path) -> int:
    with SessionDB(path) as db:
        return db.append_message("a", "user", "an axolotl 数据湖 部署")


@VERSIONS
def test_without_fts5_the_triggers_go_and_everything_is_scanned_for(
    path: Path, driver: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(path, driver, version)
    before = tables(path, driver)
    with monkeypatch.context() as patch:
        lame_driver(patch, **FTS5)
        with kept(path, driver, but=["sessions.model_config"]):
            report = upgrade(path)
        assert (report.adopted, report.search_rebuilt, report.search_pending) == (True, (), ())
        assert triggers(path, driver) == {}
        assert tables(path, driver).items() >= before.items()
        assert values(path, driver, "SELECT version FROM schema_version") == [(23,)]
        row_id = _append(path)
        with SessionDB(path) as db:
            assert not db.store.report.changed
            with db.store.reader() as reader:
                assert {reader.search.plan(word).route for word in NEW_WORDS} == {Route.SCAN}
            assert {word: found(db, word) for word in NEW_WORDS} == {key: [row_id] for key in NEW_WORDS}
            assert found(db, "zebra") == [1]
            db.append_message("a", "tool", "gone again")
            assert db.set_session_title("a", "named")
    assert "fts_rebuild_high_water" not in marks(path, driver)


@VERSIONS
@pytest.mark.parametrize("lacks", [FTS5, TRIGRAM], ids=["fts5", "trigram"])
def test_what_was_written_meanwhile_is_indexed_when_it_comes_back(
    path: Path, driver: str, version: int, lacks: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(path, driver, version)
    with monkeypatch.context() as patch:
        lame_driver(patch, **lacks)
        row_id = _append(path)
        with SessionDB(path) as db:
            db.append_message("a", "user", "short lived")
            assert {word: found(db, word) for word in NEW_WORDS} == {key: [row_id] for key in NEW_WORDS}
        with opened(path, driver) as raw:
            raw.execute("DELETE FROM messages WHERE id IN (1, ?)", (row_id + 1,))
            raw.execute("UPDATE messages SET content = 'a narwhal' WHERE id = 3")
    report = upgrade(path)
    assert "messages_fts_trigram" in report.search_rebuilt
    assert ("messages_fts" in report.search_rebuilt) or lacks is TRIGRAM
    assert len(triggers(path, driver)) == 6
    words = ("axolotl", "narwhal", "zebra", "giraffe", "数据湖")
    has_tools = version < 23
    for index in INDEXES:
        expected = dict(zip(words, ([row_id], [3], [], [], [row_id]), strict=True))
        if index == "messages_fts_trigram" and not has_tools:
            expected["narwhal"] = []
        if index == "messages_fts":
            del expected["数据湖"]
        assert indexed(path, driver, index, list(expected)) == expected
    check_sound(path, driver, "a")
    check_quiet(path, driver)
    expected_marks = {"fts_optimize_available": "1"} if version < 23 else {"fts_storage_version": "1"}
    assert marks(path, driver) == expected_marks
    use(path, "a")


@VERSIONS
def test_without_the_trigram_tokenizer_the_index_of_words_goes_on(
    path: Path, driver: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(path, driver, version)
    lame_driver(monkeypatch, **TRIGRAM)
    report = upgrade(path)
    assert report.search_rebuilt == ()
    assert set(triggers(path, driver)) == {f"messages_fts_{event}" for event in ("insert", "delete", "update")}
    row_id = _append(path)
    assert indexed(path, driver, "messages_fts", ["axolotl"]) == {"axolotl": [row_id]}
    with SessionDB(path) as db:
        assert not db.store.report.changed
        assert {word: found(db, word) for word in NEW_WORDS} == {key: [row_id] for key in NEW_WORDS}
        # Neither is the index of words filled again at every open.
        assert indexed(path, driver, "messages_fts", WORDS)["zebra"] == [1]


@pytest.mark.parametrize("lacks", [FTS5, TRIGRAM], ids=["fts5", "trigram"])
def test_a_new_file_is_indexed_when_it_comes_back(
    path: Path, driver: str, lacks: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lame_driver(patch, **lacks)
        with SessionDB(path) as db:
            db.create_session("a", "cli")
        row_id = _append(path)
    assert "messages_fts_trigram" not in tables(path, driver)
    report = upgrade(path)
    assert set(report.search_rebuilt) == ({*INDEXES} if lacks is FTS5 else {"messages_fts_trigram"})
    for index in INDEXES:
        assert indexed(path, driver, index, ["axolotl"]) == {"axolotl": [row_id]}
    assert marks(path, driver) == {"fts_storage_version": "1"}
    check_sound(path, driver, "a")
    check_quiet(path, driver)


def test_a_runtime_that_comes_and_goes_changes_nothing_of_the_messages(
    path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(path, driver, 22, said=[*SAID, message("a", "\0json:[]", id=4)])
    with kept(path, driver):
        for lacks in (FTS5, {}, TRIGRAM, FTS5, {}, FTS5, {}):
            with monkeypatch.context() as patch:
                if lacks:
                    lame_driver(patch, **lacks)
                upgrade(path)
                check_quiet(path, driver)
    with opened(path, driver) as raw:
        assert meta(raw)["fts_optimize_available"] == "1"
    check_sound(path, driver, "a")
