"""Whatever is wrong: one sentence on stderr, the right exit code, and every file as it was."""

import os
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from tests.cli.running import Run, files_of, run_apart
from tests.schema.inspecting import change, opened
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import Engine

READING = {
    "list": ("sessions", "list"),
    "show": ("sessions", "show", "a"),
    "search": ("sessions", "search", "docker"),
    "export": ("sessions", "export", "-o", "-"),
    "info": ("db", "info"),
}
EVERY = {**READING, "rename": ("sessions", "rename", "a", "New title")}

every_command = pytest.mark.parametrize("arguments", EVERY.values(), ids=EVERY)
reading_commands = pytest.mark.parametrize("arguments", READING.values(), ids=READING)
json_too = pytest.mark.parametrize("json", [(), ("--json",)], ids=["table", "json"])

NO_DATABASE = {
    "text": (b"just some notes\n" * 20, "is not a database"),
    "short text": (b"x", "is not a database"),
    "zeroed": (b"\0" * 8192, "zero bytes"),
    "empty": (b"", "0 bytes"),
}


@every_command
@json_too
def test_a_missing_file(run: Run, path: Path, arguments: tuple[str, ...], json: tuple[str, ...]) -> None:
    run(*json, *arguments).refused(1, f"no session store at {path}")
    assert list(path.parent.iterdir()) == []


