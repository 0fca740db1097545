"""Everything that was voted on a project's items, read back item by item: what counts, and what was replaced.

The items are streamed in the order of the project, some hundreds at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from compeer.annotation.protocol import Ballot, Pass, answer_of, verdicts
from compeer.annotation.seats import questions_of
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, items, leases, skips, votes
from compeer.cer.exchange import Consensus
from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.typed import from_json

_AT_ONCE = 400


class Cast(msgspec.Struct, frozen=True):
    """A vote with its pass and whether it counts; one that does not was changed, taken back, or came too late."""

    vote: Vote
    turn: Pass
    counts: bool


class Record(msgspec.Struct, frozen=True):
    """One item with all that people did to it."""

    number: int
    item: Item
    questions: tuple[Question, ...]
    votes: list[Cast]
    notes: dict[str, str]
    skips: list[dict[str, Any]]

    @property
    def verdicts(self) -> dict[Question, Consensus]:
        """Label and status of each question, from the votes that count."""
        found: dict[tuple[str, Pass], dict[Question, Any]] = {}
        for one in self.votes:
            if one.counts:
                found.setdefault((one.vote.annotator, one.turn), {})[one.vote.question] = one.vote.value
        return verdicts(self.questions, [Ballot(name, turn, given) for (name, turn), given in found.items()])


def records(store: Store, project: int) -> Iterator[Record]:
    """All items of a project, in order, with their votes in the order of places."""
    after = -1
    while True:
        with store.read() as db:
            query = select(items.c.id, items.c.position, items.c.content, items.c.questions)
            query = query.where(items.c.project == project, items.c.position > after)
            found = db.execute(query.order_by(items.c.position).limit(_AT_ONCE)).all()
            told = _told(db, [row.id for row in found])
        if not found:
            return
        for row in found:
            cast, notes, skipped = told.get(row.id, ([], {}, []))
            item = from_json(row.content, Item)
            yield Record(row.id, item, questions_of(row.questions), cast, notes, skipped)
        after = found[-1].position


def _told(db: Connection, numbers: list[int]) -> dict[int, tuple[list[Cast], dict[str, str], list[dict[str, Any]]]]:
    told: dict[int, tuple[list[Cast], dict[str, str], list[dict[str, Any]]]] = {}
    cast = (
        select(
            votes, leases.c.revision.label("newest"), leases.c.state, leases.c.place, leases.c.note, annotators.c.name
        )
        .join(leases, leases.c.id == votes.c.lease)
        .join(annotators, annotators.c.id == votes.c.annotator)
        .where(votes.c.item.in_(numbers))
    )
    rows = db.execute(cast).all()
    for row in sorted(rows, key=lambda row: (row.place or 9, row.lease, row.revision, QUESTIONS.index(row.question))):
        entry = told.setdefault(row.item, ([], {}, []))
        entry[0].append(_cast(row))
        if row.note:
            entry[1][row.name] = row.note
    left = (
        select(skips, leases.c.item, annotators.c.name)
        .join(leases, leases.c.id == skips.c.lease)
        .join(annotators, annotators.c.id == leases.c.annotator)
        .where(leases.c.item.in_(numbers))
        .order_by(skips.c.id)
    )
    for row in db.execute(left):
        about = {"annotator": row.name, "at": _iso(row.at), "reason": row.reason, "distress": row.distress}
        told.setdefault(row.item, ([], {}, []))[2].append(about)
    return told


def _cast(row: Row[Any]) -> Cast:
    vote = Vote(
        annotator=row.name,
        question=row.question,
        value=answer_of(row.question, row.answer),
        at=_iso(row.at),
        seconds=row.seconds,
        candidate_first=row.candidate_first,
        guideline=row.guideline,
    )
    return Cast(vote, row.turn, row.state == "done" and row.place is not None and row.revision == row.newest)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
