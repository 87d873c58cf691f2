"""What autogenerate compares, and how it writes what it finds: as steps that may run again (rule SCHEMA-9).

Opening a store makes tables, columns and indexes from the models, and may have been first, so every step looks before
it acts. SQLite cannot change a column or a key in place: such a table is built anew. Nothing that only the file has is
proposed for removal; tables that the models do not declare, virtual and shadow ones among them, are not looked at.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from alembic.autogenerate import produce_migrations
from alembic.autogenerate.api import AutogenContext
from alembic.autogenerate.render import renderers
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import CheckConstraint, Table
from sqlalchemy import Connection as SqlConnection
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from hermes_store.models import Base
from hermes_store.schema.build import column_definition
from hermes_store.schema.describe import golden_exceptions
from hermes_store.schema.normalise import normalised
from hermes_store.schema.operations import live_columns

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

_DIALECT = sqlite.dialect()
_OPERATIONS = "from hermes_store.schema.operations import "
_WIDTH = 116  # of a line of a revision, without its indentation


# -- comparing --------------------------------------------------------------------------------------------------


def compare_options(connection: "Connection", *, strict: bool = False) -> dict[str, Any]:
    """The options of Alembic's comparison for a file.

    Columns that may differ in old files (rule SCHEMA-10) are left out, unless `strict`: a change of the models to such
    a column is to be seen when a revision is written.
    """
    excepted = {} if strict else golden_exceptions(connection)

    def include_object(thing: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:  # noqa: FBT001 - Alembic calls it
        if reflected and compare_to is None:
            return False
        return not (type_ == "column" and compare_to is not None and f"{thing.table.name}.{name}" in excepted)

    return {
        "include_name": _include_name,
        "include_object": include_object,
        "compare_type": True,
        "compare_server_default": True,
    }


def _include_name(name: str | None, type_: str, parents: Any) -> bool:  # noqa: ARG001 - Alembic calls it
    """What is reflected at all: not even a look at a virtual table, whose module may be missing here."""
    return type_ != "table" or name in Base.metadata.tables


def differences(connection: "Connection", *, strict: bool = False) -> list[str]:
    """What autogenerate would propose for a file: nothing for one that the models describe. Reads only.

    strict: as for writing a revision, not as for a check.
    """
    options = {**compare_options(connection, strict=strict), "target_metadata": Base.metadata}
    script = produce_migrations(MigrationContext.configure(connection.sa, opts=options), Base.metadata)
    write_steps(connection.sa, script)
    return [each.told for container in script.upgrade_ops_list for each in container.ops if isinstance(each, Step)]


# -- what is proposed -------------------------------------------------------------------------------------------


class Step(ops.MigrateOperation):
    """One step of a revision: what it does in words, and its source."""

    def __init__(self, told: str, call: str, arguments: Sequence[str], *, uses: Sequence[str] = ()) -> None:
        self.told = told
        self.call = call
        self.arguments = arguments
        self.uses = (call, *uses)
        self.obstacle: str | None = None

    def to_diff_tuple(self) -> tuple[str, ...]:
        """What `alembic check` says of it."""
        return (self.told,)

    def source(self) -> str:
        """The call, in the layout of the formatter."""
        return _laid_out(self.call, ["op", *self.arguments])


class Reshape(Step):
    """A table that is built anew. It has to look at the rows, so the revision cannot be written as SQL."""

    def source(self) -> str:
        """The refusal of `--sql`, and the call."""
        return f"online_only(op, revision)\n{super().source()}"


def write_steps(connection: SqlConnection, script: ops.MigrationScript) -> None:
    """Put steps of ours in the place of Alembic's operations, in both directions; the file is as it was before."""
    for upwards, downwards in zip(script.upgrade_ops_list, script.downgrade_ops_list, strict=True):
        unseen = list(_unseen(connection, {name for each in (upwards, downwards) for name in _indexes_in(each)}))
        for container, is_upgrade in ((upwards, True), (downwards, False)):
            container.ops.extend(unseen)
            container.ops[:] = _ordered(_steps(connection, container, is_upgrade=is_upgrade))


