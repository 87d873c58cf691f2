"""The table of the drop-in interface says what there is (rule COMPAT-1)."""

import importlib
import inspect
from typing import Any

import pytest

import hermes_store
import hermes_store.compat
from hermes_store import SessionDB
from hermes_store.compat.methods import (
    BY_NAME,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    Function,
    Kind,
    Method,
    State,
)

BUILT = [row for row in METHODS if row.state is State.BUILT]
PLANNED = [row for row in METHODS if row.state is State.PLANNED]
REQUIRED = {
    "create_session", "get_session", "end_session", "reopen_session", "append_message", "get_messages",
    "get_messages_as_conversation", "set_session_title", "get_session_title", "resolve_session_by_title",
    "get_next_title_in_lineage", "search_messages", "list_sessions_rich", "export_session", "export_all",
    "prune_sessions", "clear_messages", "delete_session", "close",
}  # fmt: skip


def signature_text(member: Any) -> str:
    """The signature without annotations."""
    signature = inspect.signature(member)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


@pytest.fixture(scope="module")
def handle(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with SessionDB(tmp_path_factory.mktemp("table") / "state.db") as opened:
        yield opened


def test_what_this_release_promises_is_built() -> None:
    assert {row.name for row in BUILT} >= REQUIRED


@pytest.mark.parametrize("row", BUILT, ids=lambda row: row.name)
def test_a_built_member_has_exactly_its_signature(handle: SessionDB, row: Method) -> None:
    static = inspect.getattr_static(SessionDB, row.name)
    assert isinstance(static, property) is (row.kind is Kind.PROPERTY)
    assert isinstance(static, staticmethod) is (row.kind is Kind.STATIC)
    if row.kind is Kind.PROPERTY:
        assert row.signature == "()"
        getattr(handle, row.name)
    else:
        assert signature_text(getattr(handle, row.name)) == row.signature


@pytest.mark.parametrize("row", PLANNED, ids=lambda row: row.name)
def test_a_planned_member_says_so(handle: SessionDB, row: Method) -> None:
    with pytest.raises(AttributeError, match="planned") as refused:
        getattr(handle, row.name)
    assert f"SessionDB.{row.name}" in str(refused.value)
    assert not hasattr(SessionDB, row.name)


@pytest.mark.parametrize("name", ["bogus", "_bogus", "create_sessions", ""])
def test_an_unknown_name_is_not_planned(handle: SessionDB, name: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(handle, name)
    assert "planned" not in str(refused.value)


def test_every_public_attribute_is_in_the_table(handle: SessionDB) -> None:
    public = {name for name in (*dir(SessionDB), *vars(handle)) if not name.startswith("_")}
    assert public == {row.name for row in BUILT} | {row.name for row in CONSTANTS if row.state is State.BUILT}


def test_every_signature_can_be_read() -> None:
    for row in METHODS:
        namespace: dict[str, Any] = {}
        exec(f"def member{row.signature}: ...", namespace)
        assert signature_text(namespace["member"]) == row.signature, row.name


def test_no_name_stands_twice() -> None:
    names = [row.name for row in METHODS] + [row.name for row in CONSTANTS]
    assert len(names) == len(set(names))
    assert set(BY_NAME) == {row.name for row in METHODS}


@pytest.mark.parametrize("row", CONSTANTS, ids=lambda row: row.name)
def test_constants(row: Any) -> None:
    assert hasattr(SessionDB, row.name) is (row.state is State.BUILT)
    assert getattr(SessionDB, row.name, row.value) == row.value


def importable(name: str) -> bool:
    return any(hasattr(importlib.import_module(module), name) for module in ("hermes_store", "hermes_store.compat"))


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.name)
def test_a_name_beside_the_class_can_be_imported_once_it_is_built(row: Function) -> None:
    assert importable(row.name) is (row.state is State.BUILT)


def test_the_class_itself_has_exactly_its_signature() -> None:
    (row,) = [row for row in FUNCTIONS if row.name == "SessionDB"]
    assert signature_text(SessionDB) == row.signature


def test_the_class_is_the_same_from_both_places() -> None:
    assert hermes_store.SessionDB is hermes_store.compat.SessionDB
