"""The votes that count, read back with names: for the results and for an export.

Of each lease that is done, the vote of its newest revision. Votes that were taken back or changed stay in the store
and do not count.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from sqlalchemy import select

from compeer.annotation.store import Store
from compeer.annotation.store.arena_tables import arena_cases, arena_leases, arena_models, arena_slots, arena_votes
from compeer.annotation.store.tables import annotators
from compeer.arena.outcome import Judged, Outcome
from compeer.reward.verdict import Choice


class Ballot(msgspec.Struct, frozen=True):
    """One vote. `choice` is as it was shown (first is left); `winner` is a model, or both or neither."""

    case: str
    left: str
    right: str
    choice: Choice
    annotator: str
    at: str
    seconds: float | None
    note: str = ""

    @property
    def winner(self) -> str:
        return {"first": self.left, "second": self.right}.get(self.choice, self.choice)


def ballots(store: Store, project: int, *, anonymous: bool = False) -> list[Ballot]:
    """All votes that count, in the order of the plan; `anonymous`: numbers instead of people's names, and no notes."""
    one, two = arena_models.alias(), arena_models.alias()
    query = (
        select(
            arena_cases.c.name.label("case"),
            one.c.name.label("first_model"),
            two.c.name.label("second_model"),
            arena_votes.c.one_left,
            arena_votes.c.choice,
            arena_votes.c.at,
            arena_votes.c.seconds,
            arena_leases.c.note,
            annotators.c.name.label("person"),
        )
        .join(
            arena_leases,
            (arena_votes.c.lease == arena_leases.c.id) & (arena_votes.c.revision == arena_leases.c.revision),
        )
        .join(arena_slots, arena_slots.c.id == arena_leases.c.slot)
        .join(arena_cases, arena_cases.c.id == arena_slots.c.case)
        .join(one, one.c.id == arena_slots.c.one)
        .join(two, two.c.id == arena_slots.c.two)
        .join(annotators, annotators.c.id == arena_leases.c.annotator)
        .where(arena_slots.c.project == project, arena_leases.c.state == "done")
        .order_by(arena_slots.c.position)
    )
    with store.read() as db:
        rows = db.execute(query).all()
    numbers = {name: f"person {n}" for n, name in enumerate(sorted({row.person for row in rows}), start=1)}
    found = []
    for row in rows:
        models = (row.first_model, row.second_model)
        left, right = models if row.one_left else models[::-1]
        at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="seconds")
        who, note = (numbers[row.person], "") if anonymous else (row.person, row.note)
        found.append(Ballot(row.case, left, right, row.choice, who, at, row.seconds, note))
    return found


def judged(ballot: Ballot) -> Judged:
    """The vote by models instead of by sides.

    >>> judged(Ballot("c", "a", "b", "second", "Anna", "", None))
    Judged(case='c', one='a', two='b', outcome='two')
    """
    outcome: dict[Choice, Outcome] = {"first": "one", "second": "two", "both": "both", "neither": "neither"}
    return Judged(ballot.case, ballot.left, ballot.right, outcome[ballot.choice])
