"""`hermes-store db ...`: the file itself."""

import dataclasses

import click

from hermes_store.cli.check_upgrade import check_upgrades
from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import moment, print_json, print_table, talk
from hermes_store.cli.upgrade import check, current, history, report_rows, upgrade
from hermes_store.maintenance.info import describe


@click.group()
def db() -> None:
    """The database file."""


@db.command()
@pass_options
def info(options: Options) -> None:
    """Say which file it is, which SQLite reads it, its shape, and what is in it."""
    with options.open() as store:
        found = describe(store)
    if options.json:
        print_json({**dataclasses.asdict(found), "path": str(found.path)})
        return
    rows: list[tuple[str, object]] = [
        ("path", found.path),
        ("size", f"{found.size:,} bytes"),
        ("driver", f"{found.driver}, SQLite {found.sqlite_version}"),
        ("journal mode", found.journal_mode),
        ("schema version", found.schema_version if found.schema_version is not None else "none"),
        ("revision", found.revision or "none"),
        ("active messages", f"{found.active_messages:,}"),
    ]
    rows.extend((f"rows in {name}", f"{count:,}") for name, count in found.rows.items())
    for index in found.indexes:
        state = "complete" if index.complete else "incomplete"
        text = f"{state}, {index.rows:,} of {index.rows_due:,} messages, {index.triggers} triggers; {index.layout}"
        rows.append((f"index {index.name}", text if index.present else "not there"))
        if index.present:
            rows.append((f"segments of {index.name}", f"{index.segments:,}"))
    rows.append(("log", f"{found.log_size:,} bytes"))
    rows.append(("free pages", f"{found.free_pages:,}"))
    repairs = found.index_repairs
    if repairs.last is not None:
        rows.append(
            ("indexes mended", f"{repairs.count:,} times, last {moment(repairs.last)}: {'; '.join(repairs.what)}")
        )
    print_table(("what", "value"), rows)
    if found.last_upgrade is not None:
        print_table(("last upgrade", moment(found.last_upgrade.at)), report_rows(found.last_upgrade.report))
    for line in found.advice:
        talk(f"note: {line}")


for command in (check_upgrades, upgrade, check, current, history):
    db.add_command(command)
