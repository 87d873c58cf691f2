"""`sessions export`: one session a line, whole or not at all."""

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_store.cli import sessions as commands
from hermes_store.errors import CorruptStore
from hermes_store.portability.export import json_line
from tests.cli.running import Run, files_of
from tests.snapshots.hermes_v23 import Story


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_session_is_a_line_with_its_live_messages(run: Run, story: Story, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    ran = run("sessions", "export", "-o", target).data()
    exported = _lines(target.read_text(encoding="utf-8"))
    assert {each["id"] for each in exported} == set(story.session_ids)
    assert {each["id"]: len(each["messages"]) for each in exported} == story.active_rows
    assert ran.out == ""
    assert ran.err == f"exported 14 sessions with {sum(story.active_rows.values())} messages to {target}\n"
    assert "数据库迁移" in target.read_text(encoding="utf-8")


def test_stdout_carries_the_same_lines_and_nothing_else(run: Run, story: Story, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    run("sessions", "export", "-o", target).data()
    ran = run("sessions", "export", "-o", "-").data()
    assert ran.out == target.read_text(encoding="utf-8")
    assert ran.err.startswith("exported 14 sessions")
    assert run("--json", "sessions", "export", "-o", "-").data().out == ran.out


def test_one_session_by_the_beginning_of_its_id(run: Run, story: Story) -> None:
    (only,) = _lines(run("sessions", "export", "--session", story.session_ids[3][:-1], "-o", "-").data().out)
    assert only["id"] == story.session_ids[3]
    assert [each["id"] for each in only["messages"]] == list(story.summary_ids)


def test_one_platform(run: Run, story: Story) -> None:
    exported = _lines(run("sessions", "export", "--source", "slack", "-o", "-").data().out)
    assert len(exported) == 2
    assert {each["source"] for each in exported} == {"slack"}


def test_json_says_what_was_written(run: Run, story: Story, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    ran = run("--json", "sessions", "export", "-o", target).data()
    assert ran.json == {"sessions": 14, "messages": sum(story.active_rows.values()), "output": str(target)}
    assert ran.err == ""


def test_structured_content_comes_out_as_it_went_in(run: Run, story: Story) -> None:
    (only,) = _lines(run("sessions", "export", "--session", story.session_ids[7], "-o", "-").data().out)
    contents = {each["id"]: each["content"] for each in only["messages"]}
    assert story.structured_id is not None
    assert contents[story.structured_id] == story.structured_content


def test_an_older_file_is_replaced(run: Run, small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old\n", encoding="utf-8")
    run("sessions", "export", "-o", target).data()
    assert len(_lines(target.read_text(encoding="utf-8"))) == 3


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.ENOSPC, "No space left on device"), CorruptStore("database disk image is malformed")],
    ids=["disk full", "damaged store"],
)
@pytest.mark.parametrize("existed", [True, False])
def test_a_failure_midway_leaves_what_was_there(
    run: Run, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, existed: bool
) -> None:
    target = tmp_path / "out.jsonl"
    if existed:
        target.write_text("old\n", encoding="utf-8")
    before = files_of(small)
    _fail_after_one_line(monkeypatch, failure)
    run("sessions", "export", "-o", target).refused(3 if isinstance(failure, CorruptStore) else 1, failure.args[-1])
    assert files_of(small) == before


def test_an_interruption_midway_leaves_what_was_there(
    run: Run, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old\n", encoding="utf-8")
    before = files_of(small)
    _fail_after_one_line(monkeypatch, KeyboardInterrupt())
    ran = run("sessions", "export", "-o", target)
    assert (ran.code, ran.out, "Traceback" in ran.err) == (1, "", False)
    assert files_of(small) == before


def _fail_after_one_line(monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    written: list[str] = []

    def fail_later(exported: dict[str, Any]) -> str:
        if written:
            raise failure
        written.append(exported["id"])
        return json_line(exported)

    monkeypatch.setattr(commands, "json_line", fail_later)


@pytest.mark.parametrize("name", ["folder", "state.db", "linked.db", "missing/out.jsonl", "file.txt/out.jsonl", ""])
def test_a_target_that_cannot_be_is_refused_and_nothing_changes(
    run: Run, small: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked.db").symlink_to(small)
    (tmp_path / "file.txt").write_text("old\n", encoding="utf-8")
    before = files_of(small)
    run("sessions", "export", "-o", tmp_path / name if name else "").refused(1)
    assert files_of(small) == before
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_the_sidecars_of_the_store_are_no_target(run: Run, small: Path, suffix: str) -> None:
    target = small.with_name(small.name + suffix)
    run("sessions", "export", "-o", target).refused(1, "the store")


def test_an_unknown_session_writes_no_file(run: Run, small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    run("sessions", "export", "--session", "nobody", "-o", target).refused(1, "'nobody'")
    assert not target.exists()
    run("sessions", "export", "--session", "nobody", "-o", "-").refused(1, "'nobody'")


def test_a_store_without_sessions_exports_no_lines(run: Run, small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    run("sessions", "export", "--source", "nowhere", "-o", target).data()
    assert target.read_bytes() == b""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_to_and_stays_a_pipe(run: Run, story: Story, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    run("sessions", "export", "-o", pipe).data()
    reader.join()
    assert len(_lines(read[0])) == len(story.session_ids)
    assert pipe.is_fifo()


def test_a_link_stays_a_link(run: Run, story: Story, tmp_path: Path) -> None:
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(target)
    run("sessions", "export", "-o", link).data()
    assert link.is_symlink()
    assert len(_lines(target.read_text(encoding="utf-8"))) == len(story.session_ids)
