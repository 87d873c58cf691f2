"""Full-text search: indexes, their triggers, and the query language. All SQL that the ORM cannot say is here."""
