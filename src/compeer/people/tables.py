"""The tables of the store. Times are seconds since 1970, UTC; the same on SQLite and PostgreSQL.

Labelling and arena have the same structure: something to judge (an item; a slot of an arena), leases, votes, skips.

A lease is a person's one and only relation to one thing, for ever. Its states: `held` (being worked on, until
`expires`), `done`, `lapsed` (not finished in time), `skipped`, `withheld` and `discarded`. While it is held, done or
withheld it takes a place, which is empty otherwise. Unique constraints make the rules: nobody sees an item twice (item
and annotator) and no item gets a third first-pass vote (item and place); nobody compares the same two replies twice,
and a slot holds one person (seat).

Votes are only ever added. Those of a lease's newest `revision` count, while it is `done`. A changed vote is a new
revision, an undone one leaves its lease open; the old rows stay.

`items.stage`, `rank` and `begun_by` are an index for the queue, rebuilt from votes and leases with every change of an
item. No label and no agreement is ever read from them.

A person is a row of `accounts`, with one link for everything; for each project or arena that they take part in they
have a row of `annotators`, which all votes refer to. The token of a link is kept as a hash. `annotators.token` says
that this row may be used: it is empty for people who were imported with their votes, and after their access was ended.

A finished lease whose votes must not count is `withheld` (it keeps its place while a coordinator decides) or
`discarded` (the place is free again); its votes stay.

Items with known answers have the stage `gold`, `practice` or `off`, and never a label. A lease of a gold item takes no
place, so that everybody can be given it.

An arena is a row of `projects` with a row of `arenas`. A slot is a place for one vote: a case, two models, and which of
them stands on the left. Slots are made once and never change, so pairs and sides stay balanced however people come and
go. The random `name` of an arena's lease is all that a page knows it by: numbers would tell which models are compared.
"""

from __future__ import annotations

from typing import Any

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

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _key() -> Column[Any]:
    return Column("id", Integer, primary_key=True)


def _reference(name: str, table: str, **more: Any) -> Column[Any]:
    return Column(name, Integer, ForeignKey(f"{table}.id"), **({"nullable": False} | more))


def _lease_columns() -> tuple[Column[Any], ...]:
    """What leases of both kinds have."""
    return (
        _reference("annotator", "annotators"),
        Column("state", String(10), nullable=False),
        Column("opened", Float, nullable=False),
        Column("expires", Float, nullable=False),
        Column("finished", Float),
        Column("revision", Integer, nullable=False),
        Column("note", Text, nullable=False),
    )


def _skip_columns() -> tuple[Column[Any], ...]:
    return (
        Column("at", Float, nullable=False),
        Column("reason", Text, nullable=False),
        Column("distress", Boolean, nullable=False),
    )


projects = Table(
    "projects",
    metadata,
    _key(),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Float, nullable=False),
    Column("seed", Integer, nullable=False),  # of the side order and of the audit draw
    Column("guideline", String(100), nullable=False),  # its version, noted on every vote
    Column("lease_seconds", Float, nullable=False),
    Column("undo_seconds", Float, nullable=False),
    Column("audit_share", Float, nullable=False),
    Column("images", Text),  # the folder that pictures may come from
    Column("quality", Text),  # settings of `quality` as JSON; none: the defaults
    Column("quota", Integer),  # most items per person, unless the person has one of their own
    Column("questions", Text),  # questions of the project's own as JSON
)

guidelines = Table(
    "guidelines",
    metadata,
    _key(),
    _reference("project", "projects"),
    Column("version", String(100), nullable=False),
    Column("at", Float, nullable=False),
    Column("content", Text, nullable=False),  # texts by question as JSON
    UniqueConstraint("project", "version"),
)

items = Table(
    "items",
    metadata,
    _key(),
    _reference("project", "projects"),
    Column("name", String(500), nullable=False),  # the CER item's own id
    Column("position", Integer, nullable=False),
    Column("questions", String(100), nullable=False),  # comma-separated
    Column("content", Text, nullable=False),  # the CER item as JSON
    Column("images", Text, nullable=False),  # JSON list of paths in the order in which they are shown
    Column("stage", String(10), nullable=False),
    Column("rank", SmallInteger, nullable=False),
    Column("language", String(10), nullable=False, server_default=""),
    Column("begun_by", Integer),  # who alone has taken a first-pass place; saves the queue a look at their leases
    UniqueConstraint("project", "name"),
    Index("ix_items_queue", "project", "rank", "position", "begun_by"),
    Index("ix_items_project_position", "project", "position"),
)

accounts = Table(
    "accounts",
    metadata,
    _key(),
    Column("name", String(200), nullable=False),
    Column("role", String(20), nullable=False),  # coordinator or annotator
    Column("token", String(64), nullable=False, unique=True),  # SHA-256 of the link's token
    Column("languages", String(100), nullable=False),  # comma-separated; empty: all
    Column("created", Float, nullable=False),
)

