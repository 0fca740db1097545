"""People who label at once, in threads of a process of their own that a test may kill.

python -m tests.people.crowd DB NAME [NAME …]

It says "ready", begins when it reads a line, and writes a line for each acknowledged item before the next one is asked
for. When nothing is left it waits to be killed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable

from tests.people.labelling import answers

from compeer.people.invitations import Person, people_of
from compeer.people.labelling import AssignedItem, LabellingQueue
from compeer.people.store import Store, open_store

CHOICES = ("candidate", "candidate", "candidate", "reference", "both", "neither")


def opinion(rng: random.Random) -> dict[str, bool | str]:
    steps: dict[str, bool | str] = {step: rng.random() < 0.8 for step in ("history", "emotion", "strategy")}
    return steps | {"preference": rng.choice(CHOICES)}


def work_through(store: Store, person: Person, told: Callable[[AssignedItem], None]) -> None:
    """Label until there is nothing left; `told` hears of each item once its votes are acknowledged."""
    rng = random.Random(person.name)
    while (work := LabellingQueue(store).next(person)) is not None:
        LabellingQueue(store).submit(person, work.item, answers(work, opinion(rng)), seconds=1.0)
        told(work)


def together(store: Store, people: list[Person], told: Callable[[Person, AssignedItem], None]) -> list[BaseException]:
    """All of them at once, a thread each; what went wrong."""
    wrong: list[BaseException] = []

    def one(person: Person) -> None:
        try:
            work_through(store, person, lambda work: told(person, work))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=one, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def tell(person: Person, work: AssignedItem) -> None:
    os.write(1, f"{person.id} {work.item}\n".encode())


if __name__ == "__main__":
    opened = open_store(sys.argv[1])
    chosen = [person for person in people_of(opened, 1) if person.name in sys.argv[2:]]
    os.write(1, b"ready\n")
    sys.stdin.readline()
    if failed := together(opened, chosen, tell):
        sys.exit(f"{failed[0]!r}")
    sys.stdin.readline()
