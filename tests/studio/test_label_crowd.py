"""Many annotators at once over real HTTP against a real `compeer studio`, on SQLite and on PostgreSQL.

Some abandon their browsers and their leases return; the server is killed in the middle and started again. The size in
the suite is small; COMPEER_CROWD=40x300 gives the full one (40 annotators, ten of whom leave, 300 items).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
from tests.people.conftest import database, postgres_server  # noqa: F401
from tests.people.crowd import opinion
from tests.people.test_crowd import check
from tests.studio.labelling import Page, begin, hand_in, item
from tests.studio.process import Studio
from tests.studio.serving import browser_of

from compeer.people.invitations import invite
from compeer.people.known_items import ItemAddresses
from compeer.people.labelling import create_project
from compeer.people.labelling_results import labelling_progress, records
from compeer.people.quality import QualitySettings, set_settings
from compeer.people.store import open_store
from compeer.people.tables import leases

PEOPLE, ITEMS = (int(part) for part in os.environ.get("COMPEER_CROWD", "16x60").split("x"))
LEAVING = PEOPLE // 4
LEASE = 6.0  # seconds
TAKEN_OVER, SENT_BEFORE = "Someone else has this item now", "This was already submitted"
PATIENCE = 600.0


class Annotator(threading.Thread):
    """Somebody who labels until told to stop, or leaves with an item before them after some."""

    def __init__(self, address: str, name: str, token: str, stop: threading.Event, leaves_after: int | None) -> None:
        super().__init__(name=name, daemon=True)
        self.address, self.token, self.stop, self.leaves_after = address, token, stop, leaves_after
        self.rng = random.Random(name)
        self.shown: list[int] = []  # every item that came before their eyes, once each time
        self.acknowledged: dict[int, dict[str, Any]] = {}
        self.uncertain: set[int] = set()  # handed in, and no answer came
        self.late: set[int] = set()  # the lease ran out while the studio was away, and somebody took over
        self.left: int | None = None
        self.statuses: Counter[int] = Counter()
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            with browser_of(self.address) as client:
                client.event_hooks["response"] = [lambda answer: self.statuses.update([answer.status_code])]
                self._work(client)
        except BaseException as error:
            self.wrong = error

    def _work(self, client: httpx.Client) -> None:
        page = self._insist(lambda: begin(client, self.token))
        while not self.stop.is_set():
            if page.item is None:
                time.sleep(0.2)
            else:
                assert page.item not in self.acknowledged, f"{self.name} saw item {page.item} again"
                if page.item not in (self.late | set(self.shown[-1:])):  # a reload shows the same sheet
                    self.shown.append(page.item)
                if self.leaves_after is not None and len(self.acknowledged) >= self.leaves_after:
                    self.left = page.item
                    return
                self._answer(client, page)
            page = self._insist(lambda: Page(client.get("/label/work").text))

    def _answer(self, client: httpx.Client, page: Page) -> None:
        assert page.item is not None
        thinks = opinion(self.rng)
        try:
            answer = hand_in(client, page, thinks, note=f"by {self.name}")
        except httpx.TransportError:  # the server died; whether it counted shows when it is sent again
            self.uncertain.add(page.item)
            answer = self._insist(lambda: hand_in(client, page, thinks, note=f"by {self.name}"))
        if answer.status_code == 409 and TAKEN_OVER in answer.text:
            self.late.add(page.item)
            return
        counted = page.item in self.uncertain and answer.status_code == 409 and SENT_BEFORE in answer.text
        assert answer.status_code == 303 or counted, answer.text
        self.acknowledged[page.item] = {question: thinks[question] for question in page.questions}

    def _insist(self, ask: Any) -> Any:
        """Again until the server is back."""
        for _ in range(600):
            try:
                return ask()
            except httpx.TransportError:
                time.sleep(0.1)
        raise TimeoutError("the studio did not come back")


def test_a_crowd_over_http_with_abandoned_browsers_and_kill_9(
    database: str,  # noqa: F811
    tmp_path: Path,
    free_port: int,
) -> None:
    store = open_store(database)
    made = create_project(store, "crowd", [item(n) for n in range(ITEMS)], audit_share=0.0, lease_minutes=LEASE / 60)
    set_settings(store, made.project.id, QualitySettings(hold=False))  # they answer at random
    project, names = made.project.id, [f"p{n}" for n in range(PEOPLE)]
    tokens = {name: invite(store, project, name).token for name in names}
    public = f"http://127.0.0.1:{free_port}"
    server = Studio(tmp_path, "--port", str(free_port), "--db", database, "--public", public)
    stop = threading.Event()
    crowd = [
        Annotator(public, name, tokens[name], stop, n % 3 if n < LEAVING else None) for n, name in enumerate(names)
    ]
    server.start()
    try:
        for one in crowd:
            one.start()
        until(lambda: sum(len(one.acknowledged) for one in crowd) >= ITEMS, crowd)
        server.kill()  # in the middle, with everybody at work
        killed_at = sum(len(one.acknowledged) for one in crowd)
        server.start()
        until(lambda: labelling_progress(store, project).closed == ITEMS, crowd)
    finally:
        stop.set()
        for one in crowd:
            one.join(30)
        server.kill()
    assert [one.wrong for one in crowd if one.wrong] == []
    assert ITEMS <= killed_at < sum(len(one.acknowledged) for one in crowd)

    check(store, project)  # no third first-pass vote; the third votes on exactly what is disputed
    with store.read() as db:
        held = {(row.annotator, row.item): row for row in db.execute(leases.select())}
    numbers = {row.annotator for row in held.values()}
    assert len(numbers) == PEOPLE
    by_name, addresses = {one.name: one for one in crowd}, ItemAddresses(store)
    cast: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for record in records(store, project):
        assert all(one.counts for one in record.votes)
        for one in record.votes:
            cast[one.vote.annotator].setdefault(addresses.shown(record.number), {})[one.vote.question] = one.vote.value
    for name, one in by_name.items():
        assert cast[name] == one.acknowledged, f"every acknowledged vote of {name} is there, and no other"
        assert len(one.shown) == len(set(one.shown)), f"{name} saw an item twice"
        assert set(one.statuses) <= {200, 303, 409} and one.statuses[409] <= len(one.uncertain | one.late)
    left = [(one.name, one.left) for one in crowd if one.left is not None]
    assert len(left) == LEAVING
    states = Counter(row.state for row in held.values())
    assert states["lapsed"] >= LEAVING and states["held"] == 0, "what the leaving held has gone back"
    store.close()


def until(done: Any, crowd: list[Annotator]) -> None:
    """Wait, as long as nobody fails."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert [one.wrong for one in crowd if one.wrong] == [] and time.monotonic() < end
        time.sleep(0.1)
