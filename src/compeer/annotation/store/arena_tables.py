"""The tables of the arena, in the same database and under the same people as labelling.

An arena is a row of `projects` with a row of `arenas`; its people are `annotators`. A slot is one place for one vote:
a case, two models, and which of them stands on the left. Slots are made once, with the arena, and never change, so
that pairs and sides are balanced however people come and go.

A lease is a person's one and only relation to a comparison (a case and two models), whichever slot it was given for:
unique, so nobody compares the same two replies twice. `seat` is the slot while the lease takes it (`held`, `done`) and
empty when it was given back (`lapsed`, `skipped`): unique, so a slot holds one person. Its `name` is random and the
only thing a page knows a comparison by; numbers would tell which models are compared.

Votes are only ever added. One counts while its lease is `done` and it belongs to the lease's newest `revision`.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, SmallInteger, String, Table, Text
from sqlalchemy import UniqueConstraint as Unique

from compeer.annotation.store.tables import metadata

arenas = Table(
    "arenas",
    metadata,
    Column("project", Integer, ForeignKey("projects.id"), primary_key=True),
    Column("votes", SmallInteger, nullable=False),  # people for each comparison
    Column("focus", String(200)),  # the model that all others are compared with; none: all pairs
    Column("show_reasoning", Boolean, nullable=False),
    Column("closed", Float),  # when the coordinator ended it
)

arena_models = Table(
    "arena_models",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("position", SmallInteger, nullable=False),
    Unique("project", "name"),
)

arena_cases = Table(
    "arena_cases",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.id"), nullable=False),
    Column("name", String(500), nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Text, nullable=False),  # the case as JSON
    Unique("project", "name"),
)

arena_replies = Table(
    "arena_replies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("case", Integer, ForeignKey("arena_cases.id"), nullable=False),
    Column("model", Integer, ForeignKey("arena_models.id"), nullable=False),
    Column("content", Text, nullable=False),  # the reply as JSON
    Unique("case", "model"),
)

arena_slots = Table(
    "arena_slots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.id"), nullable=False),
    Column("case", Integer, ForeignKey("arena_cases.id"), nullable=False),
    Column("one", Integer, ForeignKey("arena_models.id"), nullable=False),  # of the pair, the earlier in the arena
    Column("two", Integer, ForeignKey("arena_models.id"), nullable=False),
    Column("place", SmallInteger, nullable=False),
    Column("one_left", Boolean, nullable=False),
    Column("position", Integer, nullable=False),  # the order in which they are given out
    Unique("case", "one", "two", "place"),
    Index("ix_arena_slots_queue", "project", "position"),
)

arena_leases = Table(
    "arena_leases",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("slot", Integer, ForeignKey("arena_slots.id"), nullable=False),
    Column("seat", Integer, ForeignKey("arena_slots.id"), unique=True),
    Column("case", Integer, ForeignKey("arena_cases.id"), nullable=False),
    Column("one", Integer, ForeignKey("arena_models.id"), nullable=False),
    Column("two", Integer, ForeignKey("arena_models.id"), nullable=False),
    Column("annotator", Integer, ForeignKey("annotators.id"), nullable=False),
    Column("state", String(10), nullable=False),
    Column("opened", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("finished", Float),
    Column("revision", Integer, nullable=False),
    Column("note", Text, nullable=False),
    Unique("annotator", "case", "one", "two"),
    Index("ix_arena_leases_expiry", "state", "expires"),
)

arena_votes = Table(
    "arena_votes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lease", Integer, ForeignKey("arena_leases.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("choice", String(10), nullable=False),  # as shown: first, second, both, neither
    Column("one_left", Boolean, nullable=False),
    Column("at", Float, nullable=False),
    Column("seconds", Float),
    Unique("lease", "revision"),
)

arena_skips = Table(
    "arena_skips",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lease", Integer, ForeignKey("arena_leases.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("distress", Boolean, nullable=False),
)
