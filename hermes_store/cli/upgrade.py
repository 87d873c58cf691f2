"""`hermes-store db upgrade | check | current | history`: the schema of a file, and the revisions that lead to it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import EXIT_FAILED, clean, print_json, print_table, talk, write_line
from hermes_store.errors import OnlineMigration
from hermes_store.schema.describe import beyond_golden, missing_from_golden
from hermes_store.schema.recognise import recognise, refuse_unwritable
from hermes_store.schema.report import OpenReport, Progress
from hermes_store.schema.versions import HEAD_REVISION
from hermes_store.store import Store


@click.command()
@click.option("--backup", is_flag=True, help="Make a verified copy first, beside the file.")
@click.option(
    "--backup-to", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Make it there instead."
)
@click.option("--sql", "as_sql", is_flag=True, help="Only print the SQL of the revisions that are due.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_options
def upgrade(options: Options, backup: bool, backup_to: Path | None, as_sql: bool, as_json: bool) -> None:  # noqa: FBT001 - command line flags
    """Bring a file of any age to the current shape, in place; nothing is lost."""
    if as_sql:
        if backup or backup_to is not None:
            raise click.UsageError("--sql changes nothing, so there is nothing to back up")
        _print_sql(options, as_json=options.json or as_json)
        return
    with (
        _progress() as progress,
        Store.open(
            options.path, create=False, backup=backup_to if backup_to is not None else backup, progress=progress
        ) as store,
    ):
        report = store.report
    if options.json or as_json:
        print_json(report.as_dict())
        return
    if not report.changed:
        talk(f"{clean(options.path)} is current (revision {report.revision})")
        return
    print_table(("what", "value"), report_rows(report))


def report_rows(report: OpenReport) -> list[tuple[str, object]]:
    """What an open did, a line for each kind of change."""
    facts: list[tuple[str, object]] = [
        ("schema version", f"{report.stamp} before" if report.stamp is not None else "none before"),
        ("revision", report.revision or "none"),
        ("revisions run", ", ".join(report.revisions_run)),
        ("columns added", ", ".join(report.columns_added)),
        ("indexes created", ", ".join(report.indexes_created)),
        ("keys healed", ", ".join(report.keys_healed)),
        ("leftovers taken over", ", ".join(report.leftovers_adopted)),
        ("search indexes filled", ", ".join(report.search_rebuilt)),
        ("search indexes pending", ", ".join(report.search_pending)),
        ("triggers replaced", ", ".join(report.triggers_replaced)),
        ("messages re-indexed", report.rows_reindexed or ""),
        ("values repaired", report.rows_repaired or ""),
        ("counters repaired", report.counters_repaired or ""),
        ("titles cleared of", ", ".join(report.titles_cleared)),
        ("copy before", report.backup or ""),
        ("moved aside", report.quarantined or ""),
    ]
    return [(name, value) for name, value in facts if value != ""]


@contextmanager
def _progress() -> Iterator[Progress]:
    """The step that is under way: a moving line on a terminal, a line for each step elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield lambda step: talk(f"upgrading: {step}")
        return
    with console.status("opening") as status:
        yield lambda step: status.update(f"upgrading: {clean(step)}")


def _print_sql(options: Options, *, as_json: bool) -> None:
    from hermes_store.schema.environment import sql_between

    with options.open() as store, store.reader() as reader:
        found = recognise(reader.connection, str(options.path))
    refuse_unwritable(found, str(options.path))
    if found.revision is None:
        raise OnlineMigration(
            f"{options.path} is not under revisions yet, and to adopt it one has to look at what it holds, so it "
            f"cannot be written as SQL; run: hermes-store --db PATH db upgrade"
        )
    is_due = found.revision != HEAD_REVISION
    sql = sql_between(found.revision).strip() if is_due else ""
    if as_json:
        print_json({"revision": found.revision, "head": HEAD_REVISION, "sql": sql})
    elif is_due:
        write_line(sql)
    else:
        talk(f"{clean(options.path)} is at revision {HEAD_REVISION}: there is nothing to run")


@click.command()
@pass_options
@click.pass_context
def check(context: click.Context, options: Options) -> None:
    """Compare the schema of a file with the one that it should have; exit code 1 if they differ. Changes nothing."""
    from hermes_store.schema.autogenerate import differences
    from hermes_store.schema.environment import reading_as_it_is

    with reading_as_it_is(options.path) as connection:
        refuse_unwritable(recognise(connection, str(options.path)), str(options.path))
        proposed = differences(connection)
        missing = missing_from_golden(connection)
        unknown = beyond_golden(connection)
    if options.json:
        print_json({"proposed": proposed, "missing": missing, "beyond": unknown})
    else:
        for line in proposed:
            write_line(clean(f"would change: {line}"))
        for line in missing:
            write_line(clean(f"missing: {line}"))
        for line in unknown:
            talk(f"kept, unknown here: {line}")
        talk(
            "the schema differs; hermes-store db upgrade adds what is missing and makes indexes anew"
            if proposed or missing
            else "the schema is current"
        )
    if proposed or missing:
        context.exit(EXIT_FAILED)


@click.command()
@pass_options
def current(options: Options) -> None:
    """Say the revision and the schema version of a file. Changes nothing."""
    with options.open() as store, store.reader() as reader:
        found = recognise(reader.connection, str(options.path))
    is_head = found.revision == HEAD_REVISION
    if options.json:
        print_json({"revision": found.revision, "head": HEAD_REVISION, "schema_version": found.stamp})
        return
    write_line(f"{found.revision or 'none'}{' (head)' if is_head else ''}, schema version {found.stamp or 'none'}")
    if found.revision is None:
        talk("the file is not under revisions yet; hermes-store db upgrade adopts it")


@click.command()
@pass_options
def history(options: Options) -> None:
    """List the revisions, newest first."""
    from hermes_store.schema.environment import revision_summaries

    known = revision_summaries()
    if options.json:
        print_json([{"revision": revision, "purpose": purpose} for revision, purpose in known])
        return
    print_table(("revision", "purpose"), known)
