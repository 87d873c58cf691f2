"""Running the command in this process, and stores for it to look at."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.cli.running import Ran, Run, run_here
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import Engine, engines


@pytest.fixture
def any_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The last engine there is, for what does not depend on it; child processes inherit the choice."""
    chosen = engines()[-1]
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", chosen.driver)
    monkeypatch.setenv("HERMES_STORE_JOURNAL_MODE", chosen.journal_mode)
    return chosen


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], path: Path) -> Run:
    """`run("sessions", "list")`: the command on the store at `path`, in this process."""

    def call(*arguments: str | Path, db: str | Path | None = path) -> Ran:
        return run_here(capsys, arguments, db)

    return call


@pytest.fixture
def story(path: Path, engine: Engine) -> Story:
    """A file of Hermes Agent at `path`, on every engine."""
    return build_v23(path, engine.driver, journal_mode=engine.journal_mode)


@pytest.fixture
def small(path: Path, any_engine: Engine) -> Path:
    """A small store at `path`, closed."""
    with SessionDB(path) as db:
        db.create_session("alpha-one", "cli", model="example/large")
        db.set_session_title("alpha-one", "数据库迁移")
        db.append_message("alpha-one", "user", "please check the docker build")
        db.append_message("alpha-one", "assistant", "部署的服务正常", reasoning="think first")
        db.create_session("alpha-two", "telegram")
        db.append_message("alpha-two", "user", "an ocelot")
        db.set_session_title("alpha-two", "Taken")
        db.create_session("beta", "cli")
    return path
