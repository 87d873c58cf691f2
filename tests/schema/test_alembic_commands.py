"""Alembic's own command line on stores: looking writes nothing, upgrading is the same as opening."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.schema.autogenerate import differences
from hermes_store.schema.versions import HEAD_REVISION, REVISIONS
from tests.schema.copied_tree import ROOT, CopiedTree
from tests.schema.generating import connected, fill
from tests.schema.inspecting import all_rows, change, check_file, describe_file, files_of, master, meta, opened, rows
from tests.snapshots.build import VARIANTS, build_version
from tests.support.builders import build_v23
from tests.support.drivers import Engine

INI = ROOT / "alembic.ini"
CLEAN = "No new upgrade operations detected."


def alembic(*arguments: str | Path, db: Path | None = None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `alembic` with the repository's configuration from another folder."""
    given = [] if db is None else ["-x", f"db={db}"]
    return subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(INI), *given, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1"},
    )


def _without_sidecars(path: Path) -> dict[str, bytes]:
    """A reader of a file in WAL mode may leave an empty log and its index behind."""
    found = files_of(path)
    assert found.pop(f"{path.name}-wal", b"") == b""
    found.pop(f"{path.name}-shm", None)
    found.pop(f"{path.name}.quarantine.lock", None)
    return found


def _without_times(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Rows without the note that says when the file was upgraded, and without the mark that each file gets."""
    own = ("hermes_store_last_upgrade", "db_file_generation")
    notes = [row for row in found["state_meta"] if row["key"] not in own]
    return {**found, "state_meta": notes}


@pytest.fixture(params=["fresh", "adopted"])
def current(request: pytest.FixtureRequest, path: Path, engine: Engine) -> Path:
    if request.param == "adopted":
        build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    Store.open(path).close()
    return path


@pytest.fixture
def settled(path: Path, any_engine: Engine) -> Path:
    """An adopted file."""
    build_v23(path, any_engine.driver, journal_mode=any_engine.journal_mode)
    Store.open(path).close()
    return path


def test_check_finds_nothing_on_a_current_store_and_writes_nothing(current: Path, tmp_path: Path) -> None:
    before = _without_sidecars(current)
    done = alembic("check", db=current, cwd=tmp_path)
    assert (done.returncode, CLEAN in done.stdout) == (0, True), done.stdout + done.stderr
    assert _without_sidecars(current) == before


def test_check_finds_nothing_on_a_store_in_use(settled: Path, tmp_path: Path) -> None:
    with Store.open(settled) as store:
        store.write(lambda unit: unit.create_session("new", "cli"))
        done = alembic("check", db=settled, cwd=tmp_path)
    assert (done.returncode, CLEAN in done.stdout) == (0, True), done.stdout + done.stderr


def test_check_tells_what_a_file_lacks_and_leaves_it(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    Store.open(path).close()
    change(path, any_engine.driver, "ALTER TABLE sessions DROP COLUMN last_read_at", "DROP INDEX idx_sessions_source")
    before = _without_sidecars(path)
    done = alembic("check", db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "last_read_at" in done.stdout + done.stderr
    assert "idx_sessions_source" in done.stdout + done.stderr
    assert _without_sidecars(path) == before


def test_check_proposes_nothing_for_what_it_does_not_know(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    build_v23(path, any_engine.driver)
    Store.open(path).close()
    change(
        path,
        any_engine.driver,
        "CREATE TABLE gateway_heartbeats (backend_id TEXT PRIMARY KEY)",
        "ALTER TABLE sessions ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX idx_theirs ON sessions (hidden)",
    )
    done = alembic("check", db=path, cwd=tmp_path)
    assert (done.returncode, CLEAN in done.stdout) == (0, True), done.stdout + done.stderr


def test_current_says_the_revision_and_writes_nothing(settled: Path, tmp_path: Path) -> None:
    before = _without_sidecars(settled)
    done = alembic("current", db=settled, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, [HEAD_REVISION, "(head)"]), done.stdout + done.stderr
    assert _without_sidecars(settled) == before


def test_current_says_nothing_of_a_file_that_has_no_revision(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    build_v23(path, any_engine.driver)
    before = _without_sidecars(path)
    done = alembic("current", db=path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert _without_sidecars(path) == before


def test_history_lists_the_chain_without_a_database(tmp_path: Path) -> None:
    done = alembic("history", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{REVISIONS[-2]} -> {HEAD_REVISION} (head), ")
    assert lines[-1].startswith("<base> -> 0001, ")


def test_upgrade_of_a_missing_path_makes_a_fresh_store(path: Path, engine: Engine, tmp_path: Path) -> None:
    done = alembic("upgrade", "head", db=path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    other = path.with_name("other.db")
    Store.open(other).close()
    with opened(path, engine.driver) as raw, opened(other, engine.driver) as fresh:
        assert master(raw) == master(fresh)
        assert _without_times(all_rows(raw)) == _without_times(all_rows(fresh))
        assert rows(raw, "PRAGMA journal_mode") == rows(fresh, "PRAGMA journal_mode")
    with Store.open(path) as store:
        assert not store.report.changed


def test_upgrade_adopts_a_file_as_opening_does(path: Path, engine: Engine, tmp_path: Path) -> None:
    other = path.with_name("other.db")
    for each in (path, other):
        build_v23(each, engine.driver, journal_mode=engine.journal_mode)
    done = alembic("upgrade", "head", db=path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    Store.open(other).close()
    assert describe_file(path, engine.driver) == describe_file(other, engine.driver)
    with opened(path, engine.driver) as raw, opened(other, engine.driver) as adopted:
        assert _without_times(all_rows(raw)) == _without_times(all_rows(adopted))
    check_file(path, engine.driver)


def test_upgrade_of_a_current_store_changes_nothing(settled: Path, any_engine: Engine, tmp_path: Path) -> None:
    with opened(settled, any_engine.driver) as raw:
        before = master(raw), meta(raw)
    assert alembic("upgrade", "head", db=settled, cwd=tmp_path).returncode == 0
    with opened(settled, any_engine.driver) as raw:
        assert (master(raw), meta(raw)) == before


@pytest.mark.parametrize("target", ["base", "0022"])
def test_downgrade_is_refused_with_its_reason(settled: Path, tmp_path: Path, target: str) -> None:
    before = _without_sidecars(settled)
    done = alembic("downgrade", target, db=settled, cwd=tmp_path)
    assert done.returncode != 0
    assert "IrreversibleMigration: revision 0023 cannot be taken back: " in (done.stdout + done.stderr)
    assert "Traceback" not in done.stderr
    assert "restore the file from a backup" in (done.stdout + done.stderr)
    assert _without_sidecars(settled) == before


@pytest.mark.parametrize("arguments", [("check",), ("upgrade", "head")])
def test_a_database_must_be_named(tmp_path: Path, home: Path, arguments: tuple[str, ...]) -> None:
    done = alembic(*arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert "name the database: alembic -x db=PATH" in done.stdout + done.stderr
    assert list(home.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "current"])
def test_looking_never_makes_a_file(path: Path, tmp_path: Path, command: str) -> None:
    done = alembic(command, db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert f"there is no session store at {path}" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "content"),
    [(("upgrade", "head"), b""), (("upgrade", "head"), b"no database\n" * 20), (("check",), b"\0" * 8192)],
    ids=["empty", "text", "zeroed"],
)
def test_what_is_no_database_is_refused_and_unchanged(
    path: Path, tmp_path: Path, arguments: tuple[str, ...], content: bytes
) -> None:
    path.write_bytes(content)
    done = alembic(*arguments, db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "not a database" in (done.stdout + done.stderr)
    assert files_of(path) == {path.name: content}


def test_upgrade_refuses_what_opening_refuses(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    build_v23(path, any_engine.driver, journal_mode=any_engine.journal_mode)
    change(path, any_engine.driver, "UPDATE schema_version SET version = 'abc'")
    before = _without_sidecars(path)
    done = alembic("upgrade", "head", db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "StampUnreadable" in (done.stdout + done.stderr)
    assert _without_sidecars(path) == before


@pytest.mark.parametrize("target", ["0001"])
def test_upgrade_goes_all_the_way_or_not_at_all(path: Path, any_engine: Engine, tmp_path: Path, target: str) -> None:
    done = alembic("upgrade", target, db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert f"upgraded to head ({HEAD_REVISION}) or not at all" in done.stdout + done.stderr
    assert not path.exists()


@pytest.mark.parametrize("arguments", [("stamp", "head"), ("downgrade", "base")], ids=lambda each: each[0])
def test_stamp_and_downgrade_make_no_file(path: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = alembic(*arguments, db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "no session store" in done.stdout + done.stderr
    assert not path.exists()


@pytest.mark.parametrize("arguments", [("stamp", "head"), ("upgrade", "head"), ("check",)], ids=lambda each: each[0])
def test_a_database_of_another_program_is_refused_and_unchanged(
    path: Path, any_engine: Engine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    change(path, any_engine.driver, "CREATE TABLE customers (id INTEGER)")
    before = _without_sidecars(path)
    done = alembic(*arguments, db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "another program" in done.stdout + done.stderr
    assert _without_sidecars(path) == before


def test_a_file_that_is_not_adopted_is_not_stamped(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    build_v23(path, any_engine.driver)
    before = _without_sidecars(path)
    done = alembic("stamp", "head", db=path, cwd=tmp_path)
    assert done.returncode != 0
    assert "upgrade head" in done.stdout + done.stderr
    assert _without_sidecars(path) == before


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_a_file_made_by_upgrade_is_private(path: Path, tmp_path: Path) -> None:
    assert alembic("upgrade", "head", db=path, cwd=tmp_path).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600


# -- what autogenerate compares -----------------------------------------------------------------------------------

SOME = ((1, None), (9, None), (11, "early"), (16, "late"), (20, "early"), (22, "late"), (23, "early"))


def _is_clean(path: Path, engine: Engine, version: int, variant: str | None) -> None:
    build_version(path, load_driver(engine.driver).module, version, variant=variant, sessions=2, turns=1)
    Store.open(path).close()
    with connected(path, engine.driver) as connection:
        assert differences(connection) == []
        assert differences(connection, strict=True) == []


@pytest.mark.parametrize(("version", "variant"), SOME)
def test_nothing_is_proposed_for_an_adopted_file(
    path: Path, any_engine: Engine, version: int, variant: str | None
) -> None:
    _is_clean(path, any_engine, version, variant)


@pytest.mark.heavy
@pytest.mark.parametrize(("version", "variant"), VARIANTS)
def test_nothing_is_proposed_for_an_adopted_file_of_any_version(
    path: Path, engine: Engine, version: int, variant: str | None
) -> None:
    _is_clean(path, engine, version, variant)


def test_nothing_is_proposed_for_a_column_that_old_releases_left_loose(path: Path, any_engine: Engine) -> None:
    def without(statement: str) -> str:
        return statement.replace("active INTEGER NOT NULL DEFAULT 1", "active INTEGER DEFAULT 1")

    build_version(path, load_driver(any_engine.driver).module, 22, sessions=2, turns=1, edit=without)
    Store.open(path).close()
    with connected(path, any_engine.driver) as connection:
        assert differences(connection) == []
        # Whoever writes a revision sees it.
        assert differences(connection, strict=True) == ["build messages anew: active nullable yes -> no"]


def test_virtual_tables_are_not_even_looked_at(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    """One whose tokenizer nobody has here cannot be looked at."""
    fill(path)
    strange = "CREATE VIRTUAL TABLE strange USING fts5(x, tokenize='nobody_has_this')"
    with opened(path, any_engine.driver) as raw:
        raw.execute("CREATE VIRTUAL TABLE others USING fts5(x)")
        (cookie,) = rows(raw, "PRAGMA schema_version")[0]
        raw.execute("PRAGMA writable_schema=ON")
        raw.execute(
            "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) "
            "VALUES ('table', 'strange', 'strange', 0, ?)",
            (strange,),
        )
        raw.execute(f"PRAGMA schema_version={cookie + 1}")
    with opened(path, any_engine.driver) as raw, pytest.raises(load_driver(any_engine.driver).module.Error):
        raw.execute("SELECT * FROM pragma_table_info('strange')").fetchall()
    done = alembic("check", db=path, cwd=tmp_path)
    assert (done.returncode, CLEAN in done.stdout) == (0, True), done.stdout + done.stderr


# -- writing SQL, and what comes after this release -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("upgrade", "head"), "0016"),
        (("upgrade", "0001:head"), "0016"),
        (("upgrade", "0022:0023"), "0023"),
        (("downgrade", "0023:0022"), "0023"),
    ],
    ids=" ".join,
)
def test_sql_is_refused_by_the_name_of_the_revision(tmp_path: Path, arguments: tuple[str, str], name: str) -> None:
    done = alembic(*arguments, "--sql", cwd=tmp_path)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    kind = "OnlineMigration" if arguments[0] == "upgrade" else "IrreversibleMigration"
    assert f"{kind}: revision {name} " in told
    assert "Traceback" not in told
    assert "BEGIN" not in told  # half a script would be run


def test_sql_of_what_holds_none_is_a_transaction_with_the_note(tmp_path: Path) -> None:
    done = alembic("upgrade", "base:0001", "--sql", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    statements = [line for line in done.stdout.splitlines() if line and not line.startswith("--")]
    assert (statements[0], statements[-1]) == ("BEGIN;", "COMMIT;")
    assert any("INSERT INTO alembic_version" in line for line in statements)


@pytest.mark.parametrize("arguments", [("upgrade", "head"), ("downgrade", "-1"), ("stamp", "head")], ids=" ".join)
def test_a_file_of_a_newer_release_is_not_written(
    settled: Path, any_engine: Engine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    change(settled, any_engine.driver, "UPDATE alembic_version SET version_num = '7777'")
    before = _without_sidecars(settled)
    done = alembic(*arguments, db=settled, cwd=tmp_path)
    assert done.returncode != 0
    assert "SchemaTooNew" in done.stdout + done.stderr
    assert "revision 7777" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert _without_sidecars(settled) == before


def test_a_revision_is_not_written_where_nothing_changed(settled: Path, tmp_path: Path) -> None:
    """From the root of a tree, as a developer does it; a revision by hand is always written."""
    tree = CopiedTree(tmp_path / "tree")
    names = set((tree.root / "migrations/versions").glob("*.py"))
    done = tree.alembic(settled, "revision", "--autogenerate", "--rev-id", "9999", "-m", "nothing")
    assert (done.returncode, "no revision to write" in done.stdout) == (0, True), done.stdout + done.stderr
    assert set((tree.root / "migrations/versions").glob("*.py")) == names
    tree.succeed("alembic", "revision", "--rev-id", "9999", "-m", "by hand")
    (made,) = set((tree.root / "migrations/versions").glob("*.py")) - names
    assert made.name == "9999_by_hand.py"
    # The package does not know it yet, and says where to add it.
    done = tree.alembic(settled, "upgrade", "head")
    assert done.returncode != 0
    assert "REVISIONS in hermes_store/schema/versions.py" in done.stdout + done.stderr


FAILING = '''"""Fails.

Purpose: to fail half way.
"""

from alembic import op

from hermes_store.schema.operations import ensure_column, run_ddl

revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Act, then fail."""
    ensure_column(op, "sessions", "half", "TEXT")
    run_ddl(op, "CREATE TABLE IF NOT EXISTS half (id INTEGER)")
    op.get_bind().exec_driver_sql("INSERT INTO half VALUES (1)")
    op.get_bind().exec_driver_sql("INSERT INTO sessions (id) VALUES ('no source')")


def downgrade() -> None:
    """Nothing."""
'''


def test_an_upgrade_that_fails_leaves_everything_as_it_was(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    """The steps before it too: the file is an old one, and was to be adopted."""
    build_version(path, load_driver(any_engine.driver).module, 16, journal_mode=any_engine.journal_mode)
    tree = CopiedTree(tmp_path / "tree")
    (tree.root / "migrations/versions/9999_fails.py").write_text(FAILING.format(head=HEAD_REVISION), encoding="utf-8")
    versions = tree.root / "hermes_store/schema/versions.py"
    versions.write_text(
        versions.read_text("utf-8").replace(f'"{HEAD_REVISION}")', f'"{HEAD_REVISION}", "9999")'), "utf-8"
    )
    with opened(path, any_engine.driver) as raw:
        before = master(raw), all_rows(raw)
    done = tree.alembic(path, "upgrade", "head")
    assert done.returncode != 0
    assert "NOT NULL constraint failed: sessions.source" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    with opened(path, any_engine.driver) as raw:
        assert (master(raw), all_rows(raw)) == before
    check_file(path, any_engine.driver)
