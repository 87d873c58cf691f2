"""A new store has the golden schema, on every engine (rule SCHEMA-10)."""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store.database import load_driver
from hermes_store.schema.describe import beyond, golden_lines, missing_from
from tests.schema.golden import COMMAND, FILE, describe_file, text_of
from tests.snapshots.build import build_version
from tests.support.drivers import Engine


def test_a_new_store_equals_the_golden_schema(engine: Engine, path: Path) -> None:
    fresh = describe_file(path)
    changes = list(difflib.unified_diff(golden_lines(), fresh, "golden", "new store", lineterm="", n=0))
    assert changes == [], "\n".join([*changes, f"if this is meant: {COMMAND}"])


def test_the_file_is_what_the_command_writes() -> None:
    assert FILE.read_text(encoding="utf-8") == text_of(golden_lines())


def test_the_command_writes_the_same_file_anew(tmp_path: Path) -> None:
    written = tmp_path / "golden.txt"
    command = [sys.executable, *COMMAND.split()[1:], str(written)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    assert written.read_bytes() == FILE.read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        "idx_sessions_title_unique: unique index on sessions (title) where title is not null",
        "idx_sessions_started: index on sessions (started_at desc)",
        "session_model_usage: foreign key (session_id) to sessions (id) on delete cascade on update no action",
        "messages: table autoincrement",
        "messages.active: INTEGER, not null, default 1",
        "gateway_routing.session_key: TEXT, not null, key 2",
    ],
)
def test_the_golden_schema_says_what_reflection_does_not_see(words: str) -> None:
    assert words in golden_lines()


def test_it_names_triggers_and_views_and_no_shadow_tables() -> None:
    names = {line.partition(":")[0] for line in golden_lines()}
    assert {"messages_fts_insert", "messages_fts_trigram_update", "messages_fts_trigram_src"} <= names
    assert not {name for name in names if name.startswith("sqlite_") or name.endswith(("_data", "_docsize", "_idx"))}


def test_an_upgraded_file_has_it_too(engine: Engine, path: Path) -> None:
    build_version(path, load_driver(engine.driver).module, 23, journal_mode=engine.journal_mode, sessions=2, turns=1)
    lines = describe_file(path)
    assert missing_from(lines) == []
    assert [line for line in beyond(lines) if "messages" in line or "sessions (" in line] == []
