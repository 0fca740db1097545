"""The tables of the labelling store. Times are seconds since 1970, UTC; the same on SQLite and PostgreSQL.

Votes are only ever added. Which of them count follows from the lease they belong to: those of its newest `revision`,
while it is `done`. A changed vote is a new revision, an undone one leaves its lease open; the old rows stay.

A lease is a person's one and only relation to an item, and lasts for ever: it is how nobody sees an item twice
(unique item and annotator) and how no item gets a third first-pass vote (unique item and place). Its states: `held`
(being worked on, until `expires`), `done`, `lapsed` (not finished in time; the place is free again) and `skipped`.

`items.stage`, `rank` and `begun_by` say what an item waits for and are an index for the queue, rebuilt from votes and
leases with every change of an item. No label and no agreement is ever read from them.

The tables of the arena, in the same database and under the same people as labelling.

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

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import UniqueConstraint as Unique

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

projects = Table(
    "projects",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Float, nullable=False),
    Column("seed", Integer, nullable=False),  # of the side order and of the audit draw
    Column("guideline", String(100), nullable=False),  # its version, noted on every vote
    Column("lease_seconds", Float, nullable=False),
    Column("undo_seconds", Float, nullable=False),
    Column("audit_share", Float, nullable=False),
    Column("images", Text),  # the folder that pictures may come from
)

items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.id"), nullable=False),
    Column("name", String(500), nullable=False),  # the CER item's own id
    Column("position", Integer, nullable=False),
    Column("questions", String(100), nullable=False),  # comma-separated
    Column("content", Text, nullable=False),  # the CER item as JSON
    Column("images", Text, nullable=False),  # JSON list of paths in the order in which they are shown
    Column("stage", String(10), nullable=False),
    Column("rank", SmallInteger, nullable=False),
    Column("begun_by", Integer),  # who alone has taken a first-pass place; saves the queue a look at their leases
    UniqueConstraint("project", "name"),
    Index("ix_items_queue", "project", "rank", "position", "begun_by"),
    Index("ix_items_project_position", "project", "position"),
)

annotators = Table(
    "annotators",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("role", String(20), nullable=False),  # coordinator or annotator
    Column("token", String(64), unique=True),  # SHA-256; none: cannot come in (imported, or revoked)
    Column("paused", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    UniqueConstraint("project", "name"),
)

leases = Table(
    "leases",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("item", Integer, ForeignKey("items.id"), nullable=False),
    Column("annotator", Integer, ForeignKey("annotators.id"), nullable=False),
    Column("turn", String(10), nullable=False),  # first, third, audit
    Column("place", SmallInteger),  # 1, 2: first; 3: third; 4: audit; none: given back
    Column("state", String(10), nullable=False),
    Column("questions", String(100), nullable=False),  # what this person is asked
    Column("candidate_first", Boolean, nullable=False),
    Column("opened", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("finished", Float),
    Column("revision", Integer, nullable=False),
    Column("note", Text, nullable=False),
    UniqueConstraint("item", "annotator"),
    UniqueConstraint("item", "place"),
    Index("ix_leases_expiry", "state", "expires"),
    Index("ix_leases_annotator_state", "annotator", "state"),
)

votes = Table(
    "votes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lease", Integer, ForeignKey("leases.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("item", Integer, ForeignKey("items.id"), nullable=False),
    Column("annotator", Integer, ForeignKey("annotators.id"), nullable=False),
    Column("turn", String(10), nullable=False),
    Column("question", String(20), nullable=False),
    Column("answer", String(20), nullable=False),
    Column("at", Float, nullable=False),
    Column("seconds", Float),
    Column("candidate_first", Boolean),
    Column("guideline", String(100)),
    UniqueConstraint("lease", "revision", "question"),
    Index("ix_votes_item", "item"),
    Index("ix_votes_annotator_seconds", "annotator", "seconds"),
)

skips = Table(
    "skips",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lease", Integer, ForeignKey("leases.id"), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("distress", Boolean, nullable=False),
)

drafts = Table(
    "drafts",
    metadata,
    Column("lease", Integer, ForeignKey("leases.id"), primary_key=True),
    Column("answers", Text, nullable=False),  # JSON, as shown: first and second
    Column("note", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("at", Float, nullable=False),
)

audit_draws = Table(
    "audit_draws",
    metadata,
    Column("item", Integer, ForeignKey("items.id"), primary_key=True),
    Column("at", Float, nullable=False),
)

forms = Table(
    "forms",
    metadata,
    Column("form", String(64), primary_key=True),  # SHA-256 of the form's own random name
    Column("annotator", Integer, ForeignKey("annotators.id"), nullable=False),
    Column("at", Float, nullable=False, index=True),
)

refusals = Table(
    "refusals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Integer),
    Column("annotator", Integer),
    Column("at", Float, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("detail", Text, nullable=False),
    Column("address", String(100), nullable=False),
)


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
