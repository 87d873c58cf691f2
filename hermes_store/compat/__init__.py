"""The drop-in interface: `SessionDB`, and the table of everything that it has or is going to have."""

from hermes_store.compat.session_db import SessionDB

__all__ = ["SessionDB"]
