"""What stands where: words that belong to one room, sizes of modules, and what the package is made of."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import hermes_store

ROOT = Path(__file__).parents[2]
PACKAGE = sorted([*(ROOT / "hermes_store").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")])
EVERYTHING = sorted([*PACKAGE, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

SEARCH_ROOM = ("hermes_store/fts/",)
WORDS = {
    r"\bMATCH\b": SEARCH_ROOM,
    r"(?i)create\s+trigger": SEARCH_ROOM,
    r"(?i)create\s+virtual\s+table": (*SEARCH_ROOM, "hermes_store/database/driver.py"),
    # Choosing a driver means asking what it can do, and translating an error means knowing its text.
    r"(?i)fts5": (*SEARCH_ROOM, "hermes_store/database/driver.py", "hermes_store/database/translation.py"),
    r"(?i)\bpragma \w+": ("hermes_store/database/", "hermes_store/schema/", "migrations/"),
    r"(?i)\b(begin immediate|rollback|commit)\b": ("hermes_store/database/",),
}
"""Words of SQL, and the rooms whose statements may hold them."""

ROOMS_WITH_SQL = (
    "hermes_store/database/",
    "hermes_store/fts/",
    "hermes_store/schema/",
    "hermes_store/maintenance/",
    "migrations/",
)
STATEMENT = re.compile(
    r"\s*(SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|ALTER\s+TABLE\s"
    r"|(CREATE|DROP)\s+(TABLE|INDEX|UNIQUE|VIEW|TRIGGER|VIRTUAL|TEMP))"
)


def _place(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


@cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def _docstrings(tree: ast.AST) -> set[int]:
    """Ids of the nodes that are documentation: strings that stand alone as a statement."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    }


def _strings(module: Path) -> Iterator[str]:
    """Every string of the code; documentation and comments left out, the variable parts of an f-string as `{}`."""
    tree = _tree(module)
    skipped = _docstrings(tree)
    inner: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped or id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_sql_stays_in_its_rooms(word: str) -> None:
    pattern = re.compile(word)
    holders = {_place(module) for module in PACKAGE if any(pattern.search(text) for text in _strings(module))}
    assert {place for place in holders if not place.startswith(WORDS[word])} == set()


@pytest.mark.parametrize("word", WORDS)
def test_the_scan_finds_the_word_where_it_belongs(word: str) -> None:
    pattern = re.compile(word)
    assert any(pattern.search(text) for module in PACKAGE for text in _strings(module))


def test_statements_as_text_stay_in_the_rooms_that_own_sql() -> None:
    strangers = {
        f"{_place(module)}: {text[:60]}"
        for module in PACKAGE
        if not _place(module).startswith(ROOMS_WITH_SQL)
        for text in _strings(module)
        if STATEMENT.match(text)
    }
    assert strangers == set()


def _imported(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


def test_drivers_are_imported_by_the_database_floor_and_the_errors_alone() -> None:
    holders = {_place(module) for module in EVERYTHING if _imported(module) & {"sqlite3", "pysqlite3"}}
    assert {
        place for place in holders if not place.startswith(("hermes_store/database/", "hermes_store/errors.py"))
    } == set()
    assert "hermes_store/errors.py" in holders


def test_click_and_rich_are_imported_by_the_command_line_alone() -> None:
    holders = {_place(module) for module in PACKAGE if _imported(module) & {"click", "rich"}}
    assert holders
    assert {place for place in holders if not place.startswith("hermes_store/cli/")} == set()


def test_alembic_is_imported_by_migrations_and_the_schema_floor_alone() -> None:
    holders = {_place(module) for module in PACKAGE if "alembic" in _imported(module)}
    assert holders
    assert {
        place
        for place in holders
        if not place.startswith(("migrations/", "hermes_store/schema/", "hermes_store/testing/"))
    } == set()


@pytest.mark.parametrize("module", EVERYTHING, ids=_place)
def test_no_module_is_above_600_lines(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 600


@pytest.mark.parametrize("module", PACKAGE, ids=_place)
def test_every_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(_tree(module))


def test_the_list_of_packages_is_complete() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    found = {".".join(each.parent.relative_to(ROOT).parts) for each in (ROOT / "hermes_store").rglob("__init__.py")}
    found |= {
        ".".join(("hermes_store", *each.parent.relative_to(ROOT).parts))
        for each in (ROOT / "migrations").rglob("__init__.py")
    }
    assert listed == found


def test_the_version_is_said_once() -> None:
    assert PROJECT["project"]["version"] == hermes_store.__version__


def test_the_package_carries_its_types() -> None:
    assert (ROOT / "hermes_store" / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["hermes_store"]
