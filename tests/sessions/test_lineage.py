"""Walks over the edges between sessions agree with one rule, end on cycles, and reach any depth (rules LINEAGE-*)."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_store import Store
from tests.sessions import edges
from tests.sessions.edges import Graph, Node, graph_of
from tests.sessions.raw import STARTED, RawFile, insertion

REASONS = [None, "compression", "compression", "branched", "user_exit"]
NAMES = ["a", "b", "c", "d", "e", "f", "g"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to seven sessions whose parents and markers are any of them, cycles included, or nobody."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    anybody = st.one_of(st.none(), st.none(), st.sampled_from([*names, "gone"]))
    nodes = []
    for name in names:
        reason = draw(st.sampled_from(REASONS))
        nodes.append(
            Node(
                name,
                parent=draw(st.one_of(st.sampled_from(names), anybody.filter(lambda parent: parent != "gone"))),
                started_at=STARTED + draw(st.integers(0, 3)),
                ended_at=None if reason is None else STARTED + draw(st.integers(0, 3)),
                end_reason=reason,
                source=draw(st.sampled_from(["cli", "cli", "tool"])),
                branched_from=draw(anybody),
                delegate_from=draw(anybody),
            )
        )
    return graph_of(nodes)


def write(raw: RawFile, graph: Graph) -> None:
    statements = [("DELETE FROM sessions", ())]
    for node in graph.values():
        config = node.columns["model_config"]
        row = {**node.columns, "id": node.id, "model_config": None if config is None else json.dumps(config)}
        statements.append(insertion("sessions", row))
    raw.run(statements)


in_one_store = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
in_one_store_thorough = settings(in_one_store, max_examples=250)


def check_walks(store: Store, raw: RawFile, graph: Graph) -> None:
    write(raw, graph)
    continuations = edges.continuation_edges(graph)
    with store.reader() as reader:
        for name in graph:
            assert reader.lineage.root_to_tip(name) == edges.root_to_tip(graph, name)
            assert reader.lineage.continued_from(name) == edges.closure([name], continuations) - {name}
            assert reader.lineage.conversation_of([name]) == edges.conversation(graph, name)
            assert reader.lineage.delegates_of([name]) == edges.delegates(graph, [name])
            below = edges.closure([name], {(parent, child) for child, parent in continuations})
            found = {(each.id, each.parent_id) for each in reader.lineage.continuations([name])}
            assert found == {(child, parent) for child, parent in continuations if parent in below}
        together = {frozenset(edges.conversation(graph, child)) for child, _ in continuations}
        assert {frozenset(each) for each in reader.lineage.conversations()} == together


def check_list(store: Store, raw: RawFile, graph: Graph) -> None:
    from hermes_store.operations.listing import list_sessions
    from hermes_store.repositories.sessions import SessionFilter

    write(raw, graph)
    with store.reader() as reader:
        lines = list_sessions(reader, SessionFilter(), limit=-1)
    listed = {line.lineage_root_id or line.session.id for line in lines}
    assert listed == {node.id for node in graph.values() if edges.is_listed(graph, node)}
    for line in lines:
        assert line.session.id in edges.conversation(graph, line.lineage_root_id or line.session.id)


@in_one_store
@given(graph=graphs())
def test_every_walk_follows_the_one_rule(store: Store, raw: RawFile, graph: Graph) -> None:
    check_walks(store, raw, graph)


@in_one_store
@given(graph=graphs())
def test_the_list_follows_the_one_rule(store: Store, raw: RawFile, graph: Graph) -> None:
    check_list(store, raw, graph)


@pytest.mark.heavy
@in_one_store_thorough
@given(graph=graphs())
def test_every_walk_and_the_list_follow_the_one_rule_in_many_graphs(store: Store, raw: RawFile, graph: Graph) -> None:
    check_walks(store, raw, graph)
    check_list(store, raw, graph)


@in_one_store
@given(graph=graphs(), data=st.data())
def test_deleting_removes_the_conversation_with_its_delegates_and_nothing_else(
    store: Store, raw: RawFile, graph: Graph, data: st.DataObject
) -> None:
    write(raw, graph)
    chosen = data.draw(st.sampled_from(sorted(graph)))
    conversation = edges.conversation(graph, chosen)
    gone = conversation | edges.delegates(graph, conversation)
    removed = store.write(lambda unit: unit.delete_conversation(chosen))
    assert removed[0] == chosen
    assert gone <= set(removed)
    left = dict(raw.rows("SELECT id, parent_session_id FROM sessions"))
    assert set(left) == set(graph) - set(removed)
    assert left == {name: None if graph[name].parent in removed else graph[name].parent for name in left}


@pytest.mark.parametrize("session_id", ["nobody", ""])
def test_walks_from_an_unknown_session(store: Store, session_id: str) -> None:
    with store.reader() as reader:
        assert reader.lineage.root_to_tip(session_id) == [session_id]
        assert reader.lineage.continued_from(session_id) == set()
        assert reader.lineage.continuations([session_id]) == []
        assert reader.lineage.delegates_of([session_id]) == set()


def test_walks_have_no_limit_of_depth(store: Store, raw: RawFile) -> None:
    write(
        raw,
        graph_of(
            Node(
                f"s{number}",
                parent=f"s{number - 1}" if number else None,
                ended_at=STARTED,
                end_reason="compression",
            )
            for number in range(300)
        ),
    )
    with store.reader() as reader:
        assert reader.lineage.root_to_tip("s299") == [f"s{number}" for number in range(300)]
        assert len(reader.lineage.continued_from("s299")) == 299
        assert len(reader.lineage.conversation_of(["s150"])) == 300
        assert [len(each) for each in reader.lineage.conversations()] == [300]