def _indexes_in(container: ops.OpContainer) -> Iterator[str]:
    for operation in container.ops:
        if isinstance(operation, ops.ModifyTableOps):
            yield from _indexes_in(operation)
        elif isinstance(operation, ops.CreateIndexOp | ops.DropIndexOp):
            yield str(operation.index_name)


class KeyOp(ops.MigrateOperation):
    """Another primary key, or a rule that the file has not; Alembic compares neither."""

    def __init__(self, table_name: str, told: str) -> None:
        self.table_name = table_name
        self.told = told


def _unseen(connection: SqlConnection, seen: set[str]) -> Iterator[Any]:
    """What differs and Alembic does not look at: conditions and directions of indexes, primary keys, rules.

    Raises CommandError for a rule that is new: no step can add one.
    """
    stored = {
        (kind, name.lower()): sql or ""
        for kind, name, sql in connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master")
    }
    for table in Base.metadata.sorted_tables:
        if ("table", table.name) not in stored:
            continue
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            name = str(index.name)
            wanted = str(CreateIndex(index).compile(dialect=_DIALECT))
            if name in seen or normalised(stored.get(("index", name), wanted)) == normalised(wanted):
                continue
            yield ops.DropIndexOp(name, table.name)
            yield ops.CreateIndexOp.from_index(index)
        key = [column.name for column in table.primary_key]
        found = [
            row[0]
            for row in connection.exec_driver_sql(
                "SELECT lower(name) FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table.name,)
            )
        ]
        if found != key:
            yield KeyOp(table.name, f"primary key ({', '.join(found)}) -> ({', '.join(key)})")
        for rule in (each for each in table.constraints if isinstance(each, CheckConstraint)):
            text = normalised(f"({rule.sqltext})")
            if f"check {text}" not in normalised(stored["table", table.name]):
                raise CommandError(f"{table.name} has a new rule, CHECK {text}: write that revision by hand")


def _ordered(found: Iterator[Step]) -> list[Step]:
    # A table that is built anew comes before its new indexes and before columns that go; its new columns are in it.
    order = {"ensure_column": 0, "reshape_table": 1, "run_ddl": 2, "drop_column": 3}
    steps = list(found)
    drops = [each for each in steps if each.told.startswith("drop index")]
    return [*drops, *sorted((each for each in steps if each not in drops), key=lambda each: order[each.call])]


def _steps(connection: SqlConnection, container: ops.OpContainer, *, is_upgrade: bool) -> Iterator[Step]:
    reshaped: dict[str, list[Any]] = {}
    for operation in container.ops:
        if isinstance(operation, ops.ModifyTableOps):
            yield from _steps(connection, operation, is_upgrade=is_upgrade)
        elif isinstance(operation, ops.AddColumnOp):
            yield _add_column(operation)
        elif isinstance(operation, ops.DropColumnOp):
            arguments = [_text(operation.table_name), _text(operation.column_name)]
            yield Step(f"drop column {operation.table_name}.{operation.column_name}", "drop_column", arguments)
        elif isinstance(operation, ops.CreateTableOp):
            yield _ddl(f"create table {operation.table_name}", _create_table(operation.to_table()))
        elif isinstance(operation, ops.DropTableOp):
            yield _ddl(f"drop table {operation.table_name}", f"DROP TABLE IF EXISTS {operation.table_name}")
        elif isinstance(operation, ops.CreateIndexOp):
            yield _ddl(f"create index {operation.index_name}", _create_index(connection, operation, is_new=is_upgrade))
        elif isinstance(operation, ops.DropIndexOp):
            yield _ddl(f"drop index {operation.index_name}", f"DROP INDEX IF EXISTS {operation.index_name}")
        elif isinstance(operation, ops.AlterColumnOp | ops.AddConstraintOp | ops.DropConstraintOp | KeyOp):
            reshaped.setdefault(_table_of(operation), []).append(operation)
        else:
            raise CommandError(f"a revision cannot be written for {type(operation).__name__}; write it by hand")
    for table, changes in reshaped.items():
        yield _reshape(connection, table, changes, is_upgrade=is_upgrade)


def _table_of(operation: ops.AlterColumnOp | ops.AddConstraintOp | ops.DropConstraintOp | KeyOp) -> str:
    named = getattr(operation, "source_table", None) or getattr(operation, "table_name", None)
    return str(named)


