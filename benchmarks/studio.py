"""How soon does a browser paint each page of the studio, with 10,000 items in the store?

    python -m benchmarks.studio                       SQLite; about two minutes
    python -m benchmarks.studio --items 1000 --db postgresql://USER@HOST/NAME

A real `compeer studio` process, a real Chromium on the same machine, one person at a time. The store holds 10,000 items
of the gold set's size and the votes of 20 people on all of them, third votes and audits included. For each page: the
first contentful paint as Chromium's paint timing tells it (from the start of the navigation), the median of several
visits with a warm browser; beside it when the server's answer began and when the page was complete, since pages that
count many votes are sent in two parts. Wanted: a first paint in at most 300 ms on two cores. The floor is a page of one
sentence that Python's own HTTP server sends to the same browser: what no server-rendered page can be faster than.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import insert, select, update
from tests.studio.browsing import DESK, browser, window

from benchmarks.measure import Ratio
from compeer.cer.gold import load
from compeer.cer.item import QUESTIONS
from compeer.people.invitations import Person, invite, people_of
from compeer.people.labelling import create_project, read_answers
from compeer.people.protocol import Ballot, Pass, answer_text, disputed
from compeer.people.store import Store, open_store
from compeer.people.tables import items, leases, votes

PEOPLE = 20
WANTED = 300.0
FLOOR = "a page of one sentence"
PAINT = """() => { const [paint] = performance.getEntriesByName("first-contentful-paint");
const [page] = performance.getEntriesByType("navigation");
return [paint ? paint.startTime : null, page.responseStart, page.loadEventEnd]; }"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--items", type=int, default=10_000)
    arguments.add_argument("--visits", type=int, default=7)
    arguments.add_argument("--db", help="an empty database; default: a new SQLite file")
    options = arguments.parse_args()
    for row in measure(options.items, options.visits, options.db):
        print(
            f"{row['page']:<28}{row['paint']:7.0f} ms  (slowest {row['slowest']:.0f}; answer begins "
            f"{row['server']:.0f}, page complete {row['whole']:.0f})"
        )


def run() -> list[Ratio]:
    """For `python -m benchmarks`."""
    rows = {row["page"]: row for row in measure()}
    floor = rows.pop(FLOOR)["paint"]
    found = [
        Ratio(what=f"first paint, {name}", ours=row["paint"], theirs=WANTED, against="300 ms", unit="ms",
              wanted=1.0, at_least=False)
        for name, row in rows.items()
    ]  # fmt: skip
    middle = statistics.median(row["paint"] for row in rows.values())
    return [*found, Ratio(what="first paint, the median page", ours=middle, theirs=floor, against=FLOOR, unit="ms")]


