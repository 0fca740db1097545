from __future__ import annotations

from tests.annotation.conftest import clock, database, postgres_server, store, told

__all__ = ["clock", "database", "postgres_server", "store", "told"]
