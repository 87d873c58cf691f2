"""A process beside the test: takes one JSON command per line, answers each with one JSON line.

Run as `python -m tests.process.child`. The engine comes from the environment.
"""

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hermes_store import HermesStoreError, SessionDB, Store, Unit, connect
from hermes_store.clock import SystemClock
from hermes_store.database import load_driver

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


def append_in_threads(path: str, writer: int, threads: int, appends: int) -> dict[str, list[float]]:
    """Append from many threads through one handle, to a session of this process and to one of all processes.

    Seconds that each append took, and that each unit waited until it began.
    """
    taken: list[float] = []
    waited: list[float] = []
    shared, own = "shared", f"own-{writer}"

    def work(thread: int) -> None:
        for turn in range(appends):
            session, content = (shared, own)[turn % 2], f"writer{writer} said w{writer}t{thread}n{turn} 部署完成了"
            called = time.perf_counter()
            began = called
            if turn % 4 < 2:
                db.append_message(session, "assistant", content, tool_calls=[{"id": "one"}, {"id": "two"}])
            elif turn % 4 == 2:

                def body(unit: Unit, session: str = session, content: str = content) -> float:
                    begun = time.perf_counter()
                    unit.append(session, "user", content)
                    return begun

                began = db.store.write(body, patience=60)
            else:
                with db.store.transaction(patience=60) as unit:
                    began = time.perf_counter()
                    unit.append(session, "user", content)
            taken.append(time.perf_counter() - called)
            if began != called:
                waited.append(began - called)

    with SessionDB(Path(path)) as db:
        db.create_session(own, "cli")
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(work, thread) for thread in range(threads)]:
                done.result()
    return {"taken": taken, "waited": waited}


def append_for_ever(path: str, session: str, size: int) -> None:
    """Say the id of every row once its append has returned."""
    db = SessionDB(Path(path))
    db.create_session(session, "cli")
    number = 0
    while True:
        number += 1
        say(db.append_message(session, "user", f"{session} says {number} " + "x" * size))


def hold(path: str, begin: str, key: str = "held") -> bool:
    """Begin a transaction, put a row into it, and keep it open."""
    connection = connect(path)
    connection.execute(begin)
    connection.execute("INSERT INTO state_meta(key, value) VALUES (?, 'yes')", (key,))
    kept.append(connection)
    return connection.in_transaction


def hold_snapshot(path: str) -> int:
    """Begin to read, and keep the snapshot; how many messages it has."""
    connection = connect(path)
    connection.execute("BEGIN")
    kept.append(connection)
    return count_again()


def count_again() -> int:
    """How many messages the snapshot has that is held."""
    found: int = kept[-1].execute("SELECT count(*) FROM messages").fetchone()[0]
    return found


def can_write(path: str) -> bool:
    """Whether the write lock is to be had now."""
    with closing(connect(path, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except load_driver(os.environ["HERMES_STORE_SQLITE_DRIVER"]).module.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def append_and_tell(path: str, session: str, text: str) -> int:
    """Append, telling before each pause for how many seconds the append has been under way."""
    began = time.monotonic()

    class Telling(SystemClock):
        @staticmethod
        def sleep(seconds: float) -> None:  # type: ignore[override]
            say(time.monotonic() - began)
            time.sleep(seconds)

    with Store.open(path, clock=Telling()) as store:
        began = time.monotonic()
        return store.append(session, "user", {"content": text})


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

    def fill() -> None:
        names = [path, path + "-wal", path + "-journal"]
        largest = max(Path(name).stat().st_size for name in names if Path(name).exists())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + spare, limits[1]))

    return _on_a_full_disk(path, size, fill, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))


def fill_a_small_disk(folder: str, spare: int, size: int, target: str) -> list[dict[str, Any]]:
    """The same on a file system that another file fills; in the end the store is copied to the target."""
    ballast = Path(folder, "ballast")

    def fill() -> None:
        with ballast.open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))
        os.truncate(ballast, max(0, ballast.stat().st_size - spare))

    path = Path(folder, "state.db")
    answers = _on_a_full_disk(str(path), size, fill, ballast.unlink)
    fill()
    answers.insert(-1, attempt(lambda: Store.open(Path(folder, "other.db")).close()))
    ballast.unlink()
    with Store.open(Path(folder, "other.db")) as store:
        store.write(lambda unit: unit.create_session("b", "cli"))
    shutil.copyfile(path, target)
    return answers


def _on_a_full_disk(
    path: str, size: int, fill: Callable[[], object], make_room: Callable[[], object]
) -> list[dict[str, Any]]:
    db = SessionDB(Path(path))
    db.create_session("a", "cli")
    db.append_message("a", "user", "before")
    fill()

    def body(unit: Unit) -> None:
        unit.create_session("b", "cli")
        unit.append("b", "user", "half")
        unit.append("b", "user", "y" * size)

    def transaction() -> None:
        with db.store.transaction() as unit:
            body(unit)

    answers = [
        attempt(lambda: db.append_message("a", "user", "x" * size)),
        attempt(lambda: db.append_message("a", "user", "x" * size)),
        attempt(lambda: db.store.write(body)),
        attempt(transaction),
        attempt(lambda: [each["content"] for each in db.get_messages("a")]),
    ]
    make_room()
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


def fork_and_leave(path: str, way: str) -> dict[str, Any]:
    """Fork with handles that are in use; the child leaves them in its way, and the parent goes on."""
    db = SessionDB(Path(path))
    raw = connect(path)
    db.create_session("a", "cli")
    db.append_message("a", "user", "before")
    reading = db.store.reader()
    inherited = reading.__enter__().messages.count() if db.store.journal_mode == "wal" else 1
    child = os.fork()
    if child == 0:
        if way == "end":
            # What the interpreter does at its end closes what is left; nobody answers for this copy.
            os.close(0)
            os.dup2(2, 1)
            sys.exit(0)
        code = 1
        try:
            if way == "close":
                db.close()
                db.close()
                raw.close()
            elif way == "with":
                with db, suppress(HermesStoreError):
                    db.get_session("a")
            else:
                del db, raw, reading
                gc.collect()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    files = sorted(each.name for each in Path(path).parent.iterdir() if each.name.startswith("state.db"))
    if db.store.journal_mode == "wal":
        reading.__exit__(None, None, None)
    with db.store.transaction() as unit:
        unit.append("a", "user", "after")
        kept.append(unit)
        say("in a unit")
        sys.stdin.readline()
    kept.clear()
    found = [each["content"] for each in db.get_messages("a")]
    raw.close()
    db.close()
    return {"code": os.waitstatus_to_exitcode(status), "inherited": inherited, "files": files, "found": found}


COMMANDS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        create_and_append,
        append_in_threads,
        append_for_ever,
        hold,
        hold_snapshot,
        count_again,
        can_write,
        append_and_tell,
        release,
        fill_the_disk,
        fill_a_small_disk,
        fork,
        fork_and_leave,
        fork_inside_a_unit,
    )
}


def main() -> None:
    say("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say(COMMANDS[name](**arguments))


if __name__ == "__main__":
    main()
