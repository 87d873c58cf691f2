"""The public names of the package with their signatures, as text.

Read from the sources, so that every version of Python prints the same. Write the snapshot anew with
`python -m tests.house.public_api`.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hermes_store

SNAPSHOT = Path(__file__).with_name("public_api.txt")
_ROOT = "hermes_store"


def describe() -> str:
    """One line per name, members indented below their class."""
    lines = [f"{_ROOT}:"]
    for name in sorted(hermes_store.__all__):
        lines.extend(_describe(name, getattr(hermes_store, name)))
    for module_name in ("errors", "models", "repositories"):
        module = importlib.import_module(f"{_ROOT}.{module_name}")
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
        ]
        lines.append(f"{_ROOT}.{module_name}:")
        for name in sorted(each for each in names if not each.startswith("_")):
            value = getattr(module, name)
            lines.extend([f"  {name}"] if module_name == "models" else _describe(name, value))
    return "\n".join(lines) + "\n"


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"  class {name}({bases})"
        for ancestor in value.__mro__:
            # What is inherited from another public class is listed there.
            if ancestor is value or (ancestor.__module__.startswith(_ROOT) and not _is_public(ancestor)):
                yield from _members(ancestor)
    elif inspect.isfunction(value):
        yield f"  {_signature(_parsed(value))}"
    else:
        yield f"  {name}: {type(value).__name__}"


def _is_public(cls: type) -> bool:
    return cls.__module__ == f"{_ROOT}.errors" or cls.__name__ in hermes_store.__all__


def _parsed(value: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _members(cls: type) -> Iterator[str]:
    """The public members that stand in the body of a class."""
    definition = _parsed(cls)
    assert isinstance(definition, ast.ClassDef)
    for node in definition.body:
        yield from (f"    {line}" for line in _member(node))


def _member(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if not node.name.startswith("_") or node.name == "__init__":
            marks = "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)
            yield f"{marks}{_signature(node)}"
    elif isinstance(node, ast.AnnAssign):
        if not ast.unparse(node.target).startswith("_"):
            yield ast.unparse(node)
    elif isinstance(node, ast.Assign):
        yield from (ast.unparse(node) for target in node.targets if not ast.unparse(target).startswith("_"))


def _signature(node: ast.stmt) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


if __name__ == "__main__":
    SNAPSHOT.write_text(describe(), encoding="utf-8")
