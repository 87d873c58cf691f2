"""Old files to upgrade, what they hold before and after, and the process that upgrades them beside the test."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hermes_store import Store, connect
from hermes_store.database import load_driver
from hermes_store.database.connection import Connection
from hermes_store.schema.describe import describe_schema
from tests.process.processes import Child, names
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.support.drivers import Engine

VERSIONS = ("v1", "v10", "v16", "v20", "v22")
DAMAGED = (
    "routing_same_key_in_two_scopes",
    "interrupted_routing_rebuild_used",
    "usage_task_outside_key",
    "interrupted_usage_rebuild_v21_copied",
    "interrupted_usage_rebuild_v21_used",
)
MORE_DAMAGED = (
    "interrupted_topic_rebuild_copied",
    "null_active_v16_early",
    "duplicate_titles",
    "model_config",
    "unfinished_rebuild",
    "half_demoted_filling",
    "missing_messages_fts_insert_v9",
    "lost_stamp_table_v15",
)

Content = dict[str, Any]
"""Everything in a file: of each table its rows, and the lines that describe its schema."""


def make_old(path: Path, engine: Engine, name: str) -> None:
    """A small file of a version ("v16") or with a damage, in the journal mode of the engine."""
    module = load_driver(engine.driver).module
    if name in DAMAGES:
        DAMAGES[name].make(module, path)
        with closing(connect(path, driver=engine.driver)) as raw:
            assert raw.execute(f"PRAGMA journal_mode={engine.journal_mode}").fetchone() == (engine.journal_mode,)
    else:
        build_version(path, module, int(name[1:]), journal_mode=engine.journal_mode, sessions=2, turns=2)


def copy_of(path: Path, target: Path) -> Path:
    """A copy of a file that nobody has open, with its sidecars."""
    for name in names(path.parent):
        if name in {path.name + suffix for suffix in ("", "-wal", "-shm", "-journal")}:
            shutil.copyfile(path.with_name(name), target.with_name(target.name + name.removeprefix(path.name)))
    return target


def content(path: Path, engine: Engine) -> Content:
    """Rows of all tables, those inside of search indexes too, and the schema; when an upgrade was is left out.

    SQLite finds nothing wrong with the file.
    """
    driver = load_driver(engine.driver)
    with closing(connect(path, driver=driver, timeout=10)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = raw.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow') ORDER BY name"
        ).fetchall()
        found: Content = {name: _rows(raw, name) for (name,) in tables if name != "sqlite_schema"}
        found["schema"] = describe_schema(Connection(raw, driver))
    return found


def _rows(raw: Any, table: str) -> list[Any]:
    every = raw.execute(f'SELECT * FROM "{table}"').fetchall()
    if table == "state_meta":
        every = [(key, _NORMALISED[key](value) if key in _NORMALISED else value) for key, value in every]
    return sorted(every, key=repr)


def _without_time_and_copy(note: str) -> str:
    told: dict[str, Any] = json.loads(note)
    assert told.pop("at") > 0
    told.pop("backup")
    return json.dumps(told)


_NORMALISED: dict[str, Callable[[str], str]] = {
    "hermes_store_last_upgrade": _without_time_and_copy,
    # Drawn at random.
    "db_file_generation": lambda token: f"{len(token)} characters",
    # SQLite's own count of changes, which a copy raises, stands first.
    "hermes_store_fingerprint": lambda note: note.partition(":")[2],
}


@dataclass(frozen=True)
class Old:
    """An old file, what it holds, and what it holds when nothing disturbed its upgrade."""

    path: Path
    engine: Engine
    before: Content
    after: Content

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A copy in a folder of its own, both gone afterwards."""
        folder = self.path.with_name("copy")
        yield self.copy_in(folder)
        shutil.rmtree(folder)

    def copy_in(self, folder: Path) -> Path:
        """A copy in a new folder."""
        folder.mkdir()
        return copy_of(self.path, folder / "state.db")

    def look(self, path: Path) -> Content:
        """What stands in a copy that nobody has open, without a change to it: a journal would be played back."""
        folder = path.with_name("look")
        folder.mkdir()
        found = content(copy_of(path, folder / "state.db"), self.engine)
        shutil.rmtree(folder)
        return found


def old_file(folder: Path, engine: Engine, name: str) -> Old:
    """A file to upgrade copies of."""
    path = folder / f"{name}.db"
    make_old(path, engine, name)
    undisturbed = copy_of(path, folder / f"{name}-undisturbed.db")
    before, after = content(path, engine), upgraded(undisturbed, engine)
    assert before != after
    return Old(path, engine, before, after)


def upgraded(path: Path, engine: Engine) -> Content:
    """What a file holds when nothing disturbs its upgrade; the file is upgraded."""
    with Store.open(path) as store:
        assert store.report.changed
    return content(path, engine)


def spread(total: int, count: int) -> list[int]:
    """So many numbers from 1 to `total`, at even distances, both ends among them."""
    return sorted({1 + (total - 1) * each // max(1, count - 1) for each in range(count)})


class Upgrader(Child):
    """A process that runs `tests.process.upgrade_child`."""

    def __init__(self, errors: IO[bytes]) -> None:
        super().__init__(errors, "tests.process.upgrade_child")
        self.holds = False

    def together(self, engine: Engine, *actions: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Do all actions at the same moment, each in a process of its own."""
        outcomes: list[dict[str, Any]] = self.ask("together", actions=actions, environment=environment(engine))
        return outcomes

    def do(self, engine: Engine, action: str, path: Path, **arguments: Any) -> Any:
        """One action in a process of its own; its result, or the whole outcome where it has none."""
        (outcome,) = self.together(engine, (action, {"path": str(path), **arguments}))
        return outcome.get("result", outcome)

    def end(self) -> None:
        """Let it end by itself, or end it."""
        super().end()
        self._errors.close()

    def hold(self, path: Path, engine: Engine, step: str, *, pages: int | None = None) -> None:
        """Begin an upgrade and stop before a step; `pages` that stay in memory, the others are in the file by then."""
        self.holds = True
        self.tell("hold_at", path=str(path), step=step, driver=engine.driver, pages=pages)
        assert self.hear() == "holding"

    def finish(self) -> Any:
        """Let the upgrade go on; its report."""
        self.go_on()
        report = self.hear()
        self.holds = False
        return report

    def lock(self, path: Path, engine: Engine, begin: str) -> None:
        """Begin a transaction on the file and leave it open."""
        self.holds = True
        assert self.ask("lock", path=str(path), driver=engine.driver, begin=begin)

    def release(self) -> None:
        """End the transaction."""
        self.ask("release")
        self.holds = False

    @property
    def is_of_use(self) -> bool:
        """True if it lives and holds nothing."""
        return not self.holds and self._process.poll() is None


def environment(engine: Engine) -> dict[str, str]:
    """What tells a process how to open stores."""
    return {
        "HERMES_STORE_SQLITE_DRIVER": engine.driver,
        "HERMES_STORE_JOURNAL_MODE": engine.journal_mode,
        "HERMES_HOME": os.environ["HERMES_HOME"],
    }


def start(folder: Path) -> Upgrader:
    """A process that is ready for orders; its errors go into the folder."""
    child = Upgrader((folder / "stderr-upgrader.txt").open("w+b"))
    assert child.hear() == "ready"
    return child


@contextmanager
def upgrader(folder: Path) -> Iterator[Upgrader]:
    """A process that is ready for orders, ended afterwards."""
    child = start(folder)
    try:
        yield child
    finally:
        child.end()
