"""The members of the drop-in classes as one table: every public name with its signature and state."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from hermes_store.compat.methods import (
    activity,
    appends,
    compression,
    conversation,
    display,
    engine,
    exceptions,
    flags,
    fts,
    functions,
    gateway,
    handoff,
    lifecycle,
    lineage,
    listing,
    maintenance,
    model,
    portability,
    probes,
    reads,
    retention,
    rewind,
    rewrites,
    search,
    titles,
    topics,
    usage,
    workspace,
)
from hermes_store.compat.methods.table import Constant, Function, FunctionKind, Kind, Method, State

__all__ = [
    "BY_NAME",
    "CONSTANTS",
    "CONSTANTS_BY_NAME",
    "FUNCTIONS",
    "FUNCTIONS_BY_NAME",
    "METHODS",
    "Constant",
    "Function",
    "FunctionKind",
    "Kind",
    "Method",
    "State",
]

_Row = TypeVar("_Row", Method, Constant, Function)


def _by_name(rows: tuple[_Row, ...]) -> Mapping[str, _Row]:
    names = [row.name for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"listed twice: {', '.join(twice)}"
        raise ValueError(message)
    return MappingProxyType({row.name: row for row in rows})


METHODS: tuple[Method, ...] = (
    *lifecycle.METHODS,
    *titles.METHODS,
    *lineage.METHODS,
    *listing.METHODS,
    *workspace.METHODS,
    *flags.METHODS,
    *model.METHODS,
    *usage.METHODS,
    *activity.METHODS,
    *compression.METHODS,
    *gateway.METHODS,
    *handoff.METHODS,
    *retention.METHODS,
    *maintenance.METHODS,
    *topics.METHODS,
    *appends.METHODS,
    *rewrites.METHODS,
    *rewind.METHODS,
    *reads.METHODS,
    *conversation.METHODS,
    *display.METHODS,
    *probes.METHODS,
    *search.METHODS,
    *fts.METHODS,
    *portability.METHODS,
    *engine.METHODS,
)
BY_NAME: Mapping[str, Method] = _by_name(METHODS)

CONSTANTS: tuple[Constant, ...] = titles.CONSTANTS
CONSTANTS_BY_NAME: Mapping[str, Constant] = _by_name(CONSTANTS)

FUNCTIONS: tuple[Function, ...] = (*functions.FUNCTIONS, *exceptions.FUNCTIONS)
FUNCTIONS_BY_NAME: Mapping[str, Function] = _by_name(FUNCTIONS)
