"""Out of the store as CER items: labels by people, every vote, and a status for every question.

Labels, votes and `label_source` take the place of what the item had; `trace.consensus` holds the status of each
question and `trace.annotation` the rest: passes, notes, skips, audit votes, and votes that were changed or taken back.
An item on which no two people agree on anything comes out without labels. One that is still open keeps what it had
until people have decided something, as in `compeer.cer.exchange`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from compeer.annotation.ballots import Record, records
from compeer.annotation.people import everybody
from compeer.annotation.project import project as project_of
from compeer.annotation.store.database import Store
from compeer.cer.item import Item, Labels, Vote
from compeer.typed import from_plain


def labelled(store: Store, project: int, *, everything: bool = False, anonymous: bool = False) -> Iterator[Item]:
    """The closed items with their labels, or with `everything` all of them. `anonymous` numbers the people instead."""
    name = project_of(store, project).name
    known = [person.name for person in everybody(store, project)]
    names = {person: f"annotator-{n}" if anonymous else person for n, person in enumerate(known, start=1)}
    for record in records(store, project):
        statuses = {one.status for one in record.verdicts.values()}
        if everything or "open" not in statuses:
            yield labelled_item(record, name, names)


def labelled_item(record: Record, project: str, names: dict[str, str]) -> Item:
    """One item with what people made of it."""

    def shown(vote: Vote) -> Vote:
        return msgspec.structs.replace(vote, annotator=names.get(vote.annotator, vote.annotator))

    if not record.votes and not record.skips:
        return record.item
    found = record.verdicts
    counting = [one for one in record.votes if one.counts and one.turn != "audit"]
    more: dict[str, Any] = {
        "passes": {names.get(one.vote.annotator, one.vote.annotator): one.turn for one in counting},
        "audit": [shown(one.vote) for one in record.votes if one.counts and one.turn == "audit"],
        "superseded": [shown(one.vote) for one in record.votes if not one.counts],
        "notes": {names.get(name, name): note for name, note in record.notes.items()},
        "skips": [{**one, "annotator": names.get(one["annotator"], one["annotator"])} for one in record.skips],
    }
    told = {"project": project, **{name: msgspec.to_builtins(value) for name, value in more.items() if value}}
    status = {question: one.status for question, one in found.items()}
    trace = {**record.item.trace, "consensus": status, "annotation": told}
    votes = tuple(shown(one.vote) for one in counting)
    decided = any(one.value is not None for one in found.values())
    if not decided and "open" in status.values():
        return msgspec.structs.replace(record.item, votes=votes, trace=trace)
    labels = from_plain({question: one.value for question, one in found.items()}, Labels)
    source = "human" if decided else None
    return msgspec.structs.replace(record.item, votes=votes, labels=labels, label_source=source, trace=trace)
