"""Segments of the indexes: read from the structure record, merged by debt, in small steps, by whoever comes by."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store import Events, Store, Unit
from hermes_store.fts import keeper as keeper_module
from hermes_store.fts.segments import FRESH_LIMIT, LEVEL_LIMIT, MOST_STEPS, STEP_PAGES, Level, debt, levels, read_levels
from hermes_store.fts.state import check_indexes
from tests.database.helpers import query, second_connection
from tests.support.drivers import Engine

CHANGES = 12  # rows that one append of these tests changes, at least
INDEXES = ("messages_fts", "messages_fts_trigram")


def say(store: Store, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        store.append("a", "user", {"content": f"note {number} about docker"})


def fresh(store: Store) -> dict[str, int]:
    """Segments of single commits, by index."""
    with store.reader() as reader:
        return {name: read_levels(reader.connection, name)[0].segments for name in INDEXES}


def counts(store: Store) -> list[int]:
    with store.reader() as reader:
        return [level.segments for name in INDEXES for level in read_levels(reader.connection, name)]


@pytest.fixture
def talking(store: Store) -> Store:
    store.write(lambda unit: unit.create_session("a", "cli"))
    return store


# -- the record -------------------------------------------------------------------------------------------------


def number_of(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=8),
    st.booleans(),
    st.integers(0, 2**40),
)
def test_every_record_is_read(shape: list[tuple[int, int]], second: bool, counter: int) -> None:
    record = bytes(4) + (b"\xff\x00\x00\x01" if second else b"")
    record += number_of(len(shape)) + number_of(sum(count for _, count in shape)) + number_of(counter)
    for merging, count in shape:
        record += number_of(merging) + number_of(count)
        record += number_of(70_000) * count * (8 if second else 3)
    assert levels(record) == [Level(count, merging, pages=count) for merging, count in shape]


@given(st.binary(max_size=60))
def test_bytes_that_are_no_record_are_refused_or_read(record: bytes) -> None:
    try:
        found = levels(record)
    except ValueError:
        return
    assert all(level.segments >= 0 for level in found)


@pytest.mark.parametrize(
    ("found", "due"),
    [
        ([], 0),
        ([Level(FRESH_LIMIT - 1, 0), Level(LEVEL_LIMIT - 1, 0)], 0),
        ([Level(FRESH_LIMIT, 0)], 1),
        ([Level(LEVEL_LIMIT, 0, pages=STEP_PAGES)], 1),
        ([Level(LEVEL_LIMIT - 1, 0, pages=9 * STEP_PAGES)], 0),
        ([Level(0, 0), Level(LEVEL_LIMIT, 0)], 1),
        ([Level(0, 0), Level(2 * LEVEL_LIMIT, 0)], 2),
        ([Level(0, 0), Level(99 * LEVEL_LIMIT, 0)], MOST_STEPS),
        ([Level(3, 2)], 1),
    ],
)
def test_what_is_due(found: list[Level], due: int) -> None:
    assert debt(found) == due


# -- merging ----------------------------------------------------------------------------------------------------


def test_fts5_does_not_merge_in_the_middle_of_an_append(talking: Store) -> None:
    """By itself it would merge whatever has sixteen segments."""
    say(talking, 60)
    assert all(count > 32 for count in fresh(talking).values())


def test_segments_never_grow_without_bound(talking: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "LOOK_AFTER", 20 * CHANGES)
    for start in range(0, 400, 40):
        say(talking, 40, start)
        assert all(count <= FRESH_LIMIT + 20 for count in counts(talking))
    assert talking.counters.merges > 4
    talking.write(lambda unit: check_indexes(unit.connection))


def test_a_merge_is_bounded(talking: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "LOOK_AFTER", 70 * CHANGES)
    monkeypatch.setattr(keeper_module, "STEP_PAGES", 1)
    for number in range(141):
        # Words that no other message has, so that what is merged fills pages.
        words = " ".join(f"{number:03d}{word:x}" for word in range(300))
        talking.append("a", "user", {"content": words})
    with talking.reader() as reader:
        assert any(level.merging for name in INDEXES for level in read_levels(reader.connection, name))
    talking.write(lambda unit: check_indexes(unit.connection))


def test_what_short_lived_handles_leave_is_merged_by_the_next(engine: Engine, path: Path) -> None:
    """FTS-13: none of them makes enough commits to come to a look of its own."""
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
    for start in range(0, 300, 20):
        with Store.open(path) as store:
            say(store, 20, start)
            assert all(count <= FRESH_LIMIT + 20 for count in fresh(store).values())
    with Store.open(path) as store:
        store.write(lambda unit: check_indexes(unit.connection))


def test_a_handle_that_only_reads_merges_nothing(engine: Engine, path: Path) -> None:
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        say(store, 60)
        before = fresh(store)
        with Store.open(path) as reading, reading.reader() as reader:
            assert reader.messages.count() == 60
        assert fresh(store) == before


def test_nothing_of_it_stays_in_the_file(talking: Store, engine: Engine) -> None:
    """A peer that knows nothing of this goes on as ever."""
    say(talking, 40)
    for name in INDEXES:
        assert query(talking.path, engine, f"SELECT k, v FROM {name}_config") == [("version", 4)]
    assert query(talking.path, engine, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'hermes_store%'") == [(0,)]
    before = fresh(talking)
    with second_connection(talking.path, engine) as peer:
        for number in range(20):
            peer.execute(
                "INSERT INTO messages(session_id, role, content, timestamp, active) VALUES ('a', 'user', ?, 1, 1)",
                (f"peer {number}",),
            )
    assert all(count < before[name] for name, count in fresh(talking).items())
    talking.write(lambda unit: check_indexes(unit.connection))


def test_a_unit_that_fails_changes_nothing_of_it(talking: Store) -> None:
    say(talking, 20)

    def fail() -> None:
        with talking.transaction() as unit:
            unit.append("a", "user", "gone")
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail()
    say(talking, 40, 20)
    assert all(count > 32 for count in fresh(talking).values())
    talking.write(lambda unit: check_indexes(unit.connection))


def test_merges_are_told(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "LOOK_AFTER", 70 * CHANGES)
    told: list[str] = []

    class Listener(Events):
        def merged(self, *, index: str, seconds: float, pages: int) -> None:
            told.append(index)
            assert seconds >= 0
            assert pages in [STEP_PAGES * steps for steps in range(1, MOST_STEPS + 1)]

    with Store.open(path, events=Listener()) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        say(store, 80)
        assert store.counters.merges == len(told)
    assert sorted(set(told)) == sorted(INDEXES)


def test_large_units_leave_no_more_than_small_ones(talking: Store, engine: Engine) -> None:
    """A peer that merges a level as a whole would otherwise stall on what they leave."""
    for unit_number in range(40):

        def body(unit: Unit, start: int = unit_number * 60) -> None:
            for number in range(start, start + 60):
                unit.append("a", "user", " ".join(f"{number:05d}{word:x}" for word in range(60)))

        talking.write(body)
    assert all(count <= 2 * LEVEL_LIMIT for count in counts(talking))
    talking.write(lambda unit: check_indexes(unit.connection))
