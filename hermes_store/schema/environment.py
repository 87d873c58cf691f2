"""What Alembic's environment does for a store (rules SCHEMA-6 and SCHEMA-9).

`check`, `current` and autogenerate read only. `upgrade` runs the whole pipeline, so that a file upgraded from the
command line equals one that `Store.open` upgraded. Every change happens in one transaction.
"""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import command
from alembic.autogenerate import compare_metadata, rewriter
from alembic.config import Config
from alembic.operations import ops
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
from hermes_store.schema.build import column_definition
from hermes_store.schema.recognise import recognise, refuse_unwritable
from hermes_store.schema.upgrade import bring_up_to_date
from hermes_store.settings import Settings

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

SCRIPT_LOCATION = "hermes_store.migrations:"  # without the colon an editable install does not find it
_CONNECTION = "hermes_store_connection"
_WRITING_COMMANDS = frozenset({"upgrade", "downgrade", "stamp"})

# Alembic keeps its context in module globals: two runs at once, even on two files, mix up their connections.
_alembic_lock = threading.RLock()


def run_revisions(connection: "Connection") -> None:
    """Run the revisions that the file still needs, inside the open unit of `connection`."""
    config = Config()
    config.set_main_option("script_location", SCRIPT_LOCATION)
    config.attributes[_CONNECTION] = connection
    with _alembic_lock:
        command.upgrade(config, "head")


def sql_between(revision: str) -> str:
    """The SQL of the revisions that a file at this one still needs. Raises OnlineMigration for one that moves data."""
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


def differences(connection: "Connection") -> list[str]:
    """What autogenerate would propose for a file: nothing for one that the models describe. Reads only."""
    context = MigrationContext.configure(connection.sa, opts={**_COMPARE, "target_metadata": Base.metadata})
    return [_told(each) for each in compare_metadata(context, Base.metadata)]


def _told(difference: Any) -> str:
    if isinstance(difference, list):
        return "; ".join(_told(each) for each in difference)
    return " ".join(str(part) for part in difference if part is not None)


def run(context: EnvironmentContext) -> None:
    """The whole of `env.py`."""
    handed_in = context.config.attributes.get(_CONNECTION)
    if handed_in is not None:
        _migrate(context, handed_in)
        return
    with _alembic_lock:
        try:
            if context.is_offline_mode():
                context.configure(dialect_name="sqlite", target_metadata=Base.metadata, literal_binds=True)
                context.run_migrations()
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
                # Who upgrades in another thread may be waiting for Alembic, which this command has to itself.
                turn_patience=Settings().patience,
                run_revisions=lambda connection: _migrate(context, connection),
            )
        else:
            database.writer.run(body, patience=Settings().patience)


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
    # SQLAlchemy's side of the connection has begun, so Alembic leaves BEGIN and COMMIT to the unit around it.
    context.configure(
        connection=connection.sa,
        target_metadata=Base.metadata,
        transactional_ddl=True,
        process_revision_directives=_additive,
        **_COMPARE,
    )
    context.run_migrations()


def _include_object(thing: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:  # noqa: ARG001, FBT001
    """What autogenerate compares: nothing that only the file has is ever proposed for removal."""
    return not (reflected and compare_to is None)


_COMPARE: dict[str, Any] = {
    "include_object": _include_object,
    "compare_type": True,
    "compare_server_default": True,
}

_additive = rewriter.Rewriter()


class EnsureColumnOp(ops.MigrateOperation):
    """An additive column, written so that it may run on a file that has it already."""

    def __init__(self, table: str, column: str, definition: str) -> None:
        self.table = table
        self.column = column
        self.definition = definition

    def to_diff_tuple(self) -> tuple[str, str, str, str]:
        """What `alembic check` says of it."""
        return ("add_column", self.table, self.column, self.definition)


@_additive.rewrites(ops.AddColumnOp)
def _write_ensure_column(context: Any, revision: Any, operation: ops.AddColumnOp) -> ops.MigrateOperation:  # noqa: ARG001
    return EnsureColumnOp(operation.table_name, operation.column.name, column_definition(operation.column))


def _register_renderer() -> None:
    from alembic.autogenerate import renderers

    @renderers.dispatch_for(EnsureColumnOp)
    def _render(autogen_context: Any, operation: EnsureColumnOp) -> str:
        autogen_context.imports.add("from hermes_store.schema.operations import ensure_column")
        return f"ensure_column(op, {operation.table!r}, {operation.column!r}, {operation.definition!r})"


_register_renderer()


def _path(context: EnvironmentContext) -> Path:
    given = context.get_x_argument(as_dictionary=True).get("db")
    if not given:
        raise CommandError("name the database: alembic -x db=PATH ...")
    return Path(given).absolute()


def _command_name(config: Config) -> str:
    chosen = getattr(config.cmd_opts, "cmd", None)
    return str(chosen[0].__name__) if chosen else ""
