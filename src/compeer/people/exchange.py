"""Labels out of the store and votes into it, as CER items.

Export: labels, votes and `label_source` take the place of what the item had; `trace.consensus` holds the status of each
question and `trace.annotation` the rest: passes, notes, skips, audit votes, who was unsure about which question, votes
that were changed or taken back, and votes that are withheld or were discarded (`quality`). Items with known answers,
gold and practice, are no labels and stay at home.
An item on which no two people agree on anything comes out without labels. One that is still open keeps what it had
until people have decided something, as in `compeer.cer.exchange`.

Import: only votes come in (CER items that carry votes, Label Studio, Potato), never labels. Of each item's voters, in
the order they came, the first two who answered everything take the two first-pass places, and the next one who answered
what those differ about is the third. Whoever does not fit, and whoever had this item before, is left out and counted,
so importing a file twice changes nothing.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, insert, select

from compeer.cer.exchange import Consensus, with_votes
from compeer.cer.item import QUESTIONS, Item, Vote
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.people.invitations import add_person
from compeer.people.labelling import STAGES, lease_of, lock_item, places_at, settle
from compeer.people.labelling_results import ItemRecord, answer_values, records
from compeer.people.other_tools import write_label_studio, write_potato
from compeer.people.projects import Project, project_by_number
from compeer.people.protocol import answer_text
from compeer.people.store import Store
from compeer.people.tables import annotators, items, leases, votes

_ITEMS_WRITTEN_AT_ONCE = 100


def labelled(store: Store, project: int, *, everything: bool = False, anonymous: bool = False) -> Iterator[Item]:
    """The closed items with their labels, or with `everything` all of them. `anonymous` numbers the people instead."""
    name = project_by_number(store, project).name
    for record in records(store, project, anonymous=anonymous):
        if everything or record.is_closed:
            yield labelled_item(record, name)


def labelled_item(record: ItemRecord, project: str) -> Item:
    """One item with what people made of it."""
    if not record.votes and not record.skips:
        return record.item
    found = {name: one for name, one in record.verdicts.items() if name in QUESTIONS}
    cast = [one for one in record.votes if not one.unsure and one.vote.question in QUESTIONS]
    counting = [one for one in cast if one.counts and one.turn != "audit"]
    unsure: dict[str, list[str]] = {}
    for one in record.votes:
        if one.unsure and one.counts and one.vote.question in QUESTIONS:
            unsure.setdefault(one.vote.annotator, []).append(one.vote.question)
    more: dict[str, Any] = {
        "passes": {one.vote.annotator: one.turn for one in counting},
        "audit": [one.vote for one in cast if one.counts and one.turn == "audit"],
        "unsure": unsure,
        "superseded": [one.vote for one in cast if one.standing == "changed"],
        "withheld": [one.vote for one in cast if one.standing == "withheld"],
        "discarded": [one.vote for one in cast if one.standing == "discarded"],
        "questions": _own_answers(record),
        "notes": record.notes,
        "skips": record.skips,
    }
    told = {"project": project, **{name: msgspec.to_builtins(value) for name, value in more.items() if value}}
    return with_votes(record.item, tuple(one.vote for one in counting), found, annotation=told)


def _own_answers(record: ItemRecord) -> dict[str, Any]:
    """Questions of the project's own: label and status of each, and every answer with who gave it, how and when."""
    found: dict[str, Any] = {}
    for question, verdict in record.verdicts.items():
        given = [one for one in record.votes if one.vote.question == question]
        if question not in QUESTIONS and given:
            found[question] = {"label": verdict.value, "status": verdict.status, "votes": [
                {"annotator": one.vote.annotator, "answer": one.answer, "pass": one.turn, "standing": one.standing,
                 "at": one.vote.at, "guideline": one.vote.guideline}
                for one in given
            ]}  # fmt: skip
    return found


#: the head of the table of labels, before two columns for each question, and the head of the table of votes
_LABELS_HEAD = ("item", "language", "source")
_VOTES_HEAD = (
    "item", "question", "annotator", "pass", "answer", "standing", "at", "seconds", "guideline", "candidate_first",
    "note",
)  # fmt: skip