def _add_column(operation: ops.AddColumnOp) -> Step:
    column = operation.column
    definition = column_definition(column)
    named = f"{operation.table_name}.{column.name}"
    step = Step(
        f"add column {named} {definition}",
        "ensure_column",
        [_text(operation.table_name), _text(column.name), _text(definition)],
    )
    if not column.nullable and column.server_default is None:
        step.obstacle = f"{named} is NOT NULL and has no server default: SQLite adds such a column to empty tables only"
    return step


def _ddl(told: str, statement: str) -> Step:
    """A statement in one line, or as a block."""
    argument = _text(statement)
    if "\n" in statement or len(f"run_ddl(op, {argument})") > _WIDTH:
        argument = _block(statement)
    return Step(told, "run_ddl", [argument])


def _block(statement: str) -> str:
    lines = statement.split("\n")
    if "'" not in statement and len(lines) == 1:
        # A literal might hold spaces, so a statement with one stays as it is.
        lines = [line for part in re.split(r" (?=ON |WHERE )", statement) for line in textwrap.wrap(part, 100)]
    return '"""\n' + textwrap.indent("\n".join(lines), " " * 4) + '\n    """'


def _create_table(table: Table) -> str:
    # The declared one: Alembic's copy knows neither AUTOINCREMENT nor anything else of the dialect.
    declared = Base.metadata.tables.get(table.name, table)
    text = str(CreateTable(declared, if_not_exists=True).compile(dialect=_DIALECT)).strip()
    return "\n".join(line.replace("\t", " " * 4).rstrip() for line in text.splitlines())


def _create_index(connection: SqlConnection, operation: ops.CreateIndexOp, *, is_new: bool) -> str:
    if is_new:
        return str(CreateIndex(operation.to_index(), if_not_exists=True).compile(dialect=_DIALECT))
    # As the file has it: reflection sees no DESC.
    text = str(
        connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (operation.index_name,)).scalar_one()
    )
    return re.sub(r"\bINDEX\s+", "INDEX IF NOT EXISTS ", " ".join(text.split()), count=1, flags=re.IGNORECASE)


# -- tables that are built anew ---------------------------------------------------------------------------------


def _reshape(connection: SqlConnection, name: str, changes: Sequence[Any], *, is_upgrade: bool) -> Reshape:
    columns, constraints = _declared_shape(name) if is_upgrade else _shape_in_file(connection, name)
    stand_ins = {}
    for change in changes:
        if isinstance(change, ops.AlterColumnOp) and change.modify_nullable is False:
            default = re.search(r"DEFAULT (\(.*\)|'(?:[^']|'')*'|\S+)", columns[change.column_name])
            if default is not None:
                stand_ins[change.column_name] = default.group(1)
    arguments = [
        _text(name),
        f"columns={_mapping(columns)}",
        f"constraints={_listing(constraints)}",
        f"in_place_of_null={_mapping(stand_ins)}",
    ]
    told = "; ".join(text for change in changes for text in _told(change))
    return Reshape(f"build {name} anew: {told}", "reshape_table", arguments, uses=["online_only"])


def _declared_shape(name: str) -> tuple[dict[str, str], list[str]]:
    """Definitions of columns and constraints as a new store has them."""
    table = Base.metadata.tables[name]
    compiler = _DIALECT.ddl_compiler(_DIALECT, None)  # type: ignore[arg-type]  # no statement: parts are asked for
    columns = {}
    for column in table.columns:
        text = compiler.get_column_specification(column)  # type: ignore[no-untyped-call]
        columns[column.name] = text.removeprefix(_DIALECT.identifier_preparer.format_column(column)).strip()
    texts = [compiler.process(each) for each in table.constraints]
    return columns, sorted((text for text in texts if text), key=lambda text: (not text.startswith("PRIMARY"), text))


