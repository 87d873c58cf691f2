"""Help for the tests of applications: stores to try things on, and the check of an upgrade."""

from hermes_store.testing.upgrade import UpgradeCheck, check_upgrade

__all__ = ["UpgradeCheck", "check_upgrade"]
