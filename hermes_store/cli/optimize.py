"""`hermes-store sessions optimize-storage`: today's layout for the search indexes of an old file (rule CLI-3)."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
from rich.console import Console

from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import EXIT_ACTION, EXIT_FAILED, clean, print_json, talk
from hermes_store.database.vacuum import logical_size, vacuums_in_memory
from hermes_store.errors import HermesStoreError
from hermes_store.fts.storage import FTS5_UNAVAILABLE, optimize_available
from hermes_store.maintenance.optimize import StorageProgress, StorageReport, optimize_storage

MIB = 1024 * 1024
LARGE = 500 * MIB  # bytes; above, it is said that it may take a while
WITHOUT_VACUUM = 0.3  # of the size of the file, needed for the new indexes alone

_LABELS = {
    "backfill": "filling the indexes",
    "teardown": "removing the old indexes",
    "vacuum": "giving back the space",
    "done": "done",
}

Tell = Callable[[StorageProgress], None]


class Stopped(click.ClickException):
    """The run ended without a change, or before its end."""

    exit_code = EXIT_FAILED

    def show(self, file: IO[str] | None = None) -> None:  # noqa: ARG002 - always on stderr
        """Say it as everything else is said."""
        talk(self.message)


class SpaceLacking(Stopped):
    """The disk is too full."""

    exit_code = EXIT_ACTION


@click.command("optimize-storage")
@click.option("--no-vacuum", is_flag=True, help="Leave the freed space in the file, for what comes next.")
@click.option("--yes", "-y", "agreed", is_flag=True, help="Do not ask.")
@pass_options
def optimize_storage_command(options: Options, no_vacuum: bool, agreed: bool) -> None:  # noqa: FBT001 - command line flags
    """Bring the search indexes of a file to today's layout, which needs much less space; no message is changed.

    The store can be used meanwhile, and an interrupted run is gone on with by the next one.
    """
    with options.open() as store:
        path, able = store.path, store.driver.has_fts5
        with store.reader() as reader:
            available = optimize_available(reader.connection)
            in_memory = vacuums_in_memory(reader.connection)
    size = path.stat().st_size
    if not able:
        _print(options, path, "failed", StorageReport(ok=False, reason=FTS5_UNAVAILABLE), size, size)
        raise Stopped(f"could not optimize: {FTS5_UNAVAILABLE}")
    if not available:
        talk(f"{clean(path)}: there is nothing to do, the search indexes have today's layout")
        _print(options, path, "nothing to do", None, size, size)
        return
    lacking = _lacking_space(path, size, vacuum=not no_vacuum)
    if lacking is not None:
        _print(options, path, "no space", None, size, size)
        raise SpaceLacking(lacking)
    if size > LARGE:
        talk("this may take a while; it can be interrupted, and the next run goes on from there")
        if in_memory and not no_vacuum:
            talk(f"this SQLite vacuums in memory: up to {size / MIB:.0f} MiB of it; --no-vacuum does without")
    if not agreed and not _agrees(path, size):
        _print(options, path, "cancelled", None, size, size)
        raise Stopped("Cancelled.")
    with options.open(read_only=False) as store:
        try:
            with _progress() as progress:
                report = optimize_storage(store, progress=progress, vacuum=not no_vacuum)
        except (HermesStoreError, KeyboardInterrupt):
            talk("it was interrupted: no message is lost, and the next run goes on from there")
            raise
        with store.reader() as reader:
            after = logical_size(reader.connection)
    _print(options, path, "ok" if report.ok else "failed", report, size, after)
    if not report.ok:
        raise Stopped(f"could not optimize: {report.reason}")
    talk(f"optimized: {size / MIB:.1f} MiB before, {after / MIB:.1f} MiB after")
    if report.vacuumed is False:
        talk("the file could not be made smaller; the space is free for what comes next")


def _lacking_space(path: Path, size: int, *, vacuum: bool) -> str | None:
    """What to say if the disk has no room for the new file, or for the new indexes alone."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return None  # nobody knows
    needed = size if vacuum else int(size * WITHOUT_VACUUM)
    if free >= needed:
        return None
    advice = "; --no-vacuum needs less" if vacuum else ""
    return f"error: {needed / MIB:.1f} MiB of free space are needed and {free / MIB:.1f} MiB are there{advice}"


def _agrees(path: Path, size: int) -> bool:
    click.echo(f"Change the search indexes of {clean(path)} ({size / MIB:.1f} MiB)? [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline() if sys.stdin is not None else ""
    if not answer.endswith("\n"):
        click.echo(err=True)
    return answer.strip().lower() in ("y", "yes")


def _print(options: Options, path: Path, outcome: str, report: StorageReport | None, size: int, after: int) -> None:
    if options.json:
        print_json(
            {
                "path": str(path),
                "outcome": outcome,
                "reason": None if report is None else report.reason,
                "vacuumed": None if report is None else report.vacuumed,
                "size_before": size,
                "size_after": after,
            }
        )


@contextmanager
def _progress() -> Iterator[Tell]:
    """On a terminal one moving line, elsewhere a line for each phase."""
    if sys.stderr is not None and sys.stderr.isatty():
        with Console(stderr=True, highlight=False).status("preparing") as status:
            yield lambda progress: status.update(_shown(progress))
        return
    seen: set[str] = set()

    def tell(progress: StorageProgress) -> None:
        if progress.phase not in seen:
            seen.add(progress.phase)
            talk(_LABELS[progress.phase])

    yield tell


def _shown(progress: StorageProgress) -> str:
    label = _LABELS[progress.phase]
    if progress.phase == "backfill" and progress.total:
        return f"{label}: {progress.percent}% ({progress.indexed:,}/{progress.total:,})"
    return label
