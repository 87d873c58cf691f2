"""Pure functions over message rows: encoding, replay, previews. No I/O of any kind."""
