"""Checking a file: copies alone are changed, and whatever a path holds, the answer is a result (rule TEST-1)."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.errors import OpenFailed
from hermes_store.maintenance import check_upgrade as module
from hermes_store.maintenance.check_upgrade import check_upgrade, find_snapshots
from hermes_store.maintenance.upgrade_child import peak_memory
from tests.schema.inspecting import change, files_of, opened
from tests.snapshots.build import build_version
from tests.support.drivers import Engine, installed


@pytest.fixture
def old(engine: Engine, tmp_path: Path) -> Path:
    """A small old file, alone in its folder."""
    path = tmp_path / "old" / "state.db"
    path.parent.mkdir()
    build_version(path, load_driver(engine.driver).module, 15, journal_mode=engine.journal_mode, sessions=3, turns=2)
    return path


def test_an_old_file_passes_and_stays_as_it_is(old: Path, home: Path) -> None:
    before = files_of(old)
    check = check_upgrade(old)
    assert check.problems == ()
    assert files_of(old) == before
    assert list(home.iterdir()) == []
    assert (check.path, check.stamp, check.sessions) == (old, 15, 3)
    assert check.report is not None
    assert check.report["adopted"] is True
    assert check.revision == check.report["revision"]
    assert check.seconds is not None
    assert check.seconds > 0
    if sys.platform == "linux":
        assert check.peak is not None
        assert 0 < check.peak < 500_000_000
    json.dumps(check.as_dict())


def test_copies_stay_in_a_folder_that_is_named(old: Path, tmp_path: Path) -> None:
    assert check_upgrade(old, tmp_path / "copies").ok
    assert (tmp_path / "copies" / "before" / "state.db").read_bytes()[:15] == b"SQLite format 3"
    with Store.open(tmp_path / "copies" / "after" / "state.db", create=False) as store:
        assert not store.report.changed


@pytest.mark.parametrize("driver", installed())
def test_content_that_stands_in_the_log_alone_is_checked_too(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", driver)
    live, old = tmp_path / "live.db", tmp_path / "old" / "state.db"
    old.parent.mkdir()
    build_version(live, load_driver(driver).module, 22, variant="late", journal_mode="wal", sessions=3, turns=2)
    with opened(live, driver) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        (session_id,) = connection.execute("SELECT id FROM sessions LIMIT 1").fetchone()
        connection.execute("CREATE TABLE in_the_log_alone (a)")
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', 'wombat', 1)", (session_id,)
        )
        # A reader that began here keeps the log from being folded in at the close of the writer.
        count = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
        for name in ("live.db", "live.db-wal"):
            # Another name of the same file would do; the connection is this driver's, and its locks no longer matter.
            shutil.copyfile(tmp_path / name, old.with_name(name.replace("live.db", "state.db")))
    assert files_of(old)["state.db-wal"]
    before = files_of(old)
    check = check_upgrade(old)
    assert check.problems == ()
    assert check.messages == count
    assert any("in_the_log_alone" in note for note in check.notes)
    assert files_of(old) == before


def test_a_hot_journal_is_played_back_on_the_copies(any_engine: Engine, tmp_path: Path) -> None:
    live, old = tmp_path / "live.db", tmp_path / "old" / "state.db"
    old.parent.mkdir()
    build_version(live, load_driver(any_engine.driver).module, 22, variant="late", sessions=3, turns=2)
    with opened(live, any_engine.driver) as connection:
        connection.execute("PRAGMA cache_size = 1")
        (count,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        connection.execute("BEGIN")
        connection.execute("UPDATE messages SET token_count = 1, reasoning = printf('%.5000c', 'x')")
        for name in ("live.db", "live.db-journal"):
            shutil.copyfile(tmp_path / name, old.with_name(name.replace("live.db", "state.db")))
        connection.execute("ROLLBACK")
    before = files_of(old)
    assert before["state.db-journal"]
    check = check_upgrade(old)
    assert check.problems == ()
    assert check.messages == count
    assert files_of(old) == before


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, but a text of some length\n" * 40)


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(8192))


def _foreign(path: Path) -> None:
    change(path, installed()[0], "CREATE TABLE invoices (id, total)")


def _torn(path: Path) -> None:
    build_version(path, load_driver(installed()[0]).module, 22, variant="late", sessions=3, turns=2)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "garbage": (_garbage, "is not a database"),
    "zeroed": (_zeroed, "begins with zero bytes"),
    "empty": (Path.touch, "is empty"),
    "foreign": (_foreign, "of another program"),
    "torn": (_torn, ""),
    "a folder": (Path.mkdir, "is a folder"),
    "a pipe": (os.mkfifo, "no ordinary file"),
    "missing": (lambda path: None, "no session store"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_store_is_a_failed_check(any_engine: Engine, tmp_path: Path, home: Path, name: str) -> None:
    make, expected = BROKEN[name]
    path = tmp_path / "broken" / "state.db"
    path.parent.mkdir()
    make(path)
    before = files_of(path)
    check = check_upgrade(path)
    assert not check.ok
    assert expected in " ".join(check.problems)
    assert "Traceback" not in " ".join(check.problems)
    assert files_of(path) == before
    assert list(home.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_a_failed_check(old: Path) -> None:
    old.chmod(0)
    check = check_upgrade(old)
    assert [problem for problem in check.problems if "cannot be read" in problem]


def test_a_file_that_is_open_here_is_a_failed_check(any_engine: Engine, path: Path) -> None:
    with Store.open(path):
        (problem,) = check_upgrade(path).problems
    assert "is open in this process" in problem
    assert check_upgrade(path).ok


def test_an_upgrade_that_dies_is_a_failed_check(
    any_engine: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path).close()
    script = tmp_path / "dies"
    script.write_text(f"#!{sys.executable}\nimport os\nos.kill(os.getpid(), 9)\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    assert check_upgrade(path).problems == ("the upgrade ended with signal 9: it said nothing",)


def test_a_snapshot_that_changes_meanwhile_is_a_failed_check(
    any_engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path).close()

    def meddle(*_: object) -> tuple[list[str], list[str]]:
        path.write_bytes(path.read_bytes() + b"x")
        return [], []

    monkeypatch.setattr(module, "search_problems", meddle)
    assert check_upgrade(path).problems == ("the snapshot itself changed while its copy was checked",)


def test_a_part_of_the_check_that_breaks_is_a_problem_and_the_others_run(
    any_engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path).close()

    def breaks(*_: object) -> tuple[list[str], list[str]]:
        raise RuntimeError("out of order")

    monkeypatch.setattr(module, "search_problems", breaks)
    check = check_upgrade(path)
    assert check.problems == ("search: RuntimeError: out of order",)
    assert check.revision is not None


def test_the_gateway_file_beside_a_snapshot_counts_and_the_one_of_the_home_does_not(
    any_engine: Engine, tmp_path: Path, home: Path
) -> None:
    path = tmp_path / "old" / "state.db"
    path.parent.mkdir()
    build_version(path, load_driver(any_engine.driver).module, 17, variant="late", sessions=3, turns=2)
    with opened(path, any_engine.driver) as connection:
        (session_id,) = connection.execute("SELECT id FROM sessions WHERE chat_type IS NULL LIMIT 1").fetchone()
    entry = json.dumps({"a-key": {"session_id": session_id, "chat_type": "dm"}})
    (home / "sessions").mkdir()
    (home / "sessions" / "sessions.json").write_text(entry, encoding="utf-8")
    assert "gateway columns filled" not in {each.name for each in check_upgrade(path).exceptions}
    (path.parent / "sessions").mkdir()
    (path.parent / "sessions" / "sessions.json").write_text(entry, encoding="utf-8")
    check = check_upgrade(path)
    assert check.problems == ()
    assert "gateway columns filled" in {each.name for each in check.exceptions}


def test_a_link_is_checked_with_the_log_of_what_it_leads_to(any_engine: Engine, path: Path, tmp_path: Path) -> None:
    Store.open(path).close()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    check = check_upgrade(link)
    assert (check.path, check.problems) == (link, ())


@pytest.mark.parametrize("name", ["a b#c?.db", "数据库.db", "%41.db", "file:x.db"])
def test_any_name_of_a_file_will_do(any_engine: Engine, tmp_path: Path, name: str) -> None:
    Store.open(tmp_path / name).close()
    assert check_upgrade(tmp_path / name).problems == ()


def test_folders_give_their_databases_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("v10.db", "v2.db", "v1.db", "notes.txt", "v1.db-wal"):
        (tmp_path / name).touch()
    (tmp_path / "folder.db").mkdir()
    assert [path.name for path in find_snapshots([tmp_path])] == ["v1.db", "v2.db", "v10.db"]
    named = [tmp_path / "notes.txt", tmp_path / "v2.db"]
    assert find_snapshots(named) == named


def test_the_name_of_one_file_does_not_keep_the_others_from_being_found(tmp_path: Path) -> None:
    # A digit that is no decimal number, and a link to itself.
    (tmp_path / "v².db").touch()
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    assert {path.name for path in find_snapshots([tmp_path])} == {"v².db", "loop.db"}
    assert not check_upgrade(tmp_path / "loop.db").ok


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("recognise", RuntimeError("odd")),
        ("copy_snapshot", ValueError("odd")),
        ("header_of", MemoryError("odd")),
    ],
)
def test_whatever_goes_wrong_is_a_problem_of_the_file(
    any_engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    Store.open(path).close()

    def breaks(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, place, breaks)
    assert check_upgrade(path).problems == (f"{type(error).__name__}: odd",)


@pytest.mark.parametrize("answer", ["[]", "5", "{}", "null", "no JSON"])
def test_an_upgrade_that_answers_with_nonsense_is_a_failed_check(
    any_engine: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    Store.open(path).close()
    script = tmp_path / "answers"
    script.write_text(f"#!{sys.executable}\nprint({answer!r})\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    assert check_upgrade(path).problems == ("the upgrade ended with exit code 0: it said nothing",)


def test_nothing_is_imported_from_the_current_folder(
    any_engine: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path).close()
    place = tmp_path / "ci"
    place.mkdir()
    for name in ("json.py", "alembic.py", "sqlalchemy.py", "hermes_store.py", "sitecustomize.py"):
        (place / name).write_text(f"open('executed', 'a').write({name!r})\nraise SystemExit(3)\n", encoding="utf-8")
    monkeypatch.chdir(place)
    # As for `python -m`, and for a console that was left in a file.
    monkeypatch.syspath_prepend("")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    assert check_upgrade(path).problems == ()
    assert not (place / "executed").exists()


def test_what_stands_in_pythonpath_counts(
    any_engine: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path).close()
    place = tmp_path / "own"
    place.mkdir()
    (place / "sitecustomize.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(place))
    assert check_upgrade(path).problems == ()
    assert (tmp_path / "loaded").exists()


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_that_holds_nothing_to_check_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(OpenFailed, match="there is no"):
        find_snapshots([tmp_path / name])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's report is read there")
def test_the_peak_of_memory_grows_with_what_is_held() -> None:
    before = peak_memory()
    block = bytearray(256 << 20)
    block[::4096] = bytes(len(block) // 4096)
    after = peak_memory()
    assert before is not None
    assert after is not None
    assert after >= len(block)
