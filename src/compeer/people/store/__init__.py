"""The labelling store: SQLite in a file by default, PostgreSQL by URL.

tables      what is kept; arena_tables: what the arena adds
database    opening, transactions that are safe under many writers, the log of refusals
migrate     bringing an older database up to date, and refusing a newer one
migrations  the steps, one file each
"""

from __future__ import annotations

from compeer.people.store.database import Store, open_store

__all__ = ["Store", "open_store"]
