"""Benchmarks: every case beside its floor, the same work written by hand on the same DB-API module."""
