"""`hermes-store sessions optimize-storage`: asking first, refusing without space, and saying what was won (CLI-3)."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes_store import Store
from hermes_store.cli import optimize as command
from hermes_store.errors import DiskFull
from hermes_store.maintenance import optimize as optimize_module
from hermes_store.maintenance.optimize import is_optimize_available
from tests.cli.running import Run, files_of
from tests.fts.helpers import assert_settled, build_old
from tests.schema.inspecting import opened, rows
from tests.search.helpers import lame_driver
from tests.support.drivers import Engine

Type = Callable[[str], None]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize_module, "MIN_PAUSE", 0)
    monkeypatch.setattr(optimize_module, "DUTY", 0)


@pytest.fixture
def old(path: Path, any_engine: Engine) -> Engine:
    """A file of version 22 at `path`, closed; the engine that wrote it."""
    build_old(path, any_engine)
    return any_engine


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Type:
    """What stands on stdin."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def _free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, free))


def _texts(path: Path, engine: Engine) -> list[Any]:
    with opened(path, engine.driver) as raw:
        return rows(raw, "SELECT id, session_id, role, content, tool_calls, timestamp FROM messages ORDER BY id")


def _is_old(path: Path) -> bool:
    with Store.open(path) as store:
        return is_optimize_available(store)


def test_it_says_what_it_did(run: Run, path: Path, old: Engine) -> None:
    before = _texts(path, old)
    ran = run("sessions", "optimize-storage", "--yes").data()
    assert ran.out == ""
    assert [line for line in ran.err.splitlines() if "MiB" not in line] == [
        "filling the indexes",
        "removing the old indexes",
        "giving back the space",
        "done",
    ]
    assert "MiB before" in ran.err.splitlines()[-1]
    assert _texts(path, old) == before
    assert_settled(path, old)


def test_as_json(run: Run, path: Path, old: Engine) -> None:
    ran = run("--json", "sessions", "optimize-storage", "-y").data()
    answer = ran.json
    assert answer["size_after"] < answer["size_before"]
    del answer["size_after"], answer["size_before"]
    assert answer == {"path": str(path), "outcome": "ok", "reason": None, "vacuumed": True}
    again = run("--json", "sessions", "optimize-storage").data()
    assert again.json["outcome"] == "nothing to do"


def test_without_a_vacuum(run: Run, path: Path, old: Engine) -> None:
    ran = run("--json", "sessions", "optimize-storage", "--yes", "--no-vacuum").data()
    assert ran.json["vacuumed"] is None
    assert "giving back" not in ran.err
    assert_settled(path, old)


def test_a_file_of_today_is_left_as_it_is_without_a_question(run: Run, small: Path) -> None:
    before = files_of(small)
    ran = run("sessions", "optimize-storage").data()
    assert "nothing to do" in ran.err
    assert "?" not in ran.err
    assert files_of(small) == before


@pytest.mark.parametrize("answer", ["y\n", "yes\n", " YES \n", "Y"])
def test_yes_is_yes(run: Run, path: Path, old: Engine, type_in: Type, answer: str) -> None:
    type_in(answer)
    assert "[y/N]" in run("sessions", "optimize-storage").data().err
    assert_settled(path, old)


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "yep\n", "yes please\n"])
@pytest.mark.parametrize("as_json", [False, True])
def test_anything_else_is_no_and_changes_nothing(
    run: Run, path: Path, old: Engine, type_in: Type, answer: str, as_json: bool
) -> None:
    before = files_of(path)
    type_in(answer)
    ran = run(*(["--json"] if as_json else []), "sessions", "optimize-storage")
    assert ran.code == 1
    assert "Cancelled." in ran.err
    assert (ran.json["outcome"] if as_json else ran.out) == ("cancelled" if as_json else "")
    assert files_of(path) == before


def test_without_any_stdin_the_answer_is_no(run: Run, old: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run("sessions", "optimize-storage").code == 1


@pytest.mark.parametrize(
    ("options", "share", "runs"),
    [((), 1.0, True), ((), 0.99, False), (("--no-vacuum",), 0.31, True), (("--no-vacuum",), 0.29, False)],
)
def test_the_space_that_is_needed(
    run: Run,
    path: Path,
    old: Engine,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    share: float,
    runs: bool,
) -> None:
    _free(monkeypatch, int(path.stat().st_size * share))
    before = files_of(path)
    ran = run("--json", "sessions", "optimize-storage", "--yes", *options)
    assert ran.json["outcome"] == ("ok" if runs else "no space")
    assert ran.code == (0 if runs else 3)
    assert ("of free space are needed" in ran.err) is not runs
    assert (files_of(path) == before) is not runs


def test_where_nobody_knows_the_free_space_it_runs(
    run: Run, path: Path, old: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> Any:
        raise OSError

    monkeypatch.setattr(shutil, "disk_usage", fail)
    run("sessions", "optimize-storage", "--yes").data()
    assert_settled(path, old)


def test_a_large_file_is_announced(run: Run, old: Engine, monkeypatch: pytest.MonkeyPatch, type_in: Type) -> None:
    type_in("no\n")
    assert "may take a while" not in run("sessions", "optimize-storage").err
    monkeypatch.setattr(command, "LARGE", 1000)
    for in_memory in (True, False):
        monkeypatch.setattr(command, "vacuums_in_memory", lambda connection, answer=in_memory: answer)
        assert "may take a while" in run("sessions", "optimize-storage").err
        assert ("MiB of it" in run("sessions", "optimize-storage").err) is in_memory
        assert "MiB of it" not in run("sessions", "optimize-storage", "--no-vacuum").err


def test_an_interrupted_run_says_that_the_next_one_goes_on(
    run: Run, path: Path, old: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "vacuum", interrupt)
        ran = run("sessions", "optimize-storage", "--yes")
    assert ran.code == 1
    assert "no message is lost" in ran.err
    run("sessions", "optimize-storage", "--yes").data()
    Store.open(path).close()
    assert_settled(path, old)


def test_a_vacuum_that_fails_is_said(run: Run, old: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise DiskFull

    monkeypatch.setattr(Store, "vacuum", full)
    ran = run("--json", "sessions", "optimize-storage", "--yes").data()
    assert ran.json["vacuumed"] is False
    assert "could not be made smaller" in ran.err


def test_without_fts5_it_says_so(run: Run, path: Path, old: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        lame_driver(patch, has_fts5=False, has_trigram=False)
        ran = run("--json", "sessions", "optimize-storage", "--yes")
    assert (ran.code, ran.json["reason"]) == (1, "fts5_unavailable")
    assert _is_old(path)


def test_a_missing_file_is_not_made(run: Run, path: Path) -> None:
    run("sessions", "optimize-storage", "--yes").refused(1, str(path))
    assert not path.exists()
