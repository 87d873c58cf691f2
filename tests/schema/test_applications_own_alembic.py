"""An application that has migrations of its own may open old files in the middle of them, in any thread."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store.schema.versions import HEAD_REVISION
from tests.process.processes import ROOT
from tests.schema.inspecting import opened, rows
from tests.snapshots.build import build_version
from tests.support.drivers import installed
from tests.upgrade.files import golden_faults, module_of

_ENVIRONMENT = """
import os
from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
import hermes_store

engine = create_engine(
    "sqlite://", poolclass=NullPool, creator=lambda: hermes_store.connect(os.environ["APPLICATION"])
)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""

_HEAD = """
import os
from alembic import context, op
from sqlalchemy import Column, Integer
from hermes_store import Store
revision, down_revision = "{revision}", {below}
"""

_OPENS = """
def upgrade():
    op.execute("CREATE TABLE before (x)")
    for path in os.environ["STORES"].split(os.pathsep):
        Store.open(path).close()
        op.execute("INSERT INTO before VALUES (1)")
    op.create_table("after", Column("x", Integer))
    assert op.get_bind().exec_driver_sql("SELECT count(*) FROM before").scalar() == 2
    assert context.get_context().connection is op.get_bind()
"""

_SECOND = """
def upgrade():
    op.execute("CREATE TABLE second (x)")
"""

_RUN = """
import sys
from alembic import command
from alembic.config import Config

config = Config()
config.set_main_option("script_location", sys.argv[1])
command.upgrade(config, "head")
"""

# Each step of the application waits for a step of an upgrade, and the other way round.
_WAITS = """
import threads

def upgrade():
    for number in range(threads.STEPS):
        op.execute(f"CREATE TABLE made_{number} (x)")
        threads.turn.wait(60)
        op.execute(f"INSERT INTO made_{number} VALUES (1)")
"""

_THREADS = """
import os, sys, threading
sys.modules["threads"] = sys.modules[__name__]
from alembic import command
from alembic.config import Config
from hermes_store import Store

STORES = os.environ["STORES"].split(os.pathsep)
STEPS = 3
turn = threading.Barrier(1 + len(STORES))
failed = []

def guarded(action, *arguments):
    try:
        action(*arguments)
    except BaseException as exc:
        failed.append(f"{action.__name__}: {exc!r}")
        turn.abort()

def migrate():
    config = Config()
    config.set_main_option("script_location", sys.argv[1])
    command.upgrade(config, "head")

def open_store(path):
    left = STEPS
    def progress(step):
        nonlocal left
        if left:
            left -= 1
            turn.wait(60)
    Store.open(path, progress=progress).close()
    while left:
        left -= 1
        turn.wait(60)

threads = [threading.Thread(target=guarded, args=(migrate,))]
threads += [threading.Thread(target=guarded, args=(open_store, path)) for path in STORES]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(failed) or 0)
"""


@pytest.fixture(params=installed())
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", name)
    return name


def _application(folder: Path, *revisions: str) -> Path:
    """A folder of migrations with these bodies."""
    scripts = folder / "migrations"
    (scripts / "versions").mkdir(parents=True)
    (scripts / "env.py").write_text(_ENVIRONMENT)
    (scripts / "script.py.mako").write_text("")
    for number, body in enumerate(revisions, 1):
        below = repr(f"a{number - 1}") if number > 1 else "None"
        text = _HEAD.format(revision=f"a{number}", below=below) + body
        (scripts / "versions" / f"a{number}.py").write_text(text)
    return scripts


def _run(script: str, scripts: Path, application: Path, stores: list[Path], driver: str) -> None:
    environment = os.environ | {
        "APPLICATION": str(application),
        "STORES": os.pathsep.join(map(str, stores)),
        "HERMES_STORE_SQLITE_DRIVER": driver,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, str(scripts)],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def _check(driver: str, application: Path, tables: set[str], stores: list[Path]) -> None:
    """Everybody's tables are in their own file."""
    with opened(application, driver) as raw:
        assert {name for (name,) in rows(raw, "SELECT name FROM sqlite_master WHERE type = 'table'")} == tables
    for path in stores:
        with opened(path, driver) as raw:
            assert rows(raw, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
        assert golden_faults(path, driver) == []


def _stores(folder: Path, driver: str, *versions: int) -> list[Path]:
    paths = [folder / f"v{version}.db" for version in versions]
    for path, version in zip(paths, versions, strict=True):
        build_version(path, module_of(driver), version, sessions=2, turns=1)
    return paths


def test_a_migration_opens_old_files(tmp_path: Path, driver: str) -> None:
    stores = _stores(tmp_path, driver, 8, 21)
    scripts, application = _application(tmp_path, _OPENS, _SECOND), tmp_path / "application.db"
    _run(_RUN, scripts, application, stores, driver)
    _check(driver, application, {"before", "after", "second", "alembic_version"}, stores)
    with opened(application, driver) as raw:
        assert rows(raw, "SELECT version_num FROM alembic_version") == [("a2",)]


@pytest.mark.parametrize("versions", [(15,), (1, 10, 20)])
def test_migrations_and_old_files_in_threads(tmp_path: Path, driver: str, versions: tuple[int, ...]) -> None:
    stores = _stores(tmp_path, driver, *versions)
    scripts, application = _application(tmp_path, _WAITS, _SECOND), tmp_path / "application.db"
    _run(_THREADS, scripts, application, stores, driver)
    made = {f"made_{number}" for number in range(3)}
    _check(driver, application, {*made, "second", "alembic_version"}, stores)
    with opened(application, driver) as raw:
        assert {name: rows(raw, f"SELECT x FROM {name}") for name in made} == {name: [(1,)] for name in made}