def measure(n_items: int = 10_000, visits: int = 7, database: str | None = None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        database = database or str(home / "labels.db")
        began = time.perf_counter()
        store = open_store(database)
        project, token = fill(store, n_items)
        print(f"{n_items:,} items with votes in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        with serving(database, home) as address, browser() as opened:
            return [*paints(opened, address, project, token, visits), floor(opened, home, visits)]


def fill(store: Store, n_items: int) -> tuple[int, str]:
    """A project in which nearly everything is labelled, and the link of somebody with work to do."""
    gold = list(load())
    source = (msgspec.structs.replace(gold[n % len(gold)], id=f"item-{n}", votes=()) for n in range(n_items))
    made = create_project(store, "large", source, audit_share=0.05, seed=1)
    for n in range(PEOPLE):
        invite(store, made.project.id, f"annotator {n}")
    newcomer = invite(store, made.project.id, "newcomer")
    people = [one for one in people_of(store, made.project.id) if one.name != "newcomer"]
    store.write(lambda db: _vote(db, made.project.id, people, int(0.95 * n_items)))
    return made.project.id, newcomer.token


def _vote(db: Any, project: int, people: list[Person], count: int) -> None:
    """Votes as the queue would take them, only all in one transaction: 95 % of the items are closed."""
    rng, now = random.Random(1), time.time()
    numbers = db.execute(select(items.c.id).where(items.c.project == project).order_by(items.c.position)).scalars()
    taken: list[dict[str, Any]] = []
    cast: list[dict[str, Any]] = []
    for item in numbers.all()[:count]:
        ballots: list[Ballot] = []
        for place, person in enumerate(rng.sample(people, 4), start=1):
            turn: Pass = "first" if place < 3 else "third" if place == 3 else "audit"
            questions = QUESTIONS if place != 3 else disputed(QUESTIONS, ballots)
            if not questions or (place == 4 and rng.random() > 0.05):
                continue
            answers = read_answers(questions, _opinion(questions, rng), True)
            ballots.append(Ballot(person.name, turn, answers))
            shared = {"item": item, "annotator": person.id, "turn": turn, "candidate_first": True}
            lease = {"id": len(taken) + 1, "place": place, "questions": ",".join(questions), **shared}
            taken.append(lease | {"state": "done", "opened": now, "expires": now, "finished": now - 86400})
            vote = {"lease": lease["id"], "revision": 1, "at": now, "seconds": 40.0, "guideline": "1", **shared}
            cast += [vote | {"question": name, "answer": answer_text(value)} for name, value in answers.items()]
    for table, rows in ((leases, [row | {"revision": 1, "note": ""} for row in taken]), (votes, cast)):
        for start in range(0, len(rows), 5000):
            db.execute(insert(table), rows[start : start + 5000])
    db.execute(update(items).where(items.c.id.in_(select(leases.c.item))).values(stage="closed", rank=0))
    if db.dialect.name == "postgresql":
        db.exec_driver_sql("SELECT setval(pg_get_serial_sequence('leases', 'id'), (SELECT max(id) FROM leases))")


def _opinion(questions: Sequence[str], rng: random.Random) -> dict[str, Any]:
    places = ("first", "first", "first", "second", "both", "neither")
    return {name: rng.choice(places) if name == "preference" else rng.random() < 0.8 for name in questions}


@contextmanager
def serving(database: str, home: Path) -> Iterator[str]:
    """The real command in a process of its own."""
    compeer = str(Path(sys.executable).with_name("compeer"))
    command = [compeer, "studio", "--port", "0", "--db", database, "--data", str(home / "data")]
    with (home / "log").open("wb") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().split()[-1]
        finally:
            process.terminate()
            process.wait()


def paints(opened: Any, address: str, project: int, token: str, visits: int) -> Iterator[dict[str, Any]]:
    home = f"/label/projects/{project}"
    desk = {
        "home": "/",
        "projects": "/label",
        "new project": "/label/new",
        "project": home,
        "agreement": f"{home}/agreement",
        "disagreements": f"{home}/disagreements",
        "disagreements, page 50": f"{home}/disagreements?page=50",
    }
    own = {"welcome": "/label", "labelling": "/label/work", "own labels": "/label/mine", "a rest": "/label/rest"}
    with window(opened, address, viewport=DESK) as (page, _):
        for name, path in desk.items():
            yield visit(page, name, path, visits)
        page.goto(f"/enter/{token}")
        page.locator("main form button").click()
        page.goto("/label")
        page.locator("main form button").click()
        page.locator(".ask.now").wait_for()
        for name, path in own.items():
            yield visit(page, name, path, visits)


class Silent(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: Any) -> None:
        pass


def floor(opened: Any, home: Path, visits: int) -> dict[str, Any]:
    """The same browser, a page that costs its server nothing."""
    folder = home / "bare"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>bare</title><p>One sentence.</p>")
    handler = functools.partial(Silent, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with window(opened, f"http://127.0.0.1:{server.server_port}", viewport=DESK) as (page, _):
                return visit(page, FLOOR, "/", visits)
        finally:
            server.shutdown()


def visit(page: Any, name: str, path: str, visits: int) -> dict[str, Any]:
    found = []
    for _ in range(visits + 1):
        page.goto(path, wait_until="load")
        page.wait_for_timeout(100)
        found.append(page.evaluate(PAINT))
    shown = [one for one in found[1:] if one[0] is not None]  # the first visit loads the files
    paint, server, whole = (statistics.median(column) for column in zip(*shown, strict=True))
    slowest = max(one[0] for one in shown)
    return {"page": name, "paint": paint, "slowest": slowest, "server": server, "whole": whole}


if __name__ == "__main__":
    main()