annotators = Table(
    "annotators",
    metadata,
    _key(),
    _reference("project", "projects"),
    Column("name", String(200), nullable=False),
    Column("role", String(20), nullable=False),  # coordinator or annotator
    Column("token", String(64), unique=True),  # random; none: cannot come in (imported, or revoked)
    Column("paused", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    _reference("account", "accounts", nullable=True),
    Column("quota", Integer),  # most items for this person; none: the project's
    UniqueConstraint("project", "name"),
)

leases = Table(
    "leases",
    metadata,
    _key(),
    _reference("item", "items"),
    Column("turn", String(10), nullable=False),  # first, third, audit
    Column("place", SmallInteger),  # 1, 2: first; 3: third; 4: audit; none: given back
    Column("questions", String(100), nullable=False),  # what this person is asked
    Column("candidate_first", Boolean, nullable=False),
    *_lease_columns(),
    UniqueConstraint("item", "annotator"),
    UniqueConstraint("item", "place"),
    Index("ix_leases_expiry", "state", "expires"),
    Index("ix_leases_annotator_state", "annotator", "state"),
)

votes = Table(
    "votes",
    metadata,
    _key(),
    _reference("lease", "leases"),
    Column("revision", Integer, nullable=False),
    _reference("item", "items"),
    _reference("annotator", "annotators"),
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

skips = Table("skips", metadata, _key(), _reference("lease", "leases", index=True), *_skip_columns())

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

known_answers = Table(
    "known_answers",
    metadata,
    Column("item", Integer, ForeignKey("items.id"), primary_key=True),
    Column("answers", Text, nullable=False),  # JSON, by question
    Column("explanation", Text, nullable=False),
)

practice_answers = Table(
    "practice_answers",
    metadata,
    _key(),
    _reference("annotator", "annotators"),
    _reference("item", "items"),
    Column("answers", Text, nullable=False),  # JSON, by question
    Column("candidate_first", Boolean, nullable=False),
    Column("at", Float, nullable=False),
    Index("ix_practice_answers_annotator", "annotator", "item"),
)

holds = Table(
    "holds",
    metadata,
    _key(),
    _reference("annotator", "annotators", index=True),
    Column("at", Float, nullable=False),
    Column("reasons", Text, nullable=False),  # JSON list
    Column("decision", String(10), nullable=False),  # open, released, discarded
    Column("decided", Float),
)

forms = Table(
    "forms",
    metadata,
    Column("form", String(64), primary_key=True),  # SHA-256 of the form's own random name
    _reference("annotator", "annotators"),
    Column("at", Float, nullable=False, index=True),
)

refusals = Table(
    "refusals",
    metadata,
    _key(),
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
    _key(),
    _reference("project", "projects"),
    Column("name", String(200), nullable=False),
    Column("position", SmallInteger, nullable=False),
    UniqueConstraint("project", "name"),
)

arena_cases = Table(
    "arena_cases",
    metadata,
    _key(),
    _reference("project", "projects"),
    Column("name", String(500), nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Text, nullable=False),  # the case as JSON
    Column("language", String(10), nullable=False, server_default=""),
    UniqueConstraint("project", "name"),
)

arena_replies = Table(
    "arena_replies",
    metadata,
    _key(),
    _reference("case", "arena_cases"),
    _reference("model", "arena_models"),
    Column("content", Text, nullable=False),  # the reply as JSON
    UniqueConstraint("case", "model"),
)

arena_slots = Table(
    "arena_slots",
    metadata,
    _key(),
    _reference("project", "projects"),
    _reference("case", "arena_cases"),
    _reference("one", "arena_models"),  # of the pair, the earlier in the arena
    _reference("two", "arena_models"),
    Column("place", SmallInteger, nullable=False),
    Column("one_left", Boolean, nullable=False),
    Column("position", Integer, nullable=False),  # the order in which they are given out
    UniqueConstraint("case", "one", "two", "place"),
    Index("ix_arena_slots_queue", "project", "position"),
)

arena_leases = Table(
    "arena_leases",
    metadata,
    _key(),
    Column("name", String(64), nullable=False, unique=True),
    _reference("slot", "arena_slots"),
    _reference("seat", "arena_slots", nullable=True, unique=True),
    _reference("case", "arena_cases"),
    _reference("one", "arena_models"),
    _reference("two", "arena_models"),
    *_lease_columns(),
    UniqueConstraint("annotator", "case", "one", "two"),
    Index("ix_arena_leases_expiry", "state", "expires"),
)

arena_votes = Table(
    "arena_votes",
    metadata,
    _key(),
    _reference("lease", "arena_leases"),
    Column("revision", Integer, nullable=False),
    Column("choice", String(10), nullable=False),  # as shown: first, second, both, neither
    Column("one_left", Boolean, nullable=False),
    Column("at", Float, nullable=False),
    Column("seconds", Float),
    UniqueConstraint("lease", "revision"),
)

arena_skips = Table("arena_skips", metadata, _key(), _reference("lease", "arena_leases"), *_skip_columns())
