"""Pictures of the pages of the room Arena for the documentation: both themes, and a phone.

python -m tests.studio.arena_pictures docs/img        (with "all" at the end: a dark phone as well)
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from tests.studio.browsing import browser, looks, shoot, window
from tests.studio.labelling import png, real_items
from tests.studio.serving import studio

from compeer.people.arena import ArenaQueue, CreatedArena, close_arena, create_arena
from compeer.people.arena_cases import Case, Reply
from compeer.people.arena_results import draw, results_of
from compeer.people.invitations import invite
from compeer.people.store import Store, open_store

#: no names of real models: the votes are drawn, and the pictures must not look like a result
GOOD = {"aspen": 0.8, "birch": 0.5, "cedar": -0.3, "dogwood": -0.9}
NOTES = (
    "It asks before it advises.",
    "Kind, but it repeats my words.",
    "Too much advice at once.",
    "更像一个真的在听的人。",
)
#: for each look, people who compare, who see the thinking, and who come after the end
VISITORS = {
    "light": ("Fei", "Gina", "Hua"),
    "dark": ("Olu", "Pia", "Quinn"),
    "phone": ("小林", "小周", "小陈"),
    "phone-dark": ("Rosa", "Sam", "Tove"),
}


def arena(store: Store, home: Path, name: str, count: int, **more: Any) -> tuple[CreatedArena, dict[str, str]]:
    """An arena of real moments; each model answers with what the set holds for some moment."""
    items, cases, replies = real_items(60), [], []
    (home / "window.png").write_bytes(png(480, 270, 150))
    for number, item in enumerate(items[:count]):
        history = item.history
        if history[-1].speaker != "seeker":
            history = history[:-1]
        last = msgspec.structs.replace(history[-1], images=("window.png",))
        cases.append(Case(id=item.id, language=item.language, history=(*history[:-1], last)))
        texts = [item.reference, item.candidate.response if item.candidate else "I am here.",
                 f"{items[(number + 7) % 60].reference}", f"{items[(number + 11) % 60].reference} "]  # fmt: skip
        for model, text in zip(GOOD, texts, strict=True):
            reasoning = item.candidate.reasoning if item.candidate else None
            replies.append(Reply(case=item.id, model=model, response=text, reasoning=reasoning))
    made = create_arena(store, name, cases, replies, images=home, seed=2, **{"votes": 1, **more})
    return made, {reply.response: reply.model for reply in replies}


def play(store: Store, made: CreatedArena, authors: dict[str, str], names: list[str], votes: int) -> None:
    rng = random.Random(6)
    people = [invite(store, made.arena.id, name).person for name in names]
    for turn in range(votes):
        person = people[turn % len(people)]
        if (work := ArenaQueue(store).next(person)) is None:
            continue
        felt = GOOD[authors[work.first]] - GOOD[authors[work.second]] + rng.gauss(0, 1.1)
        choice = "first" if felt > 0.35 else "second" if felt < -0.35 else rng.choice(("both", "both", "neither"))
        note = rng.choice(NOTES) if rng.random() < 0.3 else ""
        ArenaQueue(store).submit(person, work.name, choice, seconds=rng.uniform(8, 50), note=note)


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        store = open_store(home / "arena.db")
        made, authors = arena(store, home, "Spring, four models", 50)
        play(store, made, authors, ["Anna", "Ben", "Cleo"], 270)
        over, others = arena(store, home, "Winter", 20, votes=3)
        play(store, over, others, ["Dao 道", "Emil", "Noor"], 400)
        close_arena(store, over.arena.id)
        shown, _ = arena(store, home, "With reasoning", 10, show_reasoning=True)
        found = results_of(store, over.arena.id)
        for kind in ("svg", "png"):
            draw(found, target / f"arena-figure.{kind}")
        with studio(home / "data", db=str(home / "arena.db")) as address, browser() as opened:
            for look, options in looks().items():
                fei, gina, hua = VISITORS[look]
                with window(opened, address, **options) as (tab, _wrong):
                    coordinate(tab, made.arena.id, over.arena.id, target, look)
                with window(opened, address, **options) as (tab, _wrong):
                    compare(tab, invite(store, made.arena.id, fei).token or "", target, look)
                with window(opened, address, **options) as (tab, _wrong):
                    come_in(tab, invite(store, shown.arena.id, gina).token or "")
                    tab.locator(".reply summary").first.click()
                    shoot(tab, target / f"arena-reasoning-{look}.png")
                with window(opened, address, **options) as (tab, _wrong):
                    come_in(tab, invite(store, over.arena.id, hua).token or "")
                    shoot(tab, target / f"arena-over-{look}.png", whole=True)


def coordinate(tab: Any, open_one: int, over: int, target: Path, look: str) -> None:
    pages = {
        "list": "/arena",
        "new": "/arena/new",
        "one": f"/arena/arenas/{open_one}",
        "results": f"/arena/arenas/{over}/results",
    }
    for name, path in pages.items():
        tab.goto(path)
        shoot(tab, target / f"arena-{name}-{look}.png", whole=True)
    tab.locator("a[href*='/cases?one=']").first.click()
    tab.wait_for_url("**/cases?one=*")
    shoot(tab, target / f"arena-cases-{look}.png", whole=True)


def come_in(tab: Any, token: str) -> None:
    tab.goto(f"/enter/{token}")
    tab.locator("main form button").click()
    tab.wait_for_url("**/arena")
    tab.locator("main form button").click()
    tab.locator("#answer[data-ready], #now h1").first.wait_for()


def compare(tab: Any, token: str, target: Path, look: str) -> None:
    come_in(tab, token)
    tab.evaluate(
        "Promise.all([...document.querySelectorAll('.shot')].map((one) => (one.loading = 'eager', one.decode())))"
    )
    tab.evaluate("document.querySelector('.pane').scrollTo(0, 1e6)")
    tab.keyboard.press("1")
    shoot(tab, target / f"arena-compare-{look}.png", whole=look.startswith("phone"))
    tab.goto("/arena")
    shoot(tab, target / f"arena-welcome-{look}.png", whole=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
