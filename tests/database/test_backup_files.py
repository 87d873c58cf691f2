"""The files around a copy that is made before an upgrade: under its name stands a whole copy, or nothing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import backup as backup_module
from hermes_store.errors import BackupFailed
from hermes_store.schema import pipeline
from tests.process.processes import ROOT, names
from tests.process.upgrading import Content, content, copy_of, make_old
from tests.support.drivers import Engine

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and limits of POSIX")


class Broken(Exception):
    """A step that fails."""


@pytest.fixture
def old(path: Path, engine: Engine) -> Content:
    """An old file at `path`, and what it holds."""
    make_old(path, engine, "v16")
    return content(path, engine)


def left(path: Path) -> set[str]:
    """What stands beside a file, its own sidecars and its lock left out."""
    return {each for each in names(path.parent) if not each.startswith(path.name)} | {
        each for each in names(path.parent) if each.startswith(f"{path.name}.before-upgrade")
    }


@pytest.fixture(params=[True, "kept.db"], ids=["beside", "named"])
def backup(request: pytest.FixtureRequest, path: Path) -> Path | bool:
    return True if request.param is True else path.with_name(request.param)


@pytest.mark.parametrize("fails", ["_copy", "_counts"])
@pytest.mark.parametrize("error", [Broken, OSError(28, "No space left on device"), KeyboardInterrupt])
def test_a_copy_that_fails_in_the_middle_leaves_nothing(
    path: Path,
    engine: Engine,
    old: Content,
    backup: Path | bool,
    fails: str,
    error: BaseException | type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[set[str]] = []

    def fail(*_: object) -> None:
        seen.append(left(path))
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(backup_module, fails, fail)
        with pytest.raises((Broken, BackupFailed, KeyboardInterrupt)):
            Store.open(path, backup=backup)
    ((draft,),) = seen
    assert draft.endswith(".part")
    assert left(path) == set()
    assert content(path, engine) == old


def test_a_copy_that_is_not_the_same_is_none(
    path: Path, engine: Engine, old: Content, backup: Path | bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([{"sessions": 1}, {"sessions": 2}])
    with monkeypatch.context() as patched:
        patched.setattr(backup_module, "_counts", lambda _: next(answers))
        with pytest.raises(BackupFailed, match="same rows"):
            Store.open(path, backup=backup)
    assert left(path) == set()
    assert content(path, engine) == old
    with Store.open(path, backup=backup) as store:
        made = Path(str(store.report.backup))
    assert left(path) == {made.name}
    assert content(made, engine) == old


def test_the_copy_goes_when_the_upgrade_fails(
    path: Path, engine: Engine, old: Content, backup: Path | bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def fail(*_: object, **__: object) -> None:
        seen.append(left(path))
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "ensure_indexes", fail)
        for _ in range(2):
            with pytest.raises(Broken):
                Store.open(path, backup=backup)
            assert left(path) == set()
    assert [len(each) for each in seen] == [1, 1]
    assert content(path, engine) == old
    with Store.open(path, backup=backup) as store:
        assert content(Path(str(store.report.backup)), engine) == old


def test_a_draft_of_a_killed_process_is_no_obstacle_and_goes(path: Path, engine: Engine, old: Content) -> None:
    target = path.with_name("kept.db")
    drafts = [
        path.with_name(f".{name}.part") for name in (target.name, f"{path.name}.before-upgrade-20260101-000000-1.bak")
    ]
    for draft in drafts:
        draft.write_bytes(b"half a copy")
    with Store.open(path, backup=target) as store:
        assert store.report.backup == str(target)
    assert content(target, engine) == old
    assert not any(draft.exists() for draft in drafts)


@pytest.mark.parametrize("kind", ["file", "empty", "folder", "link", "link to nothing"])
def test_a_target_that_is_there_is_refused(path: Path, engine: Engine, old: Content, kind: str) -> None:
    target, other = path.with_name("kept.db"), path.with_name("other")
    if kind.startswith("link"):
        if kind == "link":
            other.write_bytes(b"somebody's")
        target.symlink_to(other)
    elif kind == "folder":
        target.mkdir()
    else:
        target.write_bytes(b"" if kind == "empty" else b"somebody's")
    before = left(path)
    with pytest.raises(BackupFailed, match="exists already"):
        Store.open(path, backup=target)
    assert left(path) == before
    assert not other.exists() or other.read_bytes() == b"somebody's"
    assert content(path, engine) == old


_KILLED = """
import os, signal, sys
from pathlib import Path
from hermes_store import Store
from hermes_store.database import backup
backup._counts = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Store.open(Path(sys.argv[1]), backup=Path(sys.argv[2]))
"""

_LIMITED = """
import resource, signal, sys
from pathlib import Path
from hermes_store import Store
from hermes_store.database import backup
from hermes_store.errors import BackupFailed
copy = backup._copy
def limited(*arguments):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    copy(*arguments)
backup._copy = limited
try:
    Store.open(Path(sys.argv[1]), backup=Path(sys.argv[2]))
except BackupFailed:
    sys.exit(7)
"""


@needs_posix
@pytest.mark.parametrize(
    ("script", "code"),
    [(_KILLED, -signal.SIGKILL if sys.platform != "win32" else 0), (_LIMITED, 7)],
    ids=["killed", "full"],
)
def test_a_process_that_ends_in_the_middle_leaves_nothing_under_the_name(
    path: Path, engine: Engine, old: Content, script: str, code: int
) -> None:
    target = path.with_name("kept.db")
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(target)], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert not target.exists()
    looked = path.parent / "looked"
    looked.mkdir()
    assert content(copy_of(path, looked / "state.db"), engine) == old
    with Store.open(path, backup=target) as store:
        assert store.report.changed
    assert content(target, engine) == old
