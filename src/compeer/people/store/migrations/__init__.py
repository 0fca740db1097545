"""The steps by which older databases are brought up to date; `compeer.people.store.migrate` runs them."""

from __future__ import annotations
