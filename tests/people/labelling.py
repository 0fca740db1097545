"""What the tests of labelling share: items, a clock that is set by hand, and people who label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compeer.cer.item import Candidate, Item, PastTurn
from compeer.people.invitations import Person, invite
from compeer.people.labelling import AssignedItem, LabellingQueue, create_project
from compeer.people.projects import Project
from compeer.people.store import Store
from compeer.reasoning import Reasoning

LABELS: dict[str, str | int] = {
    "stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question",
}  # fmt: skip
ALL_TRUE = {"history": True, "emotion": True, "strategy": True}


class Clock:
    """The time, in seconds since 1970; it passes when a test says so."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def item(number: int, *, thinks: bool = True, **more: Any) -> Item:
    """An item whose replies say which is which, so that a test can want one of them."""
    steps = {"history": f"Lost job {number}.", "emotion": "Small.", "strategy": "Ask."}
    return Item(
        **{
            "id": f"d{number}#1",
            "dialogue": f"d{number}",
            "source": "test",
            "licence": "MIT",
            "language": "en",
            "round": 1,
            "history": (PastTurn("seeker", f"I lost my job, number {number}."),),
            "reference": f"REF {number}",
            "candidate": Candidate(
                response=f"CAND {number}", reasoning=Reasoning.of(steps, LABELS) if thinks else None, generator="secret"
            ),
            **more,
        }
    )


def start(store: Store, n_items: int, names: str = "anna ben cleo", **settings: Any) -> tuple[Project, list[Person]]:
    """A project with so many items and these annotators."""
    made = create_project(store, "trial", [item(n) for n in range(n_items)], **({"audit_share": 0.0} | settings))
    return made.project, [invite(store, made.project.id, name).person for name in names.split()]


def place(work: AssignedItem, wanted: str) -> str:
    """A preference as this person must give it: by the place where the reply stands."""
    if wanted in ("both", "neither", "unsure"):
        return wanted
    return "first" if work.task.first.startswith({"candidate": "CAND", "reference": "REF"}[wanted]) else "second"


def answers(work: AssignedItem, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of what somebody thinks, as shown."""
    return {q: place(work, wanted[q]) if q == "preference" else wanted[q] for q in work.task.questions}


def label_all(
    store: Store, person: Person, thinks: Callable[[AssignedItem], Mapping[str, Any]], most: int = 10_000
) -> list[AssignedItem]:
    """Label until the queue is empty; what was shown."""
    seen: list[AssignedItem] = []
    while len(seen) < most and (work := LabellingQueue(store).next(person)) is not None:
        LabellingQueue(store).submit(person, work.item, answers(work, thinks(work)), seconds=1.0)
        seen.append(work)
    return seen
