"""Changing the layout of the search indexes, and filling them in steps."""