@every_command
def test_a_missing_folder(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run(*arguments, db=tmp_path / "no" / "state.db").refused(1, "no session store")
    assert list(tmp_path.iterdir()) == []


@every_command
def test_a_missing_store_of_the_home(run: Run, home: Path, arguments: tuple[str, ...]) -> None:
    run(*arguments, db=None).refused(1, f"no session store at {home / 'state.db'}")
    assert list(home.iterdir()) == []


@every_command
def test_a_folder(run: Run, path: Path, arguments: tuple[str, ...]) -> None:
    path.mkdir()
    run(*arguments).refused(1, "is a folder")
    assert list(path.iterdir()) == []


@every_command
@pytest.mark.parametrize("kind", NO_DATABASE)
def test_a_file_that_is_no_database(run: Run, path: Path, kind: str, arguments: tuple[str, ...]) -> None:
    content, words = NO_DATABASE[kind]
    path.write_bytes(content)
    run(*arguments).refused(1, words)
    assert files_of(path) == {path.name: content}


@reading_commands
@pytest.mark.parametrize("kind", NO_DATABASE)
def test_looking_at_a_store_of_the_home_that_is_no_database_does_not_move_it(
    run: Run, home: Path, kind: str, arguments: tuple[str, ...]
) -> None:
    content, words = NO_DATABASE[kind]
    (home / "state.db").write_bytes(content)
    run(*arguments, db=None).refused(1, words)
    assert files_of(home / "state.db") == {"state.db": content}


@every_command
@pytest.mark.parametrize(
    "table",
    ["customers (id INTEGER)", "sessions (token TEXT)", "messages (id INTEGER, body TEXT)"],
    ids=lambda text: text.split()[0],
)
def test_a_database_of_another_program(
    run: Run, path: Path, any_engine: Engine, table: str, arguments: tuple[str, ...]
) -> None:
    change(path, any_engine.driver, f"CREATE TABLE {table}")
    before = files_of(path)
    run(*arguments).refused(1, "database of another program")
    assert files_of(path) == before


@every_command
def test_a_truncated_database(run: Run, small: Path, arguments: tuple[str, ...]) -> None:
    small.write_bytes(small.read_bytes()[:5000])
    before = files_of(small)
    run(*arguments).refused(3, "malformed")
    assert files_of(small) == before


@pytest.mark.parametrize("command", ["show", "rename", "export"])
@json_too
@pytest.mark.parametrize("session_id", ["nobody", "", "%", "_", "alpha_one", "alpha-one "])
def test_an_unknown_session(run: Run, small: Path, command: str, json: tuple[str, ...], session_id: str) -> None:
    before = files_of(small)
    arguments = {
        "show": ("show", session_id),
        "rename": ("rename", session_id, "New"),
        "export": ("export", "--session", session_id, "-o", "-"),
    }[command]
    run(*json, "sessions", *arguments).refused(1, repr(session_id))
    assert files_of(small) == before


@pytest.mark.parametrize(
    "arguments", [("show", "alpha"), ("rename", "alpha", "New"), ("export", "--session", "a", "-o", "-")]
)
def test_an_ambiguous_beginning(run: Run, small: Path, arguments: tuple[str, ...]) -> None:
    before = files_of(small)
    run("sessions", *arguments).refused(1, "several sessions begin with")
    assert files_of(small) == before


@pytest.mark.parametrize("query", ["", " ", "\t\n", '""', "***", "AND", "!?"])
@json_too
def test_an_empty_query(run: Run, small: Path, query: str, json: tuple[str, ...]) -> None:
    run(*json, "sessions", "search", query).refused(1)


def test_a_taken_title(run: Run, small: Path) -> None:
    before = files_of(small)
    run("sessions", "rename", "beta", "Taken").refused(1, "'Taken'", "alpha-two")
    assert files_of(small) == before


@pytest.mark.parametrize("title", ["x" * 101, "长" * 101])
def test_a_title_that_is_too_long(run: Run, small: Path, title: str) -> None:
    before = files_of(small)
    run("sessions", "rename", "beta", title).refused(1, "101", "100")
    assert files_of(small) == before


@pytest.mark.parametrize("denied", ["file", "folder"])
def test_a_file_that_may_not_be_written(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    before = files_of(small)
    target = small if denied == "file" else small.parent
    real = os.access

    def access(path: str | Path, mode: int) -> bool:
        return real(path, mode) and not (Path(path) == target and mode & os.W_OK)

    monkeypatch.setattr(os, "access", access)
    run("sessions", "rename", "beta", "New").refused(3, "not writable", "chmod")
    for arguments in (("list",), ("show", "beta"), ("search", "docker"), ("export", "-o", "-")):
        run("sessions", *arguments).data()
    assert files_of(small) == before


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everything")
def test_a_file_without_write_permission(run: Run, small: Path) -> None:
    small.chmod(0o400)
    run("sessions", "rename", "beta", "New").refused(3, "not writable")
    run("sessions", "list").data()


def test_a_file_with_an_odd_stamp_needs_an_action_before_it_is_written(
    run: Run, path: Path, any_engine: Engine
) -> None:
    story = build_v23(path, any_engine.driver, journal_mode="delete")
    change(path, any_engine.driver, "UPDATE schema_version SET version = 'abc'")
    before = files_of(path)
    run("sessions", "rename", story.session_ids[0], "New").refused(3, "'abc'", "UPDATE schema_version")
    assert len(run("--json", "sessions", "list").data().json) == len(story.session_ids)
    assert files_of(path) == before


def test_a_file_of_a_newer_release_needs_an_action_before_it_is_written(
    run: Run, small: Path, any_engine: Engine
) -> None:
    change(small, any_engine.driver, "UPDATE alembic_version SET version_num = '0042'")
    before = files_of(small)
    run("sessions", "rename", "beta", "New").refused(3, "0042", "update hermes-store")
    assert len(run("--json", "sessions", "list").data().json) == 3
    assert files_of(small) == before


def test_an_unknown_driver(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", "oracle")
    run("sessions", "list").refused(3, "'oracle'")
    monkeypatch.delenv("HERMES_STORE_SQLITE_DRIVER")
    monkeypatch.setenv("HERMES_STORE_JOURNAL_MODE", "memory")
    run("sessions", "list").refused(1, "HERMES_STORE_JOURNAL_MODE")


def test_a_store_that_somebody_else_is_writing(run: Run, small: Path, any_engine: Engine) -> None:
    """Readers never wait for a writer in WAL mode, and a writer's commit is not needed to read in DELETE mode."""
    with opened(small, any_engine.driver) as raw:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE sessions SET source = 'changed'")
        listed = run("--json", "sessions", "list").data().json
        raw.execute("ROLLBACK")
    assert {each["source"] for each in listed} == {"cli", "telegram"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("nonsense",),
        ("sessions", "nonsense"),
        ("sessions", "show"),
        ("sessions", "search"),
        ("sessions", "export"),
        ("sessions", "rename", "beta"),
        ("sessions", "list", "--limit", "-1"),
        ("sessions", "list", "--offset", "x"),
        ("sessions", "list", "--nonsense"),
        ("sessions", "export", "--session", "beta", "--source", "cli", "-o", "-"),
        ("db",),
        (),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_on_stderr(run: Run, small: Path, arguments: tuple[str, ...]) -> None:
    before = files_of(small)
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage:" in ran.err
    assert "Traceback" not in ran.err
    assert files_of(small) == before


@pytest.mark.parametrize(
    "arguments", [("--help",), ("sessions", "-h"), ("sessions", "search", "--help"), ("--version",)]
)
def test_help_is_data_and_no_failure(run: Run, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("sessions", "list"), 0), (("sessions", "show", "nobody"), 1), (("sessions", "nonsense"), 2)],
    ids=["ok", "failed", "usage"],
)
def test_a_process_ends_with_the_same_codes(small: Path, arguments: tuple[str, ...], code: int) -> None:
    ran = run_apart(*arguments, db=small)
    assert ran.code == code
    assert "Traceback" not in ran.err
    assert bool(ran.out) == (code == 0)


def test_a_process_that_needs_an_action_ends_with_three(small: Path, any_engine: Engine) -> None:
    change(small, any_engine.driver, "UPDATE alembic_version SET version_num = '0042'")
    run_apart("sessions", "rename", "beta", "New", db=small).refused(3)


@pytest.mark.parametrize(
    "name", ["hash#mark.db", "question?.db", "per%20cent.db", "空格 空.db", "quote'.db", "-dash.db"]
)
def test_the_name_of_a_file_may_be_odd(run: Run, tmp_path: Path, any_engine: Engine, name: str) -> None:
    path = tmp_path / name
    with SessionDB(path) as db:
        db.create_session("a", "cli")
    assert [each["id"] for each in run("--json", "sessions", "list", db=path).data().json] == ["a"]
    assert run("--json", "db", "info", db=path).data().json["path"] == str(path.resolve())
    run("sessions", "list", db=tmp_path / f"no {name}").refused(1, "no session store")


def test_a_control_character_in_a_path_does_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    ran = run("sessions", "list", db=tmp_path / "a\x1b[31mb\nc.db")
    assert ran.code == 1
    assert "\x1b" not in ran.err
    assert ran.err.count("\n") == 1


def test_the_store_is_usable_after_every_refusal(run: Run, story: Story, path: Path) -> None:
    run("sessions", "rename", story.session_ids[0], "x" * 101).refused(1)
    run("sessions", "rename", "nobody", "New").refused(1)
    run("sessions", "rename", story.session_ids[0], "New").data()
    with Store.open(path) as store, store.reader() as reader:
        assert reader.titles.find(story.session_ids[0]) == "New"
