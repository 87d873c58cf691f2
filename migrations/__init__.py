"""The Alembic environment of the store and its revisions; installed as `hermes_store.migrations`."""
