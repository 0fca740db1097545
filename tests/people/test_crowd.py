"""Many annotators at once, abandoned browsers, and processes that are killed, on SQLite and on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from subprocess import PIPE

from sqlalchemy import select
from tests.endpoints.process import ROOT, environment
from tests.people.crowd import together
from tests.people.labelling import Clock, start

from compeer.cer.item import QUESTIONS
from compeer.people.exchange import labelled
from compeer.people.invitations import Person, people_of
from compeer.people.labelling import AssignedItem, LabellingQueue, places_at
from compeer.people.labelling_results import labelling_progress
from compeer.people.protocol import disputed
from compeer.people.store import Store, open_store
from compeer.people.tables import items, leases, votes


def check(store: Store, project: int) -> None:
    """What must hold at any time, whoever did what."""
    with store.read() as db:
        held = db.execute(select(leases)).all()
        cast = db.execute(select(votes.c.item, votes.c.annotator, votes.c.turn, votes.c.question, votes.c.lease)).all()
        first: dict[tuple[int, str], list[int]] = defaultdict(list)
        asked: dict[int, set[str]] = defaultdict(set)
        for vote in cast:
            asked[vote.lease].add(vote.question)
            if vote.turn == "first":
                first[vote.item, vote.question].append(vote.annotator)
        assert all(len(who) == len(set(who)) <= 2 for who in first.values())  # no third first-pass vote
        assert max(Counter((one.item, one.annotator) for one in held).values()) == 1
        for one in held:
            if one.turn == "third" and one.state == "done":
                assert one.annotator not in first[one.item, "history"]
                item = db.execute(select(items).where(items.c.id == one.item)).one()
                assert asked[one.id] == set(disputed(QUESTIONS, places_at(db, item).ballots))


def until_nothing_is_left(store: Store, people: list[Person], told: list[tuple[int, AssignedItem]]) -> None:
    """Everybody works until the queue has nothing for them, and looks in again while others were still at work."""
    before = -1
    while before < len(told):
        before = len(told)
        assert together(store, people, lambda person, work: told.append((person.id, work))) == []


def test_forty_at_once_over_three_hundred_items_with_ten_abandoned_browsers(store: Store, clock: Clock) -> None:
    project, people = start(store, 300, " ".join(f"p{n}" for n in range(50)))
    crowd, absent = people[:40], people[40:]
    left_lying = {work.item for person in absent if (work := LabellingQueue(store).next(person)) is not None}
    assert len(left_lying) == 5  # two places each
    told: list[tuple[int, AssignedItem]] = []  # append is atomic
    until_nothing_is_left(store, crowd, told)
    now = labelling_progress(store, project.id)
    assert (now.closed, now.begun, now.untouched) == (295, 5, 0)  # the abandoned ones wait
    clock.passes(3600)
    until_nothing_is_left(store, crowd, told)
    now = labelling_progress(store, project.id)
    assert (now.closed, now.disputed) == (300, 0) and sum(one.held for one in now.people) == 0
    check(store, project.id)
    with store.read() as db:
        kept = Counter((row.annotator, row.item) for row in db.execute(select(votes.c.annotator, votes.c.item)))
    seen = Counter((person, work.item) for person, work in told)
    assert max(seen.values()) == 1  # nobody saw an item twice
    assert kept == Counter({(person, work.item): len(work.task.questions) for person, work in told})  # no vote is lost
    items = list(labelled(store, project.id))
    assert len(items) == 300 and all(len(item.votes) in range(8, 13) for item in items)
    statuses = Counter(status for item in items for status in item.trace["consensus"].values())
    assert statuses["open"] == 0 and min(statuses[status] for status in ("agreed", "adjudicated", "dropped")) > 0


def test_every_acknowledged_vote_survives_kill_9(database: str) -> None:
    store = open_store(database)
    project, _ = start(store, 120, " ".join(f"p{n}" for n in range(12)))
    command = [sys.executable, "-m", "tests.people.crowd", database]
    processes = [
        subprocess.Popen(
            [*command, *(f"p{n}" for n in who)], cwd=ROOT, env=environment(), text=True, stdin=PIPE, stdout=PIPE
        )
        for who in (range(6), range(6, 12))
    ]
    told: list[str] = []

    def listen(lines: Iterable[str]) -> None:
        for line in lines:
            told.append(line)

    readers = [threading.Thread(target=listen, args=(process.stdout,)) for process in processes]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for reader in readers:
            reader.start()
        until = time.monotonic() + 60
        while len(told) < 30 and time.monotonic() < until:  # from either: one may get most of the machine
            time.sleep(0.001)
        for process in processes:
            process.kill()  # in the middle, with six people at work; both at once, or one would come to its end
        for process, reader in zip(processes, readers, strict=True):
            reader.join()  # what was acknowledged before it died is read to the end
            assert process.wait() == -9
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    acknowledged = {(int(line.split()[0]), int(line.split()[1])) for line in told if line.endswith("\n")}
    assert len(acknowledged) >= 30
    with store.read() as db:
        done = db.execute(select(leases.c.annotator, leases.c.item).where(leases.c.state == "done")).all()
    assert acknowledged <= {(row.annotator, row.item) for row in done}
    until_nothing_is_left(store, people_of(store, project.id), [])  # started again
    assert labelling_progress(store, project.id).closed == 120
    check(store, project.id)
    store.close()
