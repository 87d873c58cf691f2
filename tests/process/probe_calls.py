"""Everything that a store has to offer, as calls by name on handles that live through all of them."""

import asyncio
import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_store import (
    AsyncSessionDB,
    AsyncStore,
    HermesStoreError,
    NewUsage,
    SearchFilter,
    SessionDB,
    Store,
    connect,
)
from hermes_store.cli.main import main as command_line
from hermes_store.compat import acquire, release, release_or_close
from hermes_store.maintenance.check_upgrade import check_upgrade
from hermes_store.maintenance.info import describe
from hermes_store.maintenance.optimize import is_optimize_available, optimize_storage
from hermes_store.models import Session
from tests.process.watching import Watch
from tests.snapshots.build import build_version
from tests.support.clocks import FakeClock


class World:
    """Handles on one file, which live through all calls."""

    def __init__(self, path: Path, watch: Watch) -> None:
        self.path = path
        self.watch = watch
        watch.add(path)
        self.store = Store.open(path)
        self.db = SessionDB(path)
        self.folder = path.parent / "beside"
        self.folder.mkdir(exist_ok=True)
        self.link = self.folder / "link.db"
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(path)
        self._others = 0

    def other(self) -> Path:
        """A path for another file, which is watched too."""
        self._others += 1
        found = self.folder / f"other-{self._others}.db"
        self.watch.add(found)
        return found

    def close(self) -> None:
        self.db.close()
        self.store.close()


# -- everything that there is -------------------------------------------------------------------------------------


def open_and_close(world: World) -> None:
    """By every spelling and in every way; each time one of several handles on the file is closed."""
    for path in (world.path, str(world.path), os.path.relpath(world.path), world.link):
        for options in ({}, {"read_only": True}, {"create": False}, {"backup": True}):
            with Store.open(path, **options) as store, store.reader() as reader:  # type: ignore[arg-type]
                reader.sessions.count()


def append_and_read(world: World) -> None:
    for number in range(60):  # a checkpoint is among them
        world.store.append("kept", "user", {"content": f"otter {number}"})
    read(world)


def read(world: World) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            reader = stack.enter_context(world.store.reader())
            reader.messages.of_session("kept")
            reader.search.messages("otter")
            reader.search.messages("otter", SearchFilter(roles=("user",)), limit=None)
            reader.search.plan("otter")


def write(world: World) -> None:
    def body(unit: Any) -> None:
        unit.create_session("other", "cli")
        unit.append("other", "user", "otter")
        unit.record_usage("other", NewUsage(input_tokens=1))
        unit.end_session("other", "done")
        unit.delete_conversation("other")
        unit.prune(older_than_days=1)

    world.store.write(body)
    with contextlib.suppress(KeyError):
        world.store.write(lambda unit: os.environ[f"no such name {unit.sessions.count()}"])


def transaction(world: World) -> None:
    with world.store.transaction(transcripts=["kept"]) as unit:
        unit.append("kept", "user", "otter")
        unit.orm.add(Session(id=f"orm-{unit.messages.count()}", source="cli", started_at=1.0))


STORE_CALLS: dict[str, Callable[[World], object]] = {
    "open": open_and_close,
    "close": open_and_close,
    "reader": read,
    "append": append_and_read,
    "write": write,
    "transaction": transaction,
    "vacuum": lambda world: world.store.vacuum(),
    **{
        name: lambda world, name=name: getattr(world.store, name)  # type: ignore[misc]
        for name in (
            "path",
            "driver",
            "journal_mode",
            "read_only",
            "clock",
            "settings",
            "report",
            "counters",
            "in_unit",
        )
    },
}
"""What a `Store` has, by name."""


def with_session(call: Callable[[SessionDB, str], object]) -> Callable[[World], object]:
    """A call on a session of its own."""

    def prepared(world: World) -> None:
        world.db.create_session("own", "cli")
        world.db.append_message("own", "user", "otter of my own")
        call(world.db, "own")

    return prepared


DB_CALLS: dict[str, Callable[[World], object]] = {
    "create_session": with_session(lambda db, own: db.create_session(own, "cli", model="m")),
    "get_session": lambda world: world.db.get_session("kept"),
    "end_session": with_session(lambda db, own: db.end_session(own, "done")),
    "reopen_session": with_session(lambda db, own: db.reopen_session(own)),
    "sanitize_title": lambda world: world.db.sanitize_title(" title "),
    "set_session_title": with_session(lambda db, own: db.set_session_title(own, "Other otters")),
    "get_session_title": lambda world: world.db.get_session_title("kept"),
    "resolve_session_by_title": lambda world: world.db.resolve_session_by_title("Otters"),
    "get_next_title_in_lineage": lambda world: world.db.get_next_title_in_lineage("Otters"),
    "list_sessions_rich": lambda world: world.db.list_sessions_rich(limit=None),
    "update_token_counts": with_session(lambda db, own: db.update_token_counts(own, 5, model="m")),
    "queue_token_counts": with_session(lambda db, own: db.queue_token_counts(own, input_tokens=5)),
    "flush_token_counts": with_session(lambda db, own: db.flush_token_counts()),
    "append_message": with_session(lambda db, own: db.append_message(own, "user", ["otter"])),
    "clear_messages": with_session(lambda db, own: db.clear_messages(own)),
    "get_messages": lambda world: world.db.get_messages("kept"),
    "get_messages_as_conversation": lambda world: world.db.get_messages_as_conversation("kept"),
    "search_messages": lambda world: world.db.search_messages("otter"),
    "fts_rebuild_status": lambda world: world.db.fts_rebuild_status(),
    "fts_rebuild_step": lambda world: world.db.fts_rebuild_step(),
    "fts_optimize_available": lambda world: world.db.fts_optimize_available(),
    "optimize_fts_storage": lambda world: world.db.optimize_fts_storage(),
    "export_session": lambda world: world.db.export_session("kept"),
    "export_all": lambda world: world.db.export_all(),
    "delete_session": with_session(lambda db, own: db.delete_session(own, sessions_dir=db.db_path.parent)),
    "prune_sessions": with_session(lambda db, own: db.prune_sessions(older_than_days=0)),
    "db_path": lambda world: world.db.db_path,
    "store": lambda world: world.db.store,
    "close": lambda world: SessionDB(world.link).close(),
}
"""What the built part of `SessionDB` has, by name."""


