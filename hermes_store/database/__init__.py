"""The database floor: drivers, connections, journal mode, write doors, readers, file health. Knows no table names."""

from hermes_store.database.connection import connect
from hermes_store.database.driver import Driver, choose_driver, is_wal_reset_vulnerable, load_driver

__all__ = ["Driver", "choose_driver", "connect", "is_wal_reset_vulnerable", "load_driver"]
