"""Pictures of every page of the room Label for the documentation: both themes, and a phone.

python -m tests.studio.label_pictures docs/img        (with "all" at the end: whole pages, and a dark phone as well)
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from tests.people.arena_material import cases, replies
from tests.studio.browsing import browser, looks, shoot, window
from tests.studio.labelling import real_items
from tests.studio.serving import studio

from compeer.cer.gold import load
from compeer.cer.item import Item
from compeer.people.arena import create_arena
from compeer.people.guideline import default_guideline, read_questions, save_guideline, set_questions
from compeer.people.invitations import Person, invite, pause
from compeer.people.known_items import CheckedQueue, add_known
from compeer.people.labelling import AssignedItem, create_project
from compeer.people.store import Store, open_store

#: a person of their own for each look: to label, to be invited, to have work in both rooms
VISITORS = {"light": "Emil", "dark": "Mira", "phone": "小雨", "phone-dark": "Noor"}
INVITED = {"light": "Fei\nGina", "dark": "Olu\nPia", "phone": "小林\n小周", "phone-dark": "Rosa\nSam"}
BOTH = {"light": "Tove", "dark": "Uma", "phone": "小陈", "phone-dark": "Vera"}
TONE = {
    "id": "tone",
    "text": {"en": "Which tone does the supporter take?", "zh": "支持者的语气是怎样的？"},
    "answers": [
        {"id": "warm", "text": {"en": "Warm", "zh": "温暖"}},
        {"id": "cool", "text": {"en": "Cool", "zh": "冷淡"}},
    ],
}
WHY = "The reply asks before it advises, and **the feeling is named in her own words**. A reading of anger is not in the text."
NOTES = ("The stage could be either.", "I read this as tired, not angry.", "Both are kind, A is shorter.")


def known_moments() -> tuple[list[Item], list[Item]]:
    """Gold and practice items: moments whose labels are known."""
    english = [one for one in load() if one.language == "en" and len(one.history) > 2][-8:]
    told = [msgspec.structs.replace(one, id=f"known/{one.id}", trace={"explanation": WHY}) for one in english]
    return told[2:], told[:2]


def opinion(work: AssignedItem, rng: random.Random) -> dict[str, Any]:
    """Somebody's answers: mostly those that most people give to this item, now and then others."""
    task = work.task
    plain = random.Random(task.history[-1].text)
    usual: dict[str, Any] = {step: plain.random() < 0.7 for step in ("history", "emotion", "strategy")}
    better = min(("first", "second"), key=lambda place: getattr(task, place))
    moment = (task.history[-1].text, *sorted((task.first or "", task.second or "")))
    for one in known_moments()[0]:  # gold: the known answer
        if one.candidate and (one.history[-1].text, *sorted((one.candidate.response, one.reference))) == moment:
            usual = {step: getattr(one.labels, step) or False for step in usual}
            places = {task.first: "first", task.second: "second"}
            right = {"candidate": places[one.candidate.response], "reference": places[one.reference]}
            better = right.get(str(one.labels.preference), str(one.labels.preference))
    usual = {step: value if rng.random() < 0.93 else not value for step, value in usual.items()}
    usual["preference"] = better if rng.random() < 0.75 else rng.choice(("first", "second", "both", "neither"))
    usual["tone"] = "warm" if rng.random() < 0.8 else "cool"
    if rng.random() < 0.05:
        usual["emotion"] = "unsure"
    return {question: usual[question] for question in task.questions}


