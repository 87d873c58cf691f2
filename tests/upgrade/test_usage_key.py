"""The usage table gets its key of six parts, whatever it had and whatever the stamp says, and no row is lost."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_store import SessionDB, Store
from tests.schema.inspecting import describe_file
from tests.snapshots.history import USAGE_FIVE_KEYS, USAGE_SIX_KEYS, create
from tests.snapshots.story import Row
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, golden_faults, kept, module_of, upgrade, use, values
from tests.upgrade.tables import (
    COUNTERS,
    LAST,
    LOOSE,
    OWNER,
    USAGE,
    USAGE_QUERY,
    USAGE_ROWS,
    USAGE_SEVEN_KEYS,
    USAGE_SHAPES,
    Merged,
    base_file,
    complete,
    cut,
    merge,
    reshape,
    stamp,
    usage_in,
)

SHAPES = pytest.mark.parametrize("shape", USAGE_SHAPES)
LEFTOVERS = ("session_model_usage_v21", "session_model_usage_legacy_pk")


def _usage(path: Path, driver: str) -> Merged:
    return usage_in(values(path, driver, USAGE_QUERY))


def _check_healed(path: Path, driver: str, rows: list[Row]) -> None:
    assert _usage(path, driver) == merge(rows)
    assert golden_faults(path, driver) == []
    assert describe_file(path, driver)[USAGE].foreign_keys
    check_quiet(path, driver)


STAMPS = [20, *(pytest.param(each, marks=pytest.mark.heavy) for each in (21, 22, 23, 24)), 25]


@pytest.mark.parametrize("number", STAMPS)
@SHAPES
def test_every_wrong_shape_is_healed_under_every_stamp(path: Path, one_driver: str, shape: str, number: int) -> None:
    base_file(path, one_driver)
    rows = cut(USAGE_ROWS, USAGE_SHAPES[shape])
    reshape(path, one_driver, USAGE, USAGE_SHAPES[shape], rows)
    stamp(path, one_driver, number)
    with kept(path, one_driver, but=(USAGE,)):
        report = upgrade(path)
    assert report.keys_healed == (USAGE,)
    assert report.revisions_run[-2:] == ("0022", "0023")
    assert values(path, one_driver, "SELECT version FROM schema_version") == [(max(23, number),)]
    _check_healed(path, one_driver, rows)


@SHAPES
def test_what_another_program_did_to_a_current_file_is_healed_too(path: Path, driver: str, shape: str) -> None:
    base_file(path, driver)
    upgrade(path)
    rows = cut(USAGE_ROWS, USAGE_SHAPES[shape])
    reshape(path, driver, USAGE, USAGE_SHAPES[shape], rows)
    report = upgrade(path)
    assert (report.adopted, report.keys_healed, report.revisions_run) == (False, (USAGE,), ("0022", "0023"))
    _check_healed(path, driver, rows)


@SHAPES
def test_usage_is_counted_after_that(path: Path, driver: str, shape: str) -> None:
    base_file(path, driver)
    reshape(path, driver, USAGE, USAGE_SHAPES[shape], cut(USAGE_ROWS, USAGE_SHAPES[shape]))
    with SessionDB(path) as db:
        for tokens in (1, 2):
            db.update_token_counts(OWNER, input_tokens=tokens, model="m3", billing_provider="p", billing_base_url="u")
        session = db.get_session(OWNER)
        assert session is not None
    spent = values(path, driver, f"SELECT input_tokens FROM {USAGE} WHERE model = 'm3'")
    assert spent == [(3,)]
    use(path, OWNER)
    assert values(path, driver, f"SELECT count(*) FROM {USAGE} WHERE session_id = ?", OWNER) == [(0,)]
    assert values(path, driver, f"SELECT input_tokens FROM {USAGE} WHERE session_id = 'gone'") == [(7,)]


def test_a_part_of_the_key_that_only_a_later_release_knows_stays(path: Path, driver: str) -> None:
    base_file(path, driver)
    reshape(path, driver, USAGE, USAGE_SEVEN_KEYS, [USAGE_ROWS[0] | {"host": "a"}])
    with kept(path, driver):
        assert upgrade(path).keys_healed == ()
    use(path, OWNER, delete=False)
    with SessionDB(path) as db:
        route: dict[str, Any] = {"model": "m1", "billing_provider": "p", "billing_base_url": "u1", "billing_mode": "b"}
        db.update_token_counts(OWNER, input_tokens=1, **route)
    assert values(path, driver, f"SELECT sum(input_tokens) FROM {USAGE} WHERE model = 'm1'") == [(11,)]
    check_quiet(path, driver)


WITHOUT_ROWID = {
    "five_parts": (*USAGE_FIVE_KEYS, "WITHOUT ROWID"),
    "six_parts": (*USAGE_SIX_KEYS, "WITHOUT ROWID"),
}
"""Tables without rowid."""


@pytest.mark.parametrize("shape", WITHOUT_ROWID)
def test_a_table_without_rowid_keeps_its_rows_and_is_used(path: Path, driver: str, shape: str) -> None:
    columns = WITHOUT_ROWID[shape]
    base_file(path, driver)
    rows = cut(USAGE_ROWS, columns)
    reshape(path, driver, USAGE, columns, rows)
    upgrade(path)
    assert _usage(path, driver) == merge(rows)
    assert golden_faults(path, driver) == []
    use(path, OWNER)
    check_quiet(path, driver)


# -- what others have there -------------------------------------------------------------------------------------

STRANGERS = (
    f"CREATE INDEX stranger_usage_by_note ON {USAGE} (note, last_seen DESC) WHERE note IS NOT NULL",
    f"CREATE VIEW stranger_spent AS SELECT session_id, sum(input_tokens) AS spent FROM {USAGE} GROUP BY session_id",
    "CREATE TABLE stranger_log (what TEXT)",
    (
        f"CREATE TRIGGER stranger_usage_added AFTER INSERT ON {USAGE} WHEN new.note IS NOT 'a:colon ? mark'"
        " BEGIN INSERT INTO stranger_log VALUES (new.model); END"
    ),
    (
        "CREATE TRIGGER stranger_message_added AFTER INSERT ON messages WHEN new.content = 'stranger'"
        f" BEGIN UPDATE {USAGE} SET note = 'seen' WHERE session_id = new.session_id; END"
    ),
    f"CREATE VIEW stranger_broken AS SELECT no_such_column FROM {USAGE}",
)
"""Objects of other programs over the usage table, which has two columns of theirs."""


def test_columns_indexes_triggers_and_views_of_others_stay(path: Path, driver: str) -> None:
    base_file(path, driver)
    columns = (*USAGE_FIVE_KEYS[:-1], "note TEXT", "weight INTEGER NOT NULL DEFAULT 7", '"odd ""name" BLOB',
               "strict TEXT NOT NULL", USAGE_FIVE_KEYS[-1])  # fmt: skip
    rows = [row | {"note": f"note {place}", "weight": place, "strict": "s"} for place, row in enumerate(USAGE_ROWS)]
    reshape(path, driver, USAGE, columns, [{**row} for row in cut(rows, columns)], *STRANGERS)
    alter(path, module_of(driver), f"UPDATE {USAGE} SET \"odd \"\"name\" = x'00ff' WHERE model = 'm2'")
    named = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name LIKE 'stranger_%' ORDER BY name"
    before = values(path, driver, named)
    upgrade(path)
    assert values(path, driver, named) == before
    assert _usage(path, driver) == merge(rows)
    held = values(path, driver, f'SELECT model, note, weight, "odd ""name", strict FROM {USAGE} ORDER BY note')
    assert held == [
        ("m1", "note 0", 0, None, "s"),
        ("m2", "note 1", 1, b"\x00\xff", "s"),
        ("m1", "note 2", 2, None, "s"),
    ]
    assert values(path, driver, "SELECT * FROM stranger_log") == []
    assert values(path, driver, "SELECT spent FROM stranger_spent ORDER BY session_id") == [(15,), (7,)]
    with SessionDB(path) as db:
        db.append_message(OWNER, "user", "stranger")
        db.update_token_counts(OWNER, input_tokens=1, model="m9")
    assert values(path, driver, f"SELECT DISTINCT note FROM {USAGE} WHERE session_id = ?", OWNER) == [
        ("seen",),
        (None,),
    ]
    assert values(path, driver, "SELECT * FROM stranger_log") == [("m9",)]
    check_quiet(path, driver)


def test_a_table_of_others_that_refers_to_usage_still_does(path: Path, driver: str) -> None:
    base_file(path, driver)
    reshape(path, driver, USAGE, USAGE_SHAPES["reversed"], USAGE_ROWS)
    key = "session_id, model, billing_provider, billing_base_url, billing_mode, task"
    typed = ", ".join(f"{name} TEXT" for name in key.split(", "))
    alter(
        path,
        module_of(driver),
        f"CREATE TABLE stranger_bills ({typed}, FOREIGN KEY ({key}) REFERENCES {USAGE} ({key}) ON DELETE SET NULL)",
        f"INSERT INTO stranger_bills SELECT {key} FROM {USAGE} WHERE model = 'm2'",
    )
    upgrade(path)
    with SessionDB(path) as db:
        assert db.delete_session(OWNER)
    assert values(path, driver, "SELECT session_id FROM stranger_bills") == [(None,)]


def test_the_indexes_of_the_table_come_back(path: Path, one_driver: str) -> None:
    base_file(path, one_driver)
    reshape(path, one_driver, USAGE, USAGE_FIVE_KEYS, cut(USAGE_ROWS, USAGE_FIVE_KEYS))
    upgrade(path)
    assert [name for name, _ in describe_file(path, one_driver)[USAGE].indexes] == [
        "idx_session_model_usage_model",
        "idx_session_model_usage_session",
    ]


# -- any rows ---------------------------------------------------------------------------------------------------

_ids = st.sampled_from([OWNER, "gone", "", None])
_texts = st.sampled_from(["", "a", None])
_numbers = st.one_of(st.none(), st.integers(0, 2**40))
_costs = st.one_of(st.none(), st.integers(0, 2**20).map(lambda quarters: quarters / 4))
_times = st.one_of(st.none(), st.sampled_from([1.0, 2.0, 3.0, 4.0]))


@st.composite
def usage_rows(draw: st.DrawFn) -> list[Row]:
    """Rows of which several may have one key."""
    row = st.fixed_dictionaries(
        {
            "session_id": _ids,
            "model": st.sampled_from(["m", "unknown", None]),
            **dict.fromkeys(("billing_provider", "billing_base_url", "task"), _texts),
            "billing_mode": st.just(""),
            **dict.fromkeys(COUNTERS[:6], _numbers),
            **dict.fromkeys(COUNTERS[6:], _costs),
            "cost_status": st.sampled_from(["actual", "unknown", None]),
            "cost_source": st.none(),
            "first_seen": _times,
        }
    )
    rows = draw(st.lists(row, max_size=6))
    # Rows seen last at the same time have no order.
    last = draw(st.lists(st.integers(5, 10_000).map(float), min_size=len(rows), max_size=len(rows), unique=True))
    return [each | {"last_seen": at} for each, at in zip(rows, last, strict=True)]


@pytest.fixture
def base(path: Path, one_driver: str) -> bytes:
    base_file(path, one_driver)
    return path.read_bytes()


_FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _sums(rows: Any) -> dict[str, float]:
    held = [complete(row) for row in rows]
    return {name: sum(row[name] for row in held) for name in COUNTERS}


@_FEW
@given(rows=usage_rows())
def test_rows_of_one_key_are_added_up_and_nothing_else(
    path: Path, one_driver: str, base: bytes, rows: list[Row]
) -> None:
    path.write_bytes(base)
    reshape(path, one_driver, USAGE, LOOSE, rows)
    upgrade(path)
    after = _usage(path, one_driver)
    assert after == merge(rows)
    assert _sums(after.values()) == _sums(rows)


@_FEW
@given(left=usage_rows(), present=usage_rows())
@pytest.mark.parametrize("leftover", LEFTOVERS)
def test_a_row_that_an_interrupted_rebuild_left_twice_counts_once(
    path: Path, one_driver: str, base: bytes, leftover: str, left: list[Row], present: list[Row]
) -> None:
    path.write_bytes(base)
    present = list(merge(present).values())
    reshape(path, one_driver, USAGE, USAGE_SIX_KEYS, present)
    reshape(path, one_driver, leftover, LOOSE, left)
    report = upgrade(path)
    assert report.leftovers_adopted == (leftover,)
    after = _usage(path, one_driver)
    assert after == merge(present, into=merge(left))
    for name in COUNTERS:
        total = sum(row[name] for row in after.values())
        assert max(_sums(left)[name], _sums(present)[name]) <= total <= _sums(left)[name] + _sums(present)[name]


def test_a_table_with_a_broken_key_and_a_leftover_is_both(path: Path, driver: str) -> None:
    base_file(path, driver)
    left = [row | {"first_seen": 50.0} for row in USAGE_ROWS]
    present = cut([row | {"first_seen": 900.0, "last_seen": 901.0} for row in USAGE_ROWS], USAGE_FIVE_KEYS)
    reshape(path, driver, USAGE, USAGE_FIVE_KEYS, present)
    alter(path, module_of(driver), create(LEFTOVERS[0], LOOSE))
    reshape(path, driver, LEFTOVERS[0], LOOSE, left)
    with Store.open(path) as store:
        assert (store.report.keys_healed, store.report.leftovers_adopted) == ((USAGE,), (LEFTOVERS[0],))
    assert _usage(path, driver) == merge(present, into=merge(left))
    assert _sums(_usage(path, driver).values()) == {name: _sums(left)[name] * 2 for name in COUNTERS}
    assert {row[name] for row in _usage(path, driver).values() for name in LAST[2:3]} == {50.0}
