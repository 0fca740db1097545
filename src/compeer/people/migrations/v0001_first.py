"""Step 1: the store as it was first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("guideline", sa.String(100), nullable=False),
        sa.Column("lease_seconds", sa.Float, nullable=False),
        sa.Column("undo_seconds", sa.Float, nullable=False),
        sa.Column("audit_share", sa.Float, nullable=False),
        sa.Column("images", sa.Text),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("questions", sa.String(100), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("images", sa.Text, nullable=False),
        sa.Column("stage", sa.String(10), nullable=False),
        sa.Column("rank", sa.SmallInteger, nullable=False),
        sa.Column("begun_by", sa.Integer),
        sa.UniqueConstraint("project", "name"),
        sa.Index("ix_items_queue", "project", "rank", "position", "begun_by"),
        sa.Index("ix_items_project_position", "project", "position"),
    )
    op.create_table(
        "annotators",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("token", sa.String(64), unique=True),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.UniqueConstraint("project", "name"),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("items.id"), nullable=False),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False),
        sa.Column("turn", sa.String(10), nullable=False),
        sa.Column("place", sa.SmallInteger),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("questions", sa.String(100), nullable=False),
        sa.Column("candidate_first", sa.Boolean, nullable=False),
        sa.Column("opened", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("finished", sa.Float),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.UniqueConstraint("item", "annotator"),
        sa.UniqueConstraint("item", "place"),
        sa.Index("ix_leases_expiry", "state", "expires"),
        sa.Index("ix_leases_annotator_state", "annotator", "state"),
    )
    op.create_table(
        "votes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("lease", sa.Integer, sa.ForeignKey("leases.id"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("item", sa.Integer, sa.ForeignKey("items.id"), nullable=False),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False),
        sa.Column("turn", sa.String(10), nullable=False),
        sa.Column("question", sa.String(20), nullable=False),
        sa.Column("answer", sa.String(20), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.Column("candidate_first", sa.Boolean),
        sa.Column("guideline", sa.String(100)),
        sa.UniqueConstraint("lease", "revision", "question"),
        sa.Index("ix_votes_item", "item"),
        sa.Index("ix_votes_annotator_seconds", "annotator", "seconds"),
    )
    op.create_table(
        "skips",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("lease", sa.Integer, sa.ForeignKey("leases.id"), nullable=False, index=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("distress", sa.Boolean, nullable=False),
    )
    op.create_table(
        "drafts",
        sa.Column("lease", sa.Integer, sa.ForeignKey("leases.id"), primary_key=True),
        sa.Column("answers", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "audit_draws",
        sa.Column("item", sa.Integer, sa.ForeignKey("items.id"), primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "forms",
        sa.Column("form", sa.String(64), primary_key=True),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False),
        sa.Column("at", sa.Float, nullable=False, index=True),
    )
    op.create_table(
        "refusals",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer),
        sa.Column("annotator", sa.Integer),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("address", sa.String(100), nullable=False),
    )