def label(store: Store, people: list[Person], votes: int, rng: random.Random, skips: tuple[int, ...] = ()) -> None:
    """So many items are handed in, by one after another; whoever is called Kim does not read them."""
    queue = CheckedQueue(store)
    for turn in range(votes):
        person = people[turn % len(people)]
        if (work := queue.next(person)) is not None:
            if turn in skips:
                queue.skip(person, work.item, "" if turn == skips[-1] else "unclear", distress=turn == skips[-1])
                continue
            note = rng.choice(NOTES) if rng.random() < 0.2 else ""
            answers, seconds = opinion(work, rng), rng.uniform(25, 110)
            if person.name == "Kim":
                answers |= {step: False for step in ("history", "emotion", "strategy") if step in answers}
                note, seconds = "", rng.uniform(0.8, 1.9)
            queue.submit(person, work.item, answers, seconds=seconds, note=note)


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "pictures").mkdir()
        database = str(home / "labels.db")
        store = open_store(database)
        made = create_project(
            store,
            "Pilot, spring",
            real_items(60, home / "pictures"),
            images=home / "pictures",
            audit_share=0.15,
            seed=3,
        )
        rng, project = random.Random(4), made.project.id
        set_questions(store, project, read_questions([TONE]))
        save_guideline(store, project, default_guideline(), "2")
        for use, items in zip(("gold", "practice"), known_moments(), strict=True):
            add_known(store, project, items, use)  # type: ignore[arg-type]
        people = [invite(store, project, one).person for one in ("Anna", "Ben", "Cleo", "Dao 道", "Kim")]
        label(store, people, 130, rng, skips=(7, 41))
        pause(store, project, "Ben")
        second = create_project(store, "Second round", real_items(20)).project.id
        last = create_project(store, "Finished", real_items(30)[:12], audit_share=0.0).project.id
        done = [invite(store, last, one) for one in ("Hana", "Ivo", "Jun")]
        label(store, [one.person for one in done], 60, rng)
        moments = cases(6)
        arena = create_arena(store, "Two models", moments, replies(moments, ("aspen", "birch")), seed=1).arena.id
        with studio(home / "data", db=database) as address, browser() as opened:
            for look, options in looks().items():
                visitor = invite(store, project, VISITORS[look])
                both = invite(store, project, BOTH[look])
                invite(store, arena, BOTH[look])
                with window(opened, address, **options) as (tab, _):
                    coordinate(tab, project, second, target, look)
                with window(opened, address, **options) as (tab, _):
                    annotate(tab, visitor.token or "", target, look)
                with window(opened, address, **options) as (tab, _):
                    tab.goto(f"/enter/{both.token}")
                    tab.locator("main form button").click()
                    tab.locator("main .list").wait_for()
                    shoot(tab, target / f"label-start-{look}.png", whole=True)
                with window(opened, address, **options) as (tab, _):
                    begin(tab, done[0].token or "")
                    shoot(tab, target / f"label-done-{look}.png", whole=True)
                    tab.goto("/label/mine")
                    shoot(tab, target / f"label-mine-{look}.png", whole=True)


def coordinate(tab: Any, project: int, second: int, target: Path, look: str) -> None:
    """The coordinator's pages, without changing anything that the next look would show."""
    here = f"/label/projects/{project}"
    pages = {
        "projects": "/label",
        "new": "/label/new",
        "project": here,
        "agreement": f"{here}/agreement?question=preference",
        "disagreements": f"{here}/disagreements",
        "quality": f"{here}/quality",
        "known": f"{here}/quality/item?name={quote(known_moments()[1][0].id)}",
        "guideline": f"{here}/guideline",
        "questions": f"{here}/questions",
        "preview": f"{here}/preview",
        "reminders": f"{here}/reminders",
    }
    for name, path in pages.items():
        tab.goto(path)
        if name == "agreement":
            tab.locator(".pairs summary").first.click()
        if name == "preview":
            tab.locator("#answers[data-ready]").wait_for()
        tab.evaluate("scrollTo(0, 0)")
        shoot(tab, target / f"label-{name}-{look}.png", whole=True)
    tab.goto(f"/label/projects/{second}")
    tab.locator("#names").fill(INVITED[look])
    tab.locator("form:has(#names) button").click()
    tab.locator(".link-line").first.wait_for()
    shoot(tab, target / f"label-links-{look}.png", whole=True)


def begin(tab: Any, token: str, on_welcome: Callable[[], None] = lambda: None) -> None:
    tab.goto(f"/enter/{token}")
    tab.locator("main form button").click()
    tab.wait_for_url("**/label")
    on_welcome()
    tab.locator("main form button").click()
    tab.locator("#answers[data-ready], section.reading h1").first.wait_for()


def annotate(tab: Any, token: str, target: Path, look: str) -> None:
    def shot(name: str, *, whole: bool = False) -> None:
        shoot(tab, target / f"label-{name}-{look}.png", whole=whole)

    begin(tab, token, lambda: shot("welcome", whole=True))
    small = look.startswith("phone")
    for number in (1, 2):  # the practice round
        tab.locator("#answers[data-ready]").wait_for()
        if number == 1:
            shot("practice", whole=small)
        for _ in range(tab.locator(".ask").count()):
            tab.keyboard.press("1")
        tab.keyboard.press("Enter")
        tab.locator("table.explained").wait_for()
        if number == 1:
            shot("explained", whole=True)
        tab.locator("a[autofocus]").click()
    tab.locator("#answers[data-ready] .ask.now").wait_for()
    shot("work", whole=small)
    tab.keyboard.press("1")
    tab.locator("#state:not(:empty)").wait_for()
    for key, name in (("s", "skip"), ("d", "distress"), ("?", "keys")):
        tab.keyboard.press(key)
        tab.locator("dialog[open]").wait_for()
        shot(name)
        tab.keyboard.press("Escape")
    tab.keyboard.press("d")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/label/rest")
    shot("rest", whole=True)
    tab.goto("/label/items/999999")
    shot("refused", whole=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
