"""What a gateway kept in `sessions/sessions.json` beside the database moves into it, and odd entries do no harm."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.snapshots.build import build_version
from tests.snapshots.facts import add, session
from tests.snapshots.story import Row
from tests.upgrade.files import check_quiet, module_of, upgrade, values

COLUMNS = ("session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json", "expiry_finalized")
NOTHING = dict.fromkeys(COLUMNS[:-1]) | {"expiry_finalized": 0}
ORIGIN: dict[str, Any] = {"platform": "telegram", "chat_id": "55", "chat_name": "Müller 部署", "thread_id": 7}
FULL: dict[str, Any] = {
    "session_id": "s",
    "session_key": "entry-key",
    "chat_type": "dm",
    "display_name": "Mira",
    "origin": ORIGIN,
    "expiry_finalized": True,
}
FILLED = {
    "session_key": "entry-key",
    "chat_id": "55",
    "chat_type": "dm",
    "thread_id": "7",
    "display_name": "Mira",
    "origin_json": json.dumps(ORIGIN),
    "expiry_finalized": 1,
}


def _file(path: Path, driver: str, *rows: Row, version: int = 17) -> None:
    """A file with the sessions `s` and `t`, and these."""
    path.parent.mkdir(exist_ok=True)
    build_version(path, module_of(driver), version, sessions=1, turns=1)
    add(path, module_of(driver), {"sessions": [session("s"), session("t"), *rows]})


def _beside(path: Path, content: bytes) -> Path:
    folder = path.parent / "sessions"
    folder.mkdir(exist_ok=True)
    target = folder / "sessions.json"
    target.write_bytes(content)
    return target


def _json_beside(path: Path, entries: object) -> Path:
    return _beside(path, json.dumps(entries).encode())


def _columns(path: Path, driver: str, name: str) -> dict[str, Any]:
    ((*row,),) = values(path, driver, f"SELECT {', '.join(COLUMNS)} FROM sessions WHERE id = ?", name)
    return dict(zip(COLUMNS, row, strict=True))


def test_an_entry_fills_what_is_empty(path: Path, driver: str) -> None:
    _file(path, driver)
    target = _json_beside(path, {"key": FULL})
    before = target.read_bytes()
    upgrade(path)
    assert _columns(path, driver, "s") == FILLED
    assert _columns(path, driver, "t") == NOTHING
    assert target.read_bytes() == before
    check_quiet(path, driver)


@pytest.mark.parametrize("version", [1, 10, 15, 17])
def test_files_of_every_age_below_18_are_filled(path: Path, one_driver: str, version: int) -> None:
    _file(path, one_driver, version=version)
    _json_beside(path, {"key": FULL})
    upgrade(path)
    assert _columns(path, one_driver, "s") == FILLED


@pytest.mark.parametrize("version", [18, 22, 23])
def test_later_files_are_not(path: Path, one_driver: str, version: int) -> None:
    _file(path, one_driver, version=version)
    _json_beside(path, {"key": FULL})
    upgrade(path)
    assert _columns(path, one_driver, "s") == NOTHING


def test_what_is_filled_stays(path: Path, driver: str) -> None:
    kept = {"session_key": "old", "chat_id": "", "chat_type": "group", "thread_id": "2"}
    _file(path, driver, session("old", **kept))
    _json_beside(path, {"key": FULL | {"session_id": "old"}})
    upgrade(path)
    assert _columns(path, driver, "old") == FILLED | kept


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"session_key": ""}, {"session_key": "key"}),
        ({"session_key": None}, {"session_key": "key"}),
        ({"session_key": {"no": "text"}}, {"session_key": "key"}),
        ({"session_key": 5}, {"session_key": "5"}),
        ({"chat_type": {"no": "text"}}, {"chat_type": None}),
        ({"chat_type": ["dm"]}, {"chat_type": None}),
        ({"chat_type": 3}, {"chat_type": "3"}),
        ({"display_name": "Müller 部署 \U0001f600"}, {"display_name": "Müller 部署 \U0001f600"}),
        ({"display_name": ["x"]}, {"display_name": None}),
        ({"display_name": 2**80}, {"display_name": str(2**80)}),
        ({"expiry_finalized": False}, {"expiry_finalized": 0}),
        ({"expiry_finalized": None, "memory_flushed": 1}, {"expiry_finalized": 1}),
        ({"expiry_finalized": [], "memory_flushed": "yes"}, {"expiry_finalized": 1}),
        ({"origin": None}, {"chat_id": None, "thread_id": None, "origin_json": None}),
        ({"origin": "telegram"}, {"chat_id": None, "thread_id": None, "origin_json": None}),
        ({"origin": ["telegram"]}, {"chat_id": None, "thread_id": None, "origin_json": None}),
        ({"origin": {}}, {"chat_id": None, "thread_id": None, "origin_json": "{}"}),
        ({"origin": {"chat_id": -100123, "thread_id": None}},
         {"chat_id": "-100123", "thread_id": None, "origin_json": '{"chat_id": -100123, "thread_id": null}'}),
        ({"origin": {"chat_id": {"x": 1}, "thread_id": [2]}},
         {"chat_id": None, "thread_id": None, "origin_json": '{"chat_id": {"x": 1}, "thread_id": [2]}'}),
        ({"origin": {"chat_id": "部署", "thread_id": ""}},
         {"chat_id": "部署", "thread_id": "", "origin_json": '{"chat_id": "\\u90e8\\u7f72", "thread_id": ""}'}),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_passed_over(
    path: Path, one_driver: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    _file(path, one_driver)
    _json_beside(path, {"key": FULL | changes, "later": {"session_id": "t", "chat_type": "channel"}})
    upgrade(path)
    assert _columns(path, one_driver, "s") == FILLED | expected
    assert _columns(path, one_driver, "t") == NOTHING | {"session_key": "later", "chat_type": "channel"}


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("_version", FULL),
        ("_", FULL),
        ("key", ["no", "object"]),
        ("key", "text"),
        ("key", None),
        ("key", 5),
        ("key", {}),
        ("key", FULL | {"session_id": ""}),
        ("key", FULL | {"session_id": None}),
        ("key", FULL | {"session_id": 0}),
        ("key", FULL | {"session_id": ["s"]}),
        ("key", FULL | {"session_id": {"id": "s"}}),
        ("key", FULL | {"session_id": "nobody"}),
        ("key", FULL | {"session_id": "S"}),
        ("key", FULL | {"session_id": 2**90}),
        ("key", FULL | {"session_id": 1e308}),
    ],
)
def test_an_entry_that_cannot_be_used_is_passed_over(path: Path, one_driver: str, key: str, entry: object) -> None:
    _file(path, one_driver)
    _json_beside(path, {key: entry, "later": {"session_id": "t", "chat_type": "channel"}})
    upgrade(path)
    assert _columns(path, one_driver, "s") == NOTHING
    assert _columns(path, one_driver, "t")["chat_type"] == "channel"


def test_a_number_names_the_session_of_that_text(path: Path, one_driver: str) -> None:
    _file(path, one_driver, session("42"))
    _json_beside(path, {"": FULL | {"session_id": 42, "session_key": ""}})
    upgrade(path)
    assert _columns(path, one_driver, "42") == FILLED | {"session_key": ""}


@pytest.mark.parametrize("field", ["session_key", "chat_type", "display_name"])
def test_lone_surrogates_are_replaced(path: Path, one_driver: str, field: str) -> None:
    _file(path, one_driver)
    _json_beside(path, {"key": FULL | {field: "a\ud800b"}, "k\udfff": {"session_id": "t"}})
    upgrade(path)
    assert _columns(path, one_driver, "s") == FILLED | {field: "a?b"}
    assert _columns(path, one_driver, "t")["session_key"] == "k?"


def test_a_surrogate_in_the_origin_is_kept_as_its_escape(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    _json_beside(path, {"key": FULL | {"origin": {"chat_name": "\ud800", "chat_id": "\ud800"}}})
    upgrade(path)
    assert _columns(path, one_driver, "s")["origin_json"] == '{"chat_name": "\\ud800", "chat_id": "\\ud800"}'
    assert _columns(path, one_driver, "s")["chat_id"] == "?"


def test_a_session_id_with_a_lone_surrogate_names_nobody(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    _json_beside(path, {"key": FULL | {"session_id": "\ud800"}, "later": {"session_id": "t"}})
    upgrade(path)
    assert _columns(path, one_driver, "t")["session_key"] == "later"


def test_of_two_entries_for_one_session_the_first_fills_and_the_other_adds(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    _json_beside(path, {"first": {"session_id": "s", "chat_type": "dm"}, "second": FULL})
    upgrade(path)
    assert _columns(path, one_driver, "s") == FILLED | {"session_key": "first"}


def test_an_expired_session_is_never_unexpired(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    _json_beside(path, {"a": FULL, "b": FULL | {"expiry_finalized": False}})
    upgrade(path)
    assert _columns(path, one_driver, "s")["expiry_finalized"] == 1


# -- the file itself --------------------------------------------------------------------------------------------

GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "text": b"nothing of the kind",
    "half": b'{"key": {"session_id": "s"',
    "list": b'[{"session_id": "s"}]',
    "null": b"null",
    "number": b"5",
    "latin": '{"key": {"session_id": "s", "display_name": "Müller"}}'.encode("latin-1"),
    "utf16": '{"key": {"session_id": "s"}}'.encode("utf-16"),
    "deep": b'{"key": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "nul": b"\0" * 4096,
    "sqlite": b"SQLite format 3\0",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_file_that_cannot_be_read_keeps_nothing_from_being_upgraded(path: Path, one_driver: str, name: str) -> None:
    _file(path, one_driver)
    _beside(path, GARBAGE[name])
    report = upgrade(path)
    assert report.revisions_run[0] == "0018"
    assert _columns(path, one_driver, "s") == NOTHING
    assert values(path, one_driver, "SELECT version FROM schema_version") == [(23,)]


def test_a_byte_order_mark_and_a_number_that_nobody_can_hold_are_no_obstacle(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    text = json.dumps({"odd": {"session_id": "other", "chat_type": 0}, "key": FULL}).replace(
        " 0}", " " + "9" * 9999 + "}"
    )
    _beside(path, text.encode("utf-8-sig"))
    upgrade(path)
    assert _columns(path, one_driver, "s") != NOTHING


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_its_place_is_passed_over(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    (path.parent / "sessions").mkdir()
    os.mkfifo(path.parent / "sessions" / "sessions.json")
    upgrade(path)
    assert _columns(path, one_driver, "s") == NOTHING


def test_numbers_that_json_has_not_are_taken_as_they_are(path: Path, one_driver: str) -> None:
    _file(path, one_driver)
    odd = {"display_name": float("inf"), "origin": {"x": float("nan")}}
    _json_beside(path, {"key": {"session_id": "s", "chat_type": "dm"} | odd})
    upgrade(path)
    found = _columns(path, one_driver, "s")
    assert (found["session_key"], found["chat_type"]) == ("key", "dm")


def _missing(folder: Path) -> None:
    """No such file."""


def _a_folder(folder: Path) -> None:
    (folder / "sessions" / "sessions.json").mkdir(parents=True)


def _a_file_in_the_way(folder: Path) -> None:
    (folder / "sessions").write_text("no folder")


def _dangling(folder: Path) -> None:
    (folder / "sessions").mkdir()
    (folder / "sessions" / "sessions.json").symlink_to(folder / "nowhere")


def _loop(folder: Path) -> None:
    (folder / "sessions").mkdir()
    (folder / "sessions" / "sessions.json").symlink_to(folder / "sessions" / "sessions.json")


@pytest.mark.parametrize("make", [_missing, _a_folder, _a_file_in_the_way, _dangling, _loop])
def test_a_file_that_is_not_there_keeps_nothing_from_being_upgraded(
    path: Path, one_driver: str, make: Callable[[Path], None]
) -> None:
    _file(path, one_driver)
    make(path.parent)
    assert upgrade(path).revisions_run[0] == "0018"
    assert _columns(path, one_driver, "s") == NOTHING


def test_the_file_beside_the_database_counts_and_not_that_of_the_home(
    path: Path, one_driver: str, home: Path, tmp_path: Path
) -> None:
    _json_beside(home / "state.db", {"home": FULL | {"display_name": "wrong profile"}})
    profile = tmp_path / "other" / "state.db"
    _file(profile, one_driver)
    _json_beside(profile, {"key": FULL})
    _file(path, one_driver)
    for each in (profile, path):
        upgrade(each)
    assert _columns(profile, one_driver, "s") == FILLED
    assert _columns(path, one_driver, "s") == NOTHING


def test_a_link_to_the_database_leads_to_the_file_beside_it(path: Path, one_driver: str, tmp_path: Path) -> None:
    real = tmp_path / "profile" / "state.db"
    _file(real, one_driver)
    _json_beside(real, {"key": FULL})
    _json_beside(path, {"key": FULL | {"display_name": "beside the link"}})
    path.symlink_to(real)
    upgrade(path)
    assert _columns(real, one_driver, "s") == FILLED
