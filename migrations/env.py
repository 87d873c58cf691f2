"""Alembic's entry; what it does is in the schema floor."""

from alembic import context

from hermes_store.schema import environment

environment.run(context)  # type: ignore[arg-type]  # the module stands for the environment that is active