def connections(world: World) -> None:
    """Raw connections, closed and forgotten."""
    for path in (world.path, world.link):
        for read_only in (False, True):
            raw = connect(path, read_only=read_only, timeout=0)
            raw.execute("SELECT count(*) FROM messages").fetchall()
            raw.close()
    connect(world.path).execute("SELECT 1")


def refused(world: World) -> None:
    """The check of upgrades copies a file, and does not copy one that is open."""
    for path in (world.path, world.link):
        assert not check_upgrade(path).ok


def commands(world: World) -> None:
    """The command line, in this process."""
    for arguments in (
        ["db", "info"],
        ["--json", "db", "info"],
        ["db", "upgrade", "--backup"],
        ["db", "check"],
        ["db", "current"],
        ["db", "history"],
        ["db", "check-upgrade", str(world.path)],
        ["sessions", "list"],
        ["sessions", "show", "kept"],
        ["sessions", "search", "otter"],
        ["sessions", "search", "otter", "--explain"],
        ["sessions", "stats"],
        ["sessions", "export", "-o", str(world.folder / "export.jsonl")],
        ["sessions", "optimize-storage", "--yes"],
    ):
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            command_line(["--db", str(world.path), *arguments])


def maintenance(world: World) -> None:
    describe(world.store)
    is_optimize_available(world.store)
    optimize_storage(world.store)


def two_handles(world: World) -> None:
    """One of two handles is closed, and one is forgotten, while a snapshot of the other is in use."""
    one, two = Store.open(world.path), Store.open(world.link)
    with one.reader() as reader:
        reader.sessions.count()
        two.close()
        reader.sessions.count()
    del one


def upgrades(world: World) -> None:
    """An old file is copied, upgraded, and brought to today's indexes."""
    path = world.other()
    with world.watch.closed_eyes():
        build_version(path, world.store.driver.module, 22, sessions=2, turns=2)
    for backup in (path.with_suffix(".copy"), True):
        with Store.open(path, backup=backup, clock=FakeClock()) as store:
            optimize_storage(store)


def lost_files(world: World) -> None:
    """The log, or the file itself, is taken away or replaced while a handle lives; the handle may say so."""
    for suffix, replaced in (("-wal", False), ("-shm", True), ("", True)):
        path = world.other()
        with contextlib.suppress(HermesStoreError), Store.open(path) as store:
            store.write(lambda unit: unit.create_session("a", "cli"))
            with world.watch.closed_eyes():
                name = path.with_name(path.name + suffix)
                name.rename(name.with_suffix(".away")) if name.exists() else None
                if replaced:
                    name.touch()
            store.append("a", "user", {"content": "into the void?"})


def asynchronous(world: World) -> None:
    """The same handles by way of threads."""

    async def use() -> None:
        async with await AsyncStore.open(world.path) as store:
            await store.read(lambda reader: reader.messages.of_session("kept"))
            await store.append("kept", "user", {"content": "otter"})
            await store.write(lambda unit: unit.append("kept", "user", "otter"))
            await store.vacuum()
        db = AsyncSessionDB(SessionDB(world.link))
        await db.get_messages("kept")
        await db.append_message("kept", "user", "otter")
        await db.close()

    asyncio.run(use())


def used_after_close(world: World) -> None:
    """A drop-in handle opens its file again."""
    db = SessionDB(world.link)
    db.close()
    db.get_messages("kept")
    db.append_message("kept", "user", "otter")
    db.close()


def shared_handles(world: World) -> None:
    """One handle of many owners, whose last one closes it."""
    one, two = acquire(world.path), acquire(world.link)
    one.get_messages("kept")
    release(one)
    two.append_message("kept", "user", "otter")
    release_or_close(two)


OTHER_CALLS: dict[str, Callable[[World], object]] = {
    each.__name__: each
    for each in (
        connections,
        refused,
        commands,
        maintenance,
        two_handles,
        upgrades,
        lost_files,
        asynchronous,
        used_after_close,
        shared_handles,
    )
}

CALLS = {
    **{f"Store.{name}": call for name, call in STORE_CALLS.items()},
    **{f"SessionDB.{name}": call for name, call in DB_CALLS.items()},
    **OTHER_CALLS,
}
