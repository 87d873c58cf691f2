"""Texts that terminals, pipes and encodings stumble over."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from tests.cli.running import Run, command_line, run_apart
from tests.schema.inspecting import opened
from tests.support.drivers import Engine

ODD_IDS = [
    "🦊-session",
    'it\'s "quoted"',
    "-leading-dash",
    "--all",
    "with space",
    "per%cent_under",
    "a;DROP TABLE sessions",
    "../../etc/passwd",
    "back\\slash",
    "[bold]markup[/bold]",
    "数据库",
]
CONTROLS = "\x1b[31mred\x1b[0m \x07bell \x9b31m\x00nul\rreturn \x7f"
ANSI_FREE = ("\x1b", "\x07", "\x9b", "\x00", "\r", "\x7f")


def _safe(text: str) -> None:
    for character in ANSI_FREE:
        assert character not in text, repr(character)


@pytest.fixture
def odd(path: Path, any_engine: Engine) -> Path:
    """A store whose session has control characters wherever text can be; a file may come from anywhere."""
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message(
            "a",
            "user",
            f"docker {CONTROLS}",
            reasoning=CONTROLS,
            tool_calls=[{"id": "c", "function": {"name": CONTROLS, "arguments": CONTROLS}}],
        )
        db.append_message("a", f"role {CONTROLS}", "docker")
        db.append_message("a", "user", [{"type": "text", "text": f"docker {CONTROLS}"}])
    with opened(path, any_engine.driver) as raw:
        raw.execute("UPDATE sessions SET title = ?, model = ?, source = ?, end_reason = ?", (CONTROLS,) * 4)
        raw.execute("INSERT INTO sessions (id, source, started_at) VALUES (?, 'cli', 1.0)", (f"id {CONTROLS}",))
    return path


@pytest.mark.parametrize("session_id", ODD_IDS)
def test_a_session_of_any_id_is_listed_shown_renamed_and_exported(
    run: Run, path: Path, any_engine: Engine, session_id: str
) -> None:
    with SessionDB(path) as db:
        db.create_session(session_id, "cli")
        db.append_message(session_id, "user", "an ocelot")
    assert run("--json", "sessions", "list").data().json[0]["id"] == session_id
    assert run("sessions", "list").data().lines[1].startswith(session_id)
    assert run("--json", "sessions", "show", "--", session_id).data().json["id"] == session_id
    assert session_id in run("sessions", "show", "--", session_id).data().lines[1]
    assert session_id in run("sessions", "search", "ocelot").data().out
    assert run("sessions", "rename", "--", session_id, "-t").data().err == f"{session_id} is now '-t'\n"
    assert json.loads(run("sessions", "export", f"--session={session_id}", "-o", "-").data().out)["title"] == "-t"
    run("sessions", "show", "--", session_id + "?").refused(1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions", "list"),
        ("sessions", "show", "a"),
        ("sessions", "show", "--all", "a"),
        ("sessions", "search", "docker"),
        ("sessions", "search", "--explain", "docker"),
        ("sessions", "show", f"id {CONTROLS}"),
        ("sessions", "show", f"none {CONTROLS}"),
        ("sessions", "search", f"docker {CONTROLS}"),
        ("sessions", "rename", f"id {CONTROLS}", "New"),
        ("sessions", "rename", "a", f"New {CONTROLS}"),
        ("sessions", "list", "--limit", CONTROLS),
        ("sessions", f"no {CONTROLS}"),
        ("db", "info"),
    ],
    ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode()[:40],
)
def test_no_control_character_reaches_the_terminal(run: Run, odd: Path, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert ran.code in {0, 1, 2}
    _safe(ran.out)
    _safe(ran.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions", "list"),
        ("sessions", "show", "a"),
        ("sessions", "search", "docker"),
        ("sessions", "export", "-o", "-"),
    ],
    ids=" ".join,
)
def test_json_keeps_every_character_and_escapes_what_a_terminal_would_obey(
    run: Run, odd: Path, arguments: tuple[str, ...]
) -> None:
    ran = run("--json", *arguments).data()
    documents = [json.loads(line) for line in ran.lines]
    assert "\x1b[31mred" in str(documents) or "\\x1b[31mred" in str(documents)
    for character in "\x1b\x07\x00\r":
        assert character not in ran.out


def test_a_title_with_line_breaks_stays_on_its_line(run: Run, odd: Path, any_engine: Engine) -> None:
    with opened(odd, any_engine.driver) as raw:
        raw.execute("UPDATE sessions SET title = 'one' || char(10) || 'two' WHERE id = 'a'")
    assert run("sessions", "list").data().out.count("\n") == 3


def _structured(path: Path, text: str) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", [{"type": "text", "text": text}])
        db.append_message("a", "assistant", "plain", tool_calls=[{"id": text}], reasoning_details=[text])


@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "\udcff", "pair \ud83e\udd8a"], ids=["high", "low", "pair"])
def test_lone_surrogates_in_structured_content(run: Run, path: Path, any_engine: Engine, text: str) -> None:
    _structured(path, text)
    run("sessions", "list").data()
    assert "plain" in run("sessions", "show", "a").data().out
    assert run("--json", "sessions", "show", "a").data().json["id"] == "a"
    assert run("--json", "sessions", "search", "plain").data().json
    exported = json.loads(run("sessions", "export", "-o", "-").data().out)
    with SessionDB(path, read_only=True) as db:
        assert exported["messages"][0]["content"] == db.get_messages("a")[0]["content"]


def test_lone_surrogates_through_a_process(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    _structured(path, "lone \ud800 surrogate")
    target = tmp_path / "out.jsonl"
    for arguments in (
        ("sessions", "show", "a"),
        ("--json", "sessions", "show", "a"),
        ("sessions", "export", "-o", target),
    ):
        run_apart(*arguments, db=path).data()
    assert (
        json.loads(target.read_text(encoding="utf-8"))["messages"][0]["content"][0]["text"] == "lone \ud800 surrogate"
    )


def test_bytes_as_content(run: Run, path: Path, any_engine: Engine) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", b"\xff\x00raw")
        db.append_message("a", "user", "an ocelot")
    for arguments in (("sessions", "list"), ("sessions", "show", "a"), ("sessions", "search", "ocelot")):
        run(*arguments).data()
        run("--json", *arguments).data()
    exported = json.loads(run("sessions", "export", "-o", "-").data().out)
    assert exported["messages"][0]["content"] == {"$base64": "/wByYXc="}


@pytest.mark.parametrize("filler", ["word ", "部署的服务 "], ids=["english", "chinese"])
def test_a_message_of_two_megabytes(run: Run, path: Path, any_engine: Engine, filler: str) -> None:
    text = filler * (2_000_000 // len(filler.encode())) + " ocelot 数据湖"
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", text)
    assert len(run("sessions", "list").data().out) < 2_000
    for query in ("ocelot", "数据湖", "湖"):
        ran = run("sessions", "search", query).data()
        assert f">>>{query}<<<" in ran.out or query in ran.out
        assert len(ran.out) < 5_000
        assert len(run("--json", "sessions", "search", query).data().json) == 1
    assert text.split()[-1] in run("sessions", "show", "a").data().out
    assert run("--json", "sessions", "show", "a").data().json["messages"][0]["content"] == text
    assert json.loads(run("sessions", "export", "-o", "-").data().out)["messages"][0]["content"] == text


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions", "export", "-o", "-"),
        ("sessions", "list", "--limit", "5000"),
        ("sessions", "show", "long"),
        ("--json", "sessions", "list", "--limit", "5000"),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_seen_enough_is_no_failure(
    path: Path, any_engine: Engine, arguments: tuple[str, ...]
) -> None:
    with Store.open(path) as store, store.transaction() as unit:
        unit.create_session("long", "cli")
        for number in range(100):
            unit.append("long", "user", f"{number} " + "x" * 5000)
        for number in range(2500):
            unit.create_session(f"session-{number}", "cli")
    with subprocess.Popen(command_line(arguments, path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(10)
        running.stdout.close()
        said = running.stderr.read()
        assert (running.wait(timeout=60), said) == (0, b"")


LOCALES: dict[str, dict[str, str]] = {
    "C": {"LANG": "C", "LC_ALL": "C"},
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin": {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"},
}


@pytest.mark.parametrize("locale", ["ascii", "latin"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("sessions", "list"), "数据库迁移"),
        (("--json", "sessions", "list"), "数据库迁移"),
        (("sessions", "show", "alpha-one"), "部署的服务正常"),
        (("sessions", "export", "-o", "-"), "部署的服务正常"),
        (("sessions", "search", "docker"), ">>>docker<<<"),
        (("demo",), "数据库"),
    ],
    ids=["list", "json", "show", "export", "search", "demo"],
)
def test_chinese_comes_out_as_utf_8_whatever_the_locale(
    small: Path, locale: str, arguments: tuple[str, ...], text: str
) -> None:
    assert text in run_apart(*arguments, db=small, **LOCALES[locale]).data().out


@pytest.mark.parametrize(
    "arguments", [("sessions", "list"), ("sessions", "search", "数据库迁移的"), ("demo",)], ids=len
)
def test_the_locale_of_a_bare_machine_is_no_obstacle(small: Path, arguments: tuple[str, ...]) -> None:
    run_apart(*arguments, db=small, **LOCALES["C"]).data()


def test_talk_in_chinese_is_no_failure_in_any_locale(small: Path) -> None:
    for number, environment in enumerate(LOCALES.values()):
        ran: Any = run_apart("sessions", "rename", "beta", f"部署记录{number}", db=small, **environment)
        assert ran.code == 0, ran.err
        assert "beta is now" in ran.err
