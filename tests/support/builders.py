"""Builder of Hermes files, with the driver of the engine under test."""

from pathlib import Path

from hermes_store.database import load_driver
from tests.snapshots.hermes_v23 import Story, build


def build_v23(path: Path, driver: str, **options: object) -> Story:
    """A file as Hermes Agent of schema version 23 writes it, through the named driver."""
    return build(path, load_driver(driver).module, **options)  # type: ignore[arg-type]
