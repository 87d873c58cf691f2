"""The pytest plugin: old files as tests, and stores to try things on (rules TEST-5 and TEST-6).

Installed with the package (entry point `pytest11`), so every run of pytest loads it: nothing of the package is imported
before it is used.
"""

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hermes_store.store import Store

_OPTION = "hermes_snapshots"
_FLAG = "--hermes-snapshots"

CONVERSATION = (
    ("user", "please check why the docker build stops"),
    ("assistant", "The lock was held by a stale worker; the build runs again."),
    ("user", "请帮我检查数据库迁移脚本"),
    ("assistant", "已经检查完毕,迁移脚本没有问题。"),
)
"""What was said in the session `seeded` of the fixture `seeded_hermes_store`: role and text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that turns old files into tests."""
    parser.getgroup("hermes-store").addoption(
        _FLAG,
        dest=_OPTION,
        action="append",
        default=[],
        metavar="DIR",
        help="check that every *.db file of DIR survives the upgrade of hermes-store; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the folders absolute once, for worker processes too. Raises UsageError for a folder without files.

    Those of `addopts` in the configuration are looked for from the root folder, as its other paths are, those of the
    command line and of PYTEST_ADDOPTS from the current one.
    """
    named: list[str] = config.getoption(_OPTION)
    # What the configuration says stands before what was typed.
    configured = len(named) - _typed(config)
    folders = [
        str(((config.rootpath if place < configured else config.invocation_params.dir) / folder).resolve())
        for place, folder in enumerate(named)
    ]
    setattr(config.option, _OPTION, folders)
    if not folders:
        return
    from hermes_store.errors import OpenFailed
    from hermes_store.maintenance.check_upgrade import find_snapshots

    for folder in folders:
        if not Path(folder).is_dir():
            raise pytest.UsageError(f"--hermes-snapshots: {folder} is not a folder")
        try:
            find_snapshots([Path(folder)])
        except OpenFailed as exc:
            raise pytest.UsageError(f"--hermes-snapshots: {exc}") from exc


def _typed(config: pytest.Config) -> int:
    """How often the option was given for this run alone."""
    words = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]
    if "--" in words:
        words = words[: words.index("--")]
    return sum(word == _FLAG or word.startswith(f"{_FLAG}=") for word in words)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "SnapshotFile | None":
    """A file of such a folder that pytest meets on its own way, or that is named on the command line."""
    folders = parent.config.getoption(_OPTION)
    if file_path.suffix == ".db" and str(file_path.parent) in folders:
        return SnapshotFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the files of the folders that were not met; before -k, -m and others choose among all items."""
    met = {item.path.parent for item in items if isinstance(item, SnapshotItem)}
    for folder in map(Path, config.getoption(_OPTION)):
        if folder in met:
            # The files, or some of them by name, were asked for on the command line.
            continue
        from hermes_store.maintenance.check_upgrade import find_snapshots

        for path in find_snapshots([folder]):
            # Outside of the root folder pytest has no id for a file.
            nodeid = None if path.is_relative_to(config.rootpath) else path.as_posix()
            items.extend(SnapshotFile.from_parent(session, path=path, nodeid=nodeid).collect())


class SnapshotFile(pytest.File):
    """An old file as pytest sees it: it holds one test."""

    def collect(self) -> Iterator["SnapshotItem"]:
        """The one test."""
        yield SnapshotItem.from_parent(self, name="upgrade")


class UpgradeFailed(Exception):
    """An old file does not survive the upgrade; its text is the list of problems."""


class SnapshotItem(pytest.Item):
    """The check of one file."""

    def runtest(self) -> None:
        """Upgrade a copy and verify it."""
        from hermes_store.maintenance.check_upgrade import check_upgrade

        check = check_upgrade(self.path)
        self.user_properties.append(("hermes_store_stamp", check.stamp))
        if not check.ok:
            raise UpgradeFailed("\n".join(check.problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """The problems, without a traceback."""
        if isinstance(excinfo.value, UpgradeFailed):
            return f"{excinfo.value}\n{self.path}"
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Path, None, str]:
        """What stands above a failure."""
        return self.path, None, f"upgrade of {self.path.name}"


@pytest.fixture
def hermes_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of its own, so that the code under test never meets a real store, in threads and processes too."""
    from hermes_store.home import reset_hermes_home_override, set_hermes_home_override

    folder = tmp_path / "hermes-home"
    folder.mkdir()
    # The override is seen in this context alone, the environment everywhere.
    monkeypatch.setenv("HERMES_HOME", str(folder))
    token = set_hermes_home_override(folder)
    yield folder
    reset_hermes_home_override(token)


@pytest.fixture
def hermes_store(hermes_home: Path) -> Iterator["Store"]:
    """A new store in that home."""
    from hermes_store.store import Store

    with Store.open(hermes_home / "state.db") as store:
        yield store


@pytest.fixture
def seeded_hermes_store(hermes_store: "Store") -> "Store":
    """A store that holds the session `seeded`, titled `Fix Docker Build`, with `CONVERSATION` in it."""
    with hermes_store.transaction() as unit:
        unit.create_session("seeded", "cli", model="example/model")
        for role, text in CONVERSATION:
            unit.append("seeded", role, text)
        unit.set_title("seeded", "Fix Docker Build")
    return hermes_store


@pytest.fixture
def hermes_snapshot(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | Path], Path]:
    """`hermes_snapshot(path)`: a copy of a closed store, with its log, that the test may change."""

    def copy(snapshot: str | Path) -> Path:
        from hermes_store.maintenance.check_upgrade import copy_snapshot

        target = tmp_path_factory.mktemp("snapshot") / "copy" / Path(snapshot).name
        copy_snapshot(Path(snapshot), target)
        return target

    return copy
