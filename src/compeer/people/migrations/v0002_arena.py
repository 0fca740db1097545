"""Step 2: the arena, where people compare the replies of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "arenas",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("votes", sa.SmallInteger, nullable=False),
        sa.Column("focus", sa.String(200)),
        sa.Column("show_reasoning", sa.Boolean, nullable=False),
        sa.Column("closed", sa.Float),
    )
    op.create_table(
        "arena_models",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("position", sa.SmallInteger, nullable=False),
        sa.UniqueConstraint("project", "name"),
    )
    op.create_table(
        "arena_cases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.UniqueConstraint("project", "name"),
    )
    op.create_table(
        "arena_replies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("case", sa.Integer, sa.ForeignKey("arena_cases.id"), nullable=False),
        sa.Column("model", sa.Integer, sa.ForeignKey("arena_models.id"), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.UniqueConstraint("case", "model"),
    )
    op.create_table(
        "arena_slots",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("case", sa.Integer, sa.ForeignKey("arena_cases.id"), nullable=False),
        sa.Column("one", sa.Integer, sa.ForeignKey("arena_models.id"), nullable=False),
        sa.Column("two", sa.Integer, sa.ForeignKey("arena_models.id"), nullable=False),
        sa.Column("place", sa.SmallInteger, nullable=False),
        sa.Column("one_left", sa.Boolean, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.UniqueConstraint("case", "one", "two", "place"),
        sa.Index("ix_arena_slots_queue", "project", "position"),
    )
    op.create_table(
        "arena_leases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("slot", sa.Integer, sa.ForeignKey("arena_slots.id"), nullable=False),
        sa.Column("seat", sa.Integer, sa.ForeignKey("arena_slots.id"), unique=True),
        sa.Column("case", sa.Integer, sa.ForeignKey("arena_cases.id"), nullable=False),
        sa.Column("one", sa.Integer, sa.ForeignKey("arena_models.id"), nullable=False),
        sa.Column("two", sa.Integer, sa.ForeignKey("arena_models.id"), nullable=False),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("opened", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("finished", sa.Float),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.UniqueConstraint("annotator", "case", "one", "two"),
        sa.Index("ix_arena_leases_expiry", "state", "expires"),
    )
    op.create_table(
        "arena_votes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("lease", sa.Integer, sa.ForeignKey("arena_leases.id"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("choice", sa.String(10), nullable=False),
        sa.Column("one_left", sa.Boolean, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.UniqueConstraint("lease", "revision"),
    )
    op.create_table(
        "arena_skips",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("lease", sa.Integer, sa.ForeignKey("arena_leases.id"), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("distress", sa.Boolean, nullable=False),
    )
