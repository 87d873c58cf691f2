from hermes_store import SessionDB, Store


def test_a_message_is_stored_and_counted(db: SessionDB) -> None:
    db.create_session("a", "cli")
    row_id = db.append_message("a", "user", "hello")
    assert [(each["id"], each["content"]) for each in db.get_messages("a")] == [(row_id, "hello")]
    assert db.get_session("a")["message_count"] == 1


def test_a_unit_that_raises_leaves_nothing(store: Store) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    try:
        with store.transaction() as unit:
            unit.append("a", "user", "lost")
            unit.set_title("a", "lost")
            raise RuntimeError("stop")
    except RuntimeError:
        pass
    with store.reader() as reader:
        assert reader.messages.of_session("a") == []
        assert reader.titles.find("a") is None
