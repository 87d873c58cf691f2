"""The rule of lineage edges in plain Python, for comparison with the walks of the store."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.sessions.raw import STARTED


@dataclass(frozen=True)
class Node:
    """A session, as far as its edge to the parent is concerned. `config` is the stored object, None for none."""

    id: str
    parent: str | None = None
    started_at: float = STARTED
    ended_at: float | None = None
    end_reason: str | None = None
    source: str = "cli"
    branched_from: str | None = None
    delegate_from: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the row, `model_config` as an object."""
        markers = {"_branched_from": self.branched_from, "_delegate_from": self.delegate_from}
        return {
            "source": self.source,
            "parent_session_id": self.parent,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "end_reason": self.end_reason,
            "model_config": {name: value for name, value in markers.items() if value is not None} or None,
        }


Graph = Mapping[str, Node]


def graph_of(nodes: Iterable[Node]) -> Graph:
    """The nodes by id."""
    return {node.id: node for node in nodes}


def kind_of_edge(graph: Graph, node: Node) -> str | None:
    """What the edge between a session and its parent is; None without a parent in the store."""
    parent = graph.get(node.parent) if node.parent is not None else None
    if parent is None:
        return None
    if node.delegate_from == parent.id:
        return "delegate"
    if node.branched_from == parent.id:
        return "branch"
    if parent.end_reason == "branched" and parent.ended_at is not None and node.started_at >= parent.ended_at:
        return "branch"
    if parent.end_reason == "compression" and node.source != "tool":
        return "continuation"
    return "plain"


def continuation_edges(graph: Graph) -> set[tuple[str, str]]:
    """Child and parent of every continuation edge."""
    return {
        (node.id, node.parent)
        for node in graph.values()
        if node.parent is not None and kind_of_edge(graph, node) == "continuation"
    }


def closure(start: Collection[str], edges: Iterable[tuple[str, str]]) -> set[str]:
    """Everything that can be reached from `start`, itself included."""
    pairs = list(edges)
    reached = set(start)
    while more := {target for origin, target in pairs if origin in reached} - reached:
        reached |= more
    return reached


def conversation(graph: Graph, session_id: str) -> set[str]:
    """All segments that continuation edges connect."""
    edges = continuation_edges(graph)
    return closure([session_id], edges | {(parent, child) for child, parent in edges})


def delegates(graph: Graph, session_ids: Collection[str]) -> set[str]:
    """Delegate runs of these sessions, by marker or as marked children, and theirs in turn."""
    edges = {
        (owner, node.id)
        for node in graph.values()
        if node.delegate_from is not None
        for owner in (node.delegate_from, node.parent)
        if owner is not None
    }
    return closure(session_ids, edges) - set(session_ids)


def root_to_tip(graph: Graph, session_id: str) -> list[str]:
    """The way down from the oldest ancestor, over edges of any kind."""
    way = [session_id]
    parent = graph[session_id].parent
    while parent is not None and parent in graph and parent not in way:
        way.insert(0, parent)
        parent = graph[parent].parent
    return way


def is_listed(graph: Graph, node: Node) -> bool:
    """Whether a list shows the session as the head of a conversation."""
    if node.delegate_from is not None:
        return False
    if node.parent is None:
        return True
    kind = kind_of_edge(graph, node)
    return kind == "branch" or (kind != "continuation" and node.branched_from is not None)