def _shape_in_file(connection: SqlConnection, name: str) -> tuple[dict[str, str], list[str]]:
    """The same as the file has it, through PRAGMAs; columns that only the file has stay out, they are kept anyway."""

    def rows(sql: str, *values: Any) -> list[Any]:
        return list(connection.exec_driver_sql(sql, values).fetchall())

    declared = Base.metadata.tables[name].columns
    definitions = {
        column: definition
        for column, definition in live_columns(rows, name, always_not_null=True).items()
        if column in declared
    }
    key = [row[0] for row in rows("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", name)]
    constraints = [f"PRIMARY KEY ({', '.join(key)})"] if key else []
    created = rows("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", name)[0][0]
    if "autoincrement" in created.lower():
        definitions[key[0].lower()] += " PRIMARY KEY AUTOINCREMENT"
        constraints = []
    for (index,) in rows("SELECT name FROM pragma_index_list(?) WHERE origin = 'u' ORDER BY seq DESC", name):
        unique = [row[0] for row in rows("SELECT name FROM pragma_index_info(?) ORDER BY seqno", index)]
        constraints.append(f"UNIQUE ({', '.join(unique)})")
    keys: dict[int, list[Any]] = {}
    for row in rows(
        'SELECT id, "table", "from", "to", on_update, on_delete FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq',
        name,
    ):
        keys.setdefault(row[0], []).append(row)
    for parts in keys.values():
        target, on_update, on_delete = parts[0][1], parts[0][4], parts[0][5]
        targets = [part[3] for part in parts if part[3] is not None]
        text = f"FOREIGN KEY({', '.join(part[2] for part in parts)}) REFERENCES {target}"
        text += f" ({', '.join(targets)})" if targets else ""
        text += f" ON DELETE {on_delete}" if on_delete != "NO ACTION" else ""
        text += f" ON UPDATE {on_update}" if on_update != "NO ACTION" else ""
        constraints.append(text)
    return definitions, constraints


def _told(change: Any) -> Iterator[str]:
    """What changes, in words."""
    if isinstance(change, ops.AlterColumnOp):
        for kind, _, _, column, _, before, after in change.to_diff_tuple():
            yield f"{column} {kind.removeprefix('modify_')} {_shown(before)} -> {_shown(after)}"
    elif isinstance(change, KeyOp):
        yield change.told
    elif isinstance(change, ops.CreateForeignKeyOp):
        rules = [f" {rule} {change.kw[name]}" for name, rule in _RULES.items() if change.kw.get(name)]
        yield f"foreign key ({', '.join(change.local_cols)}) to {change.referent_table}{''.join(rules)}"
    else:
        yield f"constraint {getattr(change, 'constraint_name', None) or type(change).__name__}"


_RULES = {"ondelete": "on delete", "onupdate": "on update"}


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(getattr(value, "arg", value))


# -- writing ----------------------------------------------------------------------------------------------------


def write_revision(context: MigrationContext, revision: Any, directives: list[ops.MigrationScript]) -> None:  # noqa: ARG001
    """Alembic's hook: what it is about to write, in our steps."""
    if context.connection is None:
        raise CommandError("a revision is written from a database, not from SQL")
    for script in directives:
        write_steps(context.connection, script)


@renderers.dispatch_for(Step)
def _render(autogen_context: AutogenContext, step: Step) -> list[str]:
    if step.obstacle is not None:
        raise CommandError(step.obstacle)
    known = {line for line in autogen_context.imports if line.startswith(_OPERATIONS)}
    names = {name for line in known for name in line.removeprefix(_OPERATIONS).split(", ")}
    autogen_context.imports.difference_update(known)
    autogen_context.imports.add(_OPERATIONS + ", ".join(sorted(names | set(step.uses))))
    return [step.source()]


def _laid_out(name: str, arguments: Sequence[str]) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _text(value: str) -> str:
    """A string of Python in the quotes that the formatter would choose."""
    if '"' in value and "'" not in value:
        return f"'{value}'" if "\\" not in value else repr(value)
    return json.dumps(value, ensure_ascii=False)


def _mapping(values: dict[str, str]) -> str:
    if not values:
        return "{}"
    return "{\n" + "".join(f"        {_text(name)}: {_text(value)},\n" for name, value in values.items()) + "    }"


def _listing(values: Sequence[str]) -> str:
    return "[\n" + "".join(f"        {_text(value)},\n" for value in values) + "    ]"
