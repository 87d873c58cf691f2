"""What Alembic's environment does for a store (rules SCHEMA-6 and SCHEMA-9).

`check`, `current` and autogenerate read only. `upgrade` runs the whole pipeline, so that a file upgraded from the
command line equals one that `Store.open` upgraded. Every change happens in one transaction.
"""

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import command
from alembic.config import Config
from alembic.operations import Operations
from alembic.operations.ops import MigrationScript
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from hermes_store.clock import SYSTEM_CLOCK
from hermes_store.database.database import Database
from hermes_store.database.driver import choose_driver
from hermes_store.database.health import FileState, creating, inspect_file, refuse
from hermes_store.errors import HermesStoreError
from hermes_store.models import Base
from hermes_store.schema.autogenerate import compare_options, write_revision
from hermes_store.schema.recognise import recognise, refuse_unwritable
from hermes_store.schema.upgrade import bring_up_to_date
from hermes_store.schema.versions import HEAD_REVISION
from hermes_store.settings import Settings

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

SCRIPT_LOCATION = "hermes_store.migrations:"  # without the colon an editable install does not find it
_CONNECTION = "hermes_store_connection"
_WRITING_COMMANDS = frozenset({"upgrade", "downgrade", "stamp"})

# Alembic keeps the context of a command in module globals: two at once, even on two files, mix up their connections.
_alembic_lock = threading.RLock()


def run_revisions(connection: "Connection") -> None:
    """Run the revisions that the file still needs, inside the open unit of `connection`.

    Each is given operations of its own: Alembic's are one for the whole process, and the application around this
    library may be in the middle of a migration itself.
    """
    config = Config()
    config.set_main_option("script_location", SCRIPT_LOCATION)
    operations = Operations(MigrationContext.configure(connection.sa))
    (at,) = connection.sql("SELECT version_num FROM alembic_version")[0]
    due = list(ScriptDirectory.from_config(config).iterate_revisions("head", at))
    for script in reversed(due):
        vars(script.module)["op"] = operations
        script.module.upgrade()
        connection.sql("UPDATE alembic_version SET version_num = ?", (script.revision,))


def sql_between(revision: str) -> str:
    """The SQL of the revisions that a file at this one still needs, one transaction.

    Raises OnlineMigration for a revision that has to look at the data.
    """
    written = io.StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", SCRIPT_LOCATION)
    with _alembic_lock:
        try:
            command.upgrade(config, f"{revision}:head", sql=True)
        except CommandError as exc:
            if isinstance(exc.__cause__, HermesStoreError):
                raise exc.__cause__ from None
            raise
    return written.getvalue()


def revision_summaries() -> list[tuple[str, str]]:
    """Every revision, newest first, and what it is for in one sentence."""
    config = Config()
    config.set_main_option("script_location", SCRIPT_LOCATION)
    with _alembic_lock:
        script = ScriptDirectory.from_config(config)
        return [(each.revision, each.doc) for each in script.walk_revisions()]


@contextmanager
def reading_as_it_is(path: Path) -> Iterator["Connection"]:
    """A read-only connection to a store of any age, without the views that stand in for what the file lacks.

    Raises what opening a store for reading raises.
    """
    with _opened(path, read_only=True) as database, database.read() as connection:
        recognise(connection, str(path))
        yield connection


def run(context: EnvironmentContext) -> None:
    """The whole of `env.py`."""
    handed_in = context.config.attributes.get(_CONNECTION)
    if handed_in is not None:
        _migrate(context, handed_in)
        return
    with _alembic_lock:
        try:
            if context.is_offline_mode():
                # Shown in whole or not at all: the beginning of a script that is refused must not be run.
                shown, written = context.config.output_buffer or sys.stdout, io.StringIO()
                context.configure(
                    dialect_name="sqlite", literal_binds=True, transactional_ddl=True, output_buffer=written
                )
                with context.begin_transaction():
                    context.run_migrations()
                shown.write(written.getvalue())
            else:
                _run_command(context, _path(context), _command_name(context.config))
        except HermesStoreError as exc:
            # Alembic prints this one without a traceback.
            raise CommandError(f"{type(exc).__name__}: {exc}") from exc


def _run_command(context: EnvironmentContext, path: Path, name: str) -> None:
    if name not in _WRITING_COMMANDS:
        with _opened(path, read_only=True) as database, database.read() as connection:
            if recognise(connection, str(path)).revision is None:
                if name == "current":
                    return  # there is none to name
                raise CommandError(f"{path} is not under Alembic yet; run: alembic -x db={path} upgrade head")
            _migrate(context, connection)
        return
    head = context.script.get_current_head()
    if head != HEAD_REVISION:
        raise CommandError(
            f"the revisions end at {head}, and REVISIONS in hermes_store/schema/versions.py at {HEAD_REVISION}: "
            f"add the new number there"
        )
    if name == "upgrade" and context.get_revision_argument() not in ("head", "heads", head):
        raise CommandError(f"a store is upgraded to head ({head}) or not at all")

    def body(connection: "Connection") -> None:
        found = recognise(connection, str(path))
        refuse_unwritable(found, str(path))
        if found.revision is None:
            raise CommandError(f"{path} is not under Alembic yet; run: alembic -x db={path} upgrade head")
        _migrate(context, connection)

    with _opened(path, read_only=False, create=name == "upgrade") as database:
        if name == "upgrade":
            bring_up_to_date(
                database,
                patience=Settings().patience,
                alone=False,
                run_revisions=lambda connection: _migrate(context, connection),
            )
        else:
            with database.writer.exclusive() as connection:
                # A table that is built anew would take along the rows that refer to it; within a unit it is too late.
                connection.sql("PRAGMA foreign_keys=OFF")
            database.writer.run(body, patience=Settings().patience, meets_damage=True)


@contextmanager
def _opened(path: Path, *, read_only: bool, create: bool = False) -> Iterator[Database]:
    settings = Settings.from_environment()
    driver = choose_driver(settings.driver)
    state = inspect_file(path)
    is_new = create and state is FileState.MISSING
    if not is_new:
        refuse(path, state)
    with creating(path) if is_new else nullcontext():
        if read_only:
            database = Database.open_read_only(path, driver=driver, settings=settings, clock=SYSTEM_CLOCK)
        else:
            database = Database.open_writable(
                path, driver=driver, settings=settings, clock=SYSTEM_CLOCK, new_file=is_new
            )
        try:
            yield database
        finally:
            database.close()


def _migrate(context: EnvironmentContext, connection: "Connection") -> None:
    is_written = _command_name(context.config) == "revision"

    def write(found: MigrationContext, revision: Any, directives: list[MigrationScript]) -> None:
        write_revision(found, revision, directives)
        if is_written and all(each.is_empty() for script in directives for each in script.upgrade_ops_list):
            context.config.print_stdout("the models and the file agree: there is no revision to write")
            directives.clear()

    # SQLAlchemy's side of the connection has begun, so Alembic leaves BEGIN and COMMIT to the unit around it.
    context.configure(
        connection=connection.sa,
        target_metadata=Base.metadata,
        transactional_ddl=True,
        process_revision_directives=write,
        **compare_options(connection, strict=is_written),
    )
    context.run_migrations()


def _path(context: EnvironmentContext) -> Path:
    given = context.get_x_argument(as_dictionary=True).get("db")
    if not given:
        raise CommandError("name the database: alembic -x db=PATH ...")
    return Path(given).absolute()


def _command_name(config: Config) -> str:
    chosen = getattr(config.cmd_opts, "cmd", None)
    return str(chosen[0].__name__) if chosen else ""
