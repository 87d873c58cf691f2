"""The transcript files of sessions that are gone go too, by their literal names (rule DELETE-2)."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.sessions.raw import STARTED, RawFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("{}")


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_the_files_of_every_session_that_is_gone(db: SessionDB, raw: RawFile, folder: Path) -> None:
    raw.session("root", end_reason="compression", ended_at=STARTED)
    raw.session("tip", parent_session_id="root")
    raw.session("run", model_config='{"_delegate_from": "tip"}')
    raw.session("other", parent_session_id="tip", source="tool")
    for session_id in ("root", "tip", "run", "other"):
        touch(folder, f"{session_id}.json", f"{session_id}.jsonl", f"request_dump_{session_id}_1.json")
    touch(folder, "tip.txt", "tip2.json", "xtip.json", "request_dump_tip.json", "request_dump_tip_1.txt")
    assert db.delete_session("tip", sessions_dir=folder) is True
    assert names(folder) == {
        "other.json", "other.jsonl", "request_dump_other_1.json", "tip.txt", "tip2.json", "xtip.json",
        "request_dump_tip.json", "request_dump_tip_1.txt",
    }  # fmt: skip


def test_files_stay_without_a_folder_or_without_a_deletion(db: SessionDB, raw: RawFile, folder: Path) -> None:
    raw.session("a")
    touch(folder, "a.json", "nobody.json")
    db.delete_session("nobody", sessions_dir=folder)
    db.delete_session("a", sessions_dir=folder, expected_delete_ids=[])
    assert names(folder) == {"a.json", "nobody.json"}
    db.delete_session("a")
    assert names(folder) == {"a.json", "nobody.json"}


@pytest.mark.parametrize("session_id", ["*", "a*", "?", "[ab]", "a[!b]", "{a}", "a b", "部署", "-", "a\\b"])
def test_characters_of_patterns_are_literal(db: SessionDB, folder: Path, session_id: str) -> None:
    db.create_session(session_id, "cli")
    own = {f"{session_id}.json", f"{session_id}.jsonl", f"request_dump_{session_id}_x.json"}
    others = {"a.json", "b.jsonl", "ab.json", "request_dump_a_1.json", "request_dump_ab_1.json"}
    touch(folder, *own, *others)
    assert db.delete_session(session_id, sessions_dir=folder) is True
    assert names(folder) == others


@pytest.mark.parametrize("session_id", ["../victim", "sub/victim", "sub/../victim", "/", "", ".", "..", "x/"])
def test_an_id_never_leads_out_of_the_folder(db: SessionDB, folder: Path, session_id: str) -> None:
    (folder / "sub").mkdir()
    touch(folder.parent, "victim.json", "victim.jsonl", "request_dump_victim_1.json")
    touch(folder / "sub", "victim.json")
    touch(folder, "victim.json", "request_dump__1.json")
    outside = set(folder.parent.glob("*.json*"))
    before = names(folder)
    db.create_session(session_id, "cli")
    assert db.delete_session(session_id, sessions_dir=folder) is True
    assert set(folder.parent.glob("*.json*")) == outside
    assert names(folder) == before


@pytest.mark.parametrize("session_id", ["x" * 5000, "lone \ud800", "line\nfeed"])
def test_an_id_that_names_no_file_is_no_error(db: SessionDB, folder: Path, session_id: str) -> None:
    touch(folder, "other.json")
    db.create_session(session_id, "cli")
    assert db.delete_session(session_id, sessions_dir=folder) is True
    assert db.get_session(session_id) is None
    assert names(folder) == {"other.json"}


def test_a_missing_folder_is_no_error(db: SessionDB, tmp_path: Path) -> None:
    db.create_session("a", "cli")
    assert db.delete_session("a", sessions_dir=tmp_path / "missing") is True
    assert not (tmp_path / "missing").exists()


def test_a_file_that_cannot_be_removed_is_no_error(
    db: SessionDB, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db.create_session("a", "cli")
    (folder / "a.json").mkdir()
    touch(folder, "a.jsonl")
    assert db.delete_session("a", sessions_dir=folder) is True
    assert names(folder) == set()
    assert db.get_session("a") is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_folder_given_as_text(db: SessionDB, folder: Path) -> None:
    db.create_session("a", "cli")
    touch(folder, "a.json")
    assert db.delete_session("a", sessions_dir=str(folder)) is True  # type: ignore[arg-type]
    assert names(folder) == set()


def test_pruning_removes_files_too(db: SessionDB, raw: RawFile, folder: Path) -> None:
    raw.session("old", ended_at=STARTED, end_reason="x", started_at=5.0)
    raw.session("live")
    touch(folder, "old.json", "old.jsonl", "request_dump_old_1.json", "live.json")
    assert db.prune_sessions(1, sessions_dir=folder) == 1
    assert names(folder) == {"live.json"}
