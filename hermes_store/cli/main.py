"""The command `hermes-store`. Exit codes: 0 ok, 1 failed, 2 usage, 3 something has to be done first (rule CLI-1)."""

import io
import os
import sys
from pathlib import Path

import click

from hermes_store import __version__
from hermes_store.cli.db import db
from hermes_store.cli.demo import demo
from hermes_store.cli.options import Options
from hermes_store.cli.output import EXIT_ACTION, EXIT_FAILED, EXIT_OK, OutputClosed, clean, talk
from hermes_store.cli.sessions import sessions
from hermes_store.errors import HermesStoreError
from hermes_store.home import default_store_path


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hermes-store")
@click.option(
    "--db",
    "path",
    type=click.Path(path_type=Path, readable=False),
    metavar="PATH",
    help="The store to work on. Default: state.db of the profile in force.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout.")
@click.pass_context
def cli(context: click.Context, path: Path | None, as_json: bool) -> None:  # noqa: FBT001 - a command line flag
    """Look into the session store of an agent, search it, export it."""
    context.obj = Options(path if path is not None else default_store_path(), as_json)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors of ours are one sentence on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Stored text is UTF-8, whatever the locale says.
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        # Click hands the exit code of a command back instead of ending the process.
        ended_with = cli.main(args=arguments, prog_name="hermes-store", standalone_mode=False)
    except click.exceptions.Exit as exc:
        return int(exc.exit_code)
    except click.Abort:
        talk("aborted")
        return EXIT_FAILED
    except click.ClickException as exc:
        exc.show()
        return int(exc.exit_code)
    except HermesStoreError as exc:
        talk(f"error: {clean(exc)}")
        return EXIT_ACTION if exc.needs_action else EXIT_FAILED
    except OutputClosed:
        # Python would complain at exit about what it still holds for the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as exc:
        talk(f"error: {clean(exc.filename or 'output')}: {clean(exc.strerror)}")
        return EXIT_FAILED
    return ended_with if isinstance(ended_with, int) else EXIT_OK


def run() -> None:
    """The entry of the installed command."""
    sys.exit(main())


cli.add_command(sessions)
cli.add_command(db)
cli.add_command(demo)
