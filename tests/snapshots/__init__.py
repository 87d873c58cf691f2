"""Makers of database files of every age, sound and damaged: raw SQL only, without the library under test."""
