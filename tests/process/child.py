"""A process beside the test: takes one JSON command per line, answers each with one JSON line.

Run as `python -m tests.process.child`. The engine comes from the environment.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_store import HermesStoreError, SessionDB, Store, connect

kept: list[Any] = []
"""Handles that outlive their command."""


def say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def create_and_append(path: str, session: str, count: int) -> list[int]:
    """Open the file, whatever is there, and append to a session of one's own."""
    with SessionDB(Path(path)) as db:
        db.create_session(session, "cli")
        return [db.append_message(session, "user", f"{session} says {number}") for number in range(count)]


def append_to(path: str, sessions: list[str], texts: list[str]) -> int:
    """Append every text to every session of an existing store, through one handle."""
    with SessionDB(Path(path)) as db:
        for text in texts:
            for session in sessions:
                db.append_message(session, "assistant", text, tool_calls=[{"id": text}])
    return len(sessions) * len(texts)


def append_for_ever(path: str, session: str, size: int) -> None:
    """Say the id of every row once its append has returned."""
    db = SessionDB(Path(path))
    db.create_session(session, "cli")
    number = 0
    while True:
        number += 1
        say(db.append_message(session, "user", f"{session} says {number} " + "x" * size))


def hold(path: str, begin: str) -> bool:
    """Begin a transaction, put a row into it, and keep it open."""
    connection = connect(path)
    connection.execute(begin)
    connection.execute("INSERT INTO state_meta(key, value) VALUES ('held', 'yes')")
    kept.append(connection)
    return connection.in_transaction


def release() -> None:
    """Commit what is held."""
    for connection in kept:
        connection.execute("COMMIT")
        connection.close()
    kept.clear()


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": action()}
    except HermesStoreError as exc:
        return {"error": [cls.__name__ for cls in type(exc).__mro__], "text": str(exc)}


def fill_the_disk(path: str, spare: int, size: int) -> list[dict[str, Any]]:
    """Append, then append what does not fit, in several ways, then append with room again."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    db = SessionDB(Path(path))
    db.create_session("a", "cli")
    db.append_message("a", "user", "before")
    names = [path, path + "-wal", path + "-journal"]
    largest = max(Path(name).stat().st_size for name in names if Path(name).exists())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + spare, limits[1]))

    def unit() -> None:
        with db.store.transaction() as unit:
            unit.create_session("b", "cli")
            unit.append("b", "user", "half")
            unit.append("b", "user", "y" * size)

    answers = [
        attempt(lambda: db.append_message("a", "user", "x" * size)),
        attempt(lambda: db.append_message("a", "user", "x" * size)),
        attempt(unit),
        attempt(lambda: [each["content"] for each in db.get_messages("a")]),
    ]
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    answers.append(attempt(lambda: db.append_message("a", "user", "after " + "z" * size) > 0))
    db.close()
    return answers


def fork(path: str) -> dict[str, Any]:
    """Use a handle in a forked child; says what happened there, and whether the parent's handle still works."""
    store = Store.open(path)
    store.write(lambda unit: unit.create_session("a", "cli"))
    reading = Store.open(path, read_only=True)

    def read(handle: Store) -> int:
        with handle.reader() as reader:
            return reader.sessions.count()

    def transaction() -> None:
        with store.transaction() as unit:
            unit.append("a", "user", "child, inherited")

    read(store)
    outgoing, incoming = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answers = {
                "write": attempt(lambda: store.write(lambda unit: unit.append("a", "user", "child, inherited"))),
                "append": attempt(lambda: store.append("a", "user", {"content": "child, inherited"})),
                "transaction": attempt(transaction),
                "read": attempt(lambda: read(store)),
                "read only": attempt(lambda: read(reading)),
            }
            with Store.open(path) as own:
                own.append("a", "user", {"content": "child, own handle"})
                answers["own"] = {"result": read(own)}
            os.write(incoming, json.dumps(answers).encode())
        finally:
            os._exit(0)
    os.close(incoming)
    with os.fdopen(outgoing, "rb") as stream:
        answers = json.loads(stream.read())
    os.waitpid(child, 0)
    store.append("a", "user", {"content": "parent"})
    answers["parent"] = {"result": read(store)}
    store.close()
    reading.close()
    return dict(answers)


def fork_inside_a_unit(path: str, way: str) -> Any:
    """Fork in the middle of a unit; the child comes out of its copy of it by an exception, or as if all were well."""
    store = Store.open(path)
    store.write(lambda unit: unit.create_session("a", "cli"))
    parent = os.getpid()
    outgoing, incoming = os.pipe()
    answer: Any = None
    try:
        with store.transaction() as unit:
            unit.append("a", "user", "first")
            child = os.fork()
            if child == 0 and way == "exception":
                raise SystemExit
            if child:
                os.close(incoming)
                with os.fdopen(outgoing, "rb") as stream:
                    answer = json.loads(stream.read())
                os.waitpid(child, 0)
                unit.append("a", "user", "second")
    except BaseException as exc:
        if os.getpid() == parent:
            raise
        os.write(incoming, json.dumps(type(exc).__name__).encode())
    finally:
        if os.getpid() != parent:
            os._exit(0)
    store.close()
    return answer


COMMANDS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (create_and_append, append_to, append_for_ever, hold, release, fill_the_disk, fork, fork_inside_a_unit)
}


def main() -> None:
    say("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say(COMMANDS[name](**arguments))


if __name__ == "__main__":
    main()
