"""The tables of the store, made from tables.yaml, which says what they hold and which rules their constraints make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

_TYPES: dict[str, type[sa.types.TypeEngine[Any]]] = {
    "integer": sa.Integer, "small": sa.SmallInteger, "float": sa.Float, "boolean": sa.Boolean, "text": sa.Text,
}  # fmt: skip
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _column(name: str, text: str) -> sa.Column[Any]:
    """A column such as `string 64, optional, unique` or `-> items`, which refers to a row of another table."""
    what, *marks = text.split(", ")
    kind, _, size = what.partition(" ")
    if what == "key":
        return sa.Column(name, sa.Integer, primary_key=True)
    references = [sa.ForeignKey(f"{size}.id")] if kind == "->" else []
    return sa.Column(
        name,
        sa.String(int(size)) if kind == "string" else sa.Integer if references else _TYPES[kind],
        *references,
        primary_key="primary" in marks,
        nullable="optional" in marks,
        unique="unique" in marks or None,
        index="indexed" in marks or None,
        server_default="" if "empty at first" in marks else None,
    )


for _name, _about in yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8")).items():
    sa.Table(
        _name,
        metadata,
        *(_column(name, text) for name, text in _about["columns"].items()),
        *(sa.UniqueConstraint(*names) for names in _about.get("unique", ())),
        *(sa.Index(name, *names) for name, names in _about.get("indexes", {}).items()),
    )

projects, guidelines, items, known_answers, practice_answers = (
    metadata.tables[name] for name in ("projects", "guidelines", "items", "known_answers", "practice_answers")
)
accounts, annotators, forms, refusals, holds = (
    metadata.tables[name] for name in ("accounts", "annotators", "forms", "refusals", "holds")
)
leases, votes, skips, drafts, audit_draws = (
    metadata.tables[name] for name in ("leases", "votes", "skips", "drafts", "audit_draws")
)
arenas, arena_models, arena_cases, arena_replies = (
    metadata.tables[name] for name in ("arenas", "arena_models", "arena_cases", "arena_replies")
)
arena_slots, arena_leases, arena_votes, arena_skips = (
    metadata.tables[name] for name in ("arena_slots", "arena_leases", "arena_votes", "arena_skips")
)

#: leases with the votes of their newest revision
NEWEST_VOTES = (votes.c.lease == leases.c.id) & (votes.c.revision == leases.c.revision)
NEWEST_ARENA_VOTES = (arena_votes.c.lease == arena_leases.c.id) & (arena_votes.c.revision == arena_leases.c.revision)
