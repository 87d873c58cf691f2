"""Getting conversations out of a store, and into one."""