def labels_table(
    store: Store, project: int, *, everything: bool = False, anonymous: bool = False
) -> Iterator[Sequence[Any]]:
    """One row per item: the label and its status for every question, those of the project's own as well."""
    asked = list(answer_values(store, project))
    yield (*_LABELS_HEAD, *(f"{name}{end}" for name in asked for end in ("", "_status")), "annotators")
    for record in records(store, project, anonymous=anonymous):
        if everything or record.is_closed:
            found = record.verdicts
            voters = dict.fromkeys(one.vote.annotator for one in record.votes if one.counts)
            cells = [cell for name in asked for cell in _label_cells(found.get(name))]
            yield (record.item.id, record.item.language, record.item.source, *cells, " ".join(voters))


def _label_cells(found: Consensus | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    return "" if found.value is None else answer_text(found.value), found.status


def votes_table(store: Store, project: int, *, anonymous: bool = False) -> Iterator[Sequence[Any]]:
    """One row per answer that somebody gave, whether or not it counts (`standing`)."""
    yield _VOTES_HEAD
    for record in records(store, project, anonymous=anonymous):
        for one in record.votes:
            vote, note = one.vote, "" if anonymous else record.notes.get(one.vote.annotator, "")
            yield (record.item.id, vote.question, vote.annotator, one.turn, one.answer, one.standing, vote.at,
                   vote.seconds, vote.guideline, vote.candidate_first, note)  # fmt: skip


def csv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Rows as lines of CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front.

    >>> list(csv_lines([("name", "note"), ("anna", "=1+1"), ("ben", None)]))
    ['name,note\\r\\n', "anna,'=1+1\\r\\n", 'ben,\\r\\n']
    """
    for row in rows:
        text = io.StringIO()
        csv.writer(text).writerow(
            f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
            for cell in row
        )
        yield text.getvalue()


def write_csv(out: Path, rows: Iterable[Sequence[Any]]) -> int:
    """Write a table for spreadsheets; how many rows it has without its head."""
    lines = list(csv_lines(rows))
    out.write_text("".join(lines), encoding="utf-8-sig", newline="")
    return len(lines) - 1


LabelFormat = Literal["cer", "labels-csv", "votes-csv", "label-studio", "potato"]


def export_labels(
    store: Store, project: Project, form: LabelFormat, out: Path, *, everything: bool = False, anonymous: bool = False
) -> int:
    """Write the labels of a project to a file, for another tool into a folder; returns how many items or answers."""
    if form == "labels-csv":
        return write_csv(out, labels_table(store, project.id, everything=everything, anonymous=anonymous))
    if form == "votes-csv":
        return write_csv(out, votes_table(store, project.id, anonymous=anonymous))
    found = labelled(store, project.id, everything=everything or form != "cer", anonymous=anonymous)
    if form == "label-studio":
        return write_label_studio(out, found, project.seed)
    return write_potato(out, found, project.seed, title=project.name) if form == "potato" else write_rows(out, found)


class Imported(msgspec.Struct, frozen=True):
    """What came in. `left_out` counts voters at an item by why: unknown item, incomplete, no place, already there."""

    items: int
    votes: int
    people: int
    left_out: dict[str, int]


def votes_of_items(given: Iterable[Item]) -> dict[str, Sequence[Vote]]:
    """The votes that CER items carry, unless they are the authors' own: what comes out of the store is called human.

    Labels without votes say nothing about who gave them, and stay where they are.
    """
    return {item.id: item.votes for item in given if item.votes and item.label_source in (None, "human")}


def import_votes(store: Store, project: int, given: Mapping[str, Sequence[Vote]]) -> Imported:
    """Add votes, by the items' own ids."""
    taken: Counter[str] = Counter()
    left: Counter[str] = Counter()
    names = list(given)
    for start in range(0, len(names), _ITEMS_WRITTEN_AT_ONCE):
        part = {name: given[name] for name in names[start : start + _ITEMS_WRITTEN_AT_ONCE]}
        counts = store.write(lambda db, part=part: _import(store, db, project, part))  # type: ignore[misc]
        taken.update(counts[0])
        left.update(counts[1])
    return Imported(taken["items"], taken["votes"], taken["people"], dict(left))


def _import(
    store: Store, db: Connection, project: int, given: Mapping[str, Sequence[Vote]]
) -> tuple[Counter[str], Counter[str]]:
    taken: Counter[str] = Counter()
    left: Counter[str] = Counter()
    query = select(items.c.id, items.c.name).where(items.c.project == project, items.c.name.in_(list(given)))
    numbers = {row.name: row.id for row in db.execute(query)}
    people = _people(store, db, project, given, taken)
    for name, number in sorted(numbers.items(), key=lambda pair: pair[1]):
        came = 0
        for person, cast in _by_voter(given[name]).items():
            if why := _enter_votes(store, db, number, people[person], cast):
                left[why] += 1
            else:
                came += len(cast)
        taken["votes"] += came
        taken["items"] += came > 0
    left.update({"unknown item": missing} if (missing := len(given) - len(numbers)) else {})
    return taken, left


def _people(
    store: Store, db: Connection, project: int, given: Mapping[str, Sequence[Vote]], taken: Counter[str]
) -> dict[str, int]:
    """The voters by number; who is not in the project yet is added, without a link."""
    query = select(annotators.c.name, annotators.c.id).where(annotators.c.project == project)
    known = {row.name: row.id for row in db.execute(query)}
    for name in dict.fromkeys(vote.annotator for cast in given.values() for vote in cast):
        if not 0 < len(name) <= 200:
            raise UserError(f"A voter's name has 1 to 200 characters; got {name[:60]!r}.")
        if name not in known:
            known[name] = add_person(db, project, name, "annotator", store.clock())
            taken["people"] += 1
    return known


def _enter_votes(store: Store, db: Connection, number: int, person: int, cast: Mapping[str, Vote]) -> str:
    """Enter one person's votes on one item; why not, if they cannot be."""
    item = lock_item(store, db, number)
    assert item is not None
    if lease_of(db, number, person) is not None:
        return "already there"
    at = places_at(db, item)
    place, turn = at.free, at.turn
    if place is None or at.stage == "closed" or item.stage not in STAGES:
        return "no place"
    if any(question not in cast for question in at.asked):
        return "incomplete"
    now = store.clock()
    when = [_time(vote, now) for vote in cast.values()]
    first_shown = next(iter(cast.values())).candidate_first
    shared = {"item": number, "annotator": person, "turn": turn, "revision": 1}
    asked = ",".join(question for question in at.questions if question in cast)
    lease = {"place": place, "state": "done", "questions": asked, "candidate_first": bool(first_shown), "note": ""}
    times = {"opened": min(when), "expires": max(when), "finished": max(when)}
    made = insert(leases).values(**shared, **lease, **times).returning(leases.c.id)
    key = int(db.execute(made).scalar_one())
    rows = [
        {"question": vote.question, "answer": answer_text(vote.value), "at": _time(vote, now), "seconds": vote.seconds,
         "candidate_first": vote.candidate_first, "guideline": vote.guideline, "lease": key, **shared}
        for vote in cast.values()
    ]  # fmt: skip
    db.execute(insert(votes), rows)
    settle(db, item, now)
    return ""


def _by_voter(cast: Sequence[Vote]) -> dict[str, dict[str, Vote]]:
    """Votes by person in the order they came; a later vote on the same question takes the place of the earlier."""
    found: dict[str, dict[str, Vote]] = {}
    for vote in cast:
        if isinstance(vote.value, bool) == (vote.question == "preference"):
            raise UserError(f"{vote.annotator} answers {vote.question} with {vote.value!r}, which is no answer to it.")
        found.setdefault(vote.annotator, {})[vote.question] = vote
    return found


def _time(vote: Vote, now: float) -> float:
    try:
        at = datetime.fromisoformat(vote.at) if vote.at else None
    except ValueError:
        return now
    return now if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
