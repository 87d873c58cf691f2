"""SQLite holds anything in any column; showing it never fails."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.cli.running import Run
from tests.schema.inspecting import change
from tests.support.drivers import Engine

CHANGES = [
    "UPDATE sessions SET started_at = 'yesterday'",
    "UPDATE sessions SET ended_at = 'x'",
    "UPDATE sessions SET input_tokens = 'many', output_tokens = 1.5",
    "UPDATE messages SET timestamp = 'then'",
    "UPDATE messages SET content = CAST(x'ff61' AS TEXT)",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_every_command_shows_what_is_there(run: Run, engine: Engine, path: Path, statement: str) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", "zebra")
    change(path, engine.driver, statement)
    for arguments in (
        ("sessions", "list"),
        ("sessions", "show", "a"),
        ("sessions", "export", "-o", "-"),
        ("db", "info"),
    ):
        run(*arguments, db=path).data()
