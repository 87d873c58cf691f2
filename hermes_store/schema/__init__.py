"""Bringing any database to the current shape, and the two version lines of a file."""
