"""Looking after a store: what it is, and whether it is well."""
