"""`python -m hermes_store.cli`."""

from hermes_store.cli.main import run

run()
