"""The golden schema dump: `python -m tests.schema.golden [FILE]` writes it anew from a new store."""

import sys
import tempfile
from pathlib import Path

import hermes_store
from hermes_store import Store
from hermes_store.schema.describe import GOLDEN_FILE, describe_schema

FILE = Path(hermes_store.__file__).parent / "schema" / GOLDEN_FILE
COMMAND = "python -m tests.schema.golden"
_HEAD = f"# The schema of a new store, one line a thing. Written by: {COMMAND}\n"


def describe_file(path: Path) -> list[str]:
    """The lines of a store; it is brought to the current shape."""
    with Store.open(path) as store, store.reader() as reader:
        return describe_schema(reader.connection)


def text_of(lines: list[str]) -> str:
    """What stands in the file."""
    return _HEAD + "".join(f"{line}\n" for line in lines)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target.write_text(text_of(describe_file(Path(folder) / "state.db")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
