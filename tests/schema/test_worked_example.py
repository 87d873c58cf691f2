"""The worked examples of CONTRIBUTING.md run as they stand on a copy of the tree, and files of before follow."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.errors import SchemaTooNew
from hermes_store.schema.versions import FIRST_OWN_REVISION, HEAD_REVISION, REVISIONS
from tests.schema.copied_tree import ROOT, CopiedTree
from tests.schema.inspecting import all_rows, check_file, opened, rows
from tests.snapshots.build import build_version
from tests.support.drivers import Engine

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
OLD_VERSIONS = (1, 16, 22)

OPEN_AND_LOOK = """
import json, sys
from pathlib import Path
from hermes_store import Store
from hermes_store.schema.autogenerate import differences
from hermes_store.schema.describe import beyond_golden, missing_from_golden
from hermes_store.schema.environment import reading_as_it_is
for path in sys.argv[1:]:
    with Store.open(path) as store:
        report = store.report.as_dict()
    with reading_as_it_is(Path(path)) as connection:
        found = differences(connection), missing_from_golden(connection), beyond_golden(connection)
    print(json.dumps([report, *found]))
"""


class Block(NamedTuple):
    """A marked block: `run`, `fails`, `change FILE` or `file FILE`, and what stands in it."""

    kind: str
    file: str
    body: str


# The page speaks of the revisions that follow the head of the day it was written.
_WRITTEN_FOR = "0023"
_NEXT = max(FIRST_OWN_REVISION, int(HEAD_REVISION) + 1)
FIRST, SECOND = f"{_NEXT:04}", f"{_NEXT + 1:04}"
_NUMBERS = {_WRITTEN_FOR: HEAD_REVISION, "0100": FIRST, "0101": SECOND}


def _today(text: str) -> str:
    """A block with the numbers that it would have today."""
    later = ", ".join(f'"{each}"' for each in REVISIONS[REVISIONS.index(_WRITTEN_FOR) :])
    notes = (ROOT / "migrations" / "NOTES.md").read_text(encoding="utf-8")
    (latest,) = re.findall(r"^## .+$", notes, flags=re.MULTILINE)[:1]
    text = re.sub(
        r"""(?P<line>(?<=[+-]REVISIONS = ).*?)"0023"|(?<!\d)(?:0023|0100|0101)(?!\d)""",
        lambda found: f"{found['line']}{later}" if found["line"] is not None else _NUMBERS[found.group()],
        text,
    )
    return text.replace(f" ## {HEAD_REVISION} separate_search_layout", f" {latest}")


def _blocks() -> Iterator[Block]:
    for mark, body in re.findall(r"<!-- example: ([^>]+) -->\n```[a-z]+\n(.*?)```\n", TEXT, flags=re.DOTALL):
        kind, _, file = mark.partition(" ")
        yield Block(kind, _today(file), _today(body))


BLOCKS = list(_blocks())


def test_every_mark_has_its_block() -> None:
    assert len(BLOCKS) == TEXT.count("<!-- example: ") > 10
    assert {block.kind for block in BLOCKS} == {"run", "fails", "change", "file"}


def _code(source: str) -> str:
    """The statements of a revision, without what is written for people."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _execute(tree: CopiedTree, block: Block) -> None:
    if block.kind == "change":
        tree.change(block.file, *block.body.split("@@\n"))
    elif block.kind == "file":
        target = tree.root / block.file
        if target.name.startswith(FIRST):
            # What was generated, with its headings filled in.
            assert _code(target.read_text(encoding="utf-8")) == _code(block.body)
        target.write_text(block.body, encoding="utf-8")
    else:
        for line in block.body.strip().splitlines():
            done = tree.run(*tree.command_line(line))
            assert (done.returncode != 0) == (block.kind == "fails"), f"{line}\n{done.stdout}{done.stderr}"
            if block.kind == "fails":
                assert "add column sessions.mood TEXT" in done.stdout + done.stderr


def test_the_examples_run_and_files_of_before_follow(tmp_path: Path, any_engine: Engine) -> None:
    tree = CopiedTree(tmp_path / "tree")
    old = [tmp_path / f"v{version}.db" for version in OLD_VERSIONS]
    for path, version in zip(old, OLD_VERSIONS, strict=True):
        build_version(path, load_driver(any_engine.driver).module, version, sessions=3, turns=2)
    adopted = tmp_path / "adopted.db"
    build_version(adopted, load_driver(any_engine.driver).module, 23, sessions=3, turns=2)
    Store.open(adopted).close()  # by the release before the change

    for block in BLOCKS:
        _execute(tree, block)

    for report in _opened(tree, *old, adopted):
        assert "sessions.mood" in report["columns_added"]
        assert report["revisions_run"][-2:] == [FIRST, SECOND]
    assert [report["changed"] for report in _opened(tree, tree.root / "scratch.db")] == [False]
    path = old[1]
    with opened(path, any_engine.driver) as raw:
        raw.execute("UPDATE sessions SET mood = 'calm'")
        before = all_rows(raw)
    assert tree.alembic(path, "downgrade", HEAD_REVISION).returncode == 0
    with opened(path, any_engine.driver) as raw:
        after = all_rows(raw)
    assert after.pop("alembic_version") == [{"version_num": HEAD_REVISION}]
    before.pop("alembic_version")
    for row in before["sessions"]:
        del row["mood"]
    assert after == before
    assert tree.alembic(path, "upgrade", "head").returncode == 0
    assert [report["changed"] for report in _opened(tree, path)] == [False]
    _further_than_it_goes(tree, path, any_engine)
    check_file(path, any_engine.driver)
    _release_of_before(path, any_engine)


def _opened(tree: CopiedTree, *paths: Path) -> list[dict[str, Any]]:
    """What opening each file did, by the code of the copy; afterwards its schema is the one that the copy declares."""
    reports = []
    for line in tree.succeed("python", "-c", OPEN_AND_LOOK, *paths).splitlines():
        report, proposed, missing, beyond = json.loads(line)
        assert (proposed, missing) == ([], [])
        assert not [each for each in beyond if "mood" in each]
        reports.append(report)
    assert len(reports) == len(paths)
    return reports


def _further_than_it_goes(tree: CopiedTree, path: Path, engine: Engine) -> None:
    """A downgrade that meets a revision of Hermes Agent leaves all as it was, the steps before it too."""
    with opened(path, engine.driver) as raw:
        before = set(rows(raw, "SELECT name, sql FROM sqlite_master")), all_rows(raw)
    done = tree.alembic(path, "downgrade", "0022")
    assert done.returncode != 0
    assert "IrreversibleMigration: revision 0023 cannot be taken back" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    with opened(path, engine.driver) as raw:
        assert (set(rows(raw, "SELECT name, sql FROM sqlite_master")), all_rows(raw)) == before


def _release_of_before(path: Path, engine: Engine) -> None:
    """This release does not know the revision: it refuses to write, and reads."""
    with pytest.raises(SchemaTooNew, match=f"revision {SECOND}"):
        Store.open(path)
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert len(reader.connection.sql("SELECT id FROM sessions")) > 1
