"""Makers of database files for the tests: raw SQL only, without the library under test."""
