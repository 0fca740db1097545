"""Pictures of every page of the room Label for the documentation: both themes, and a phone.

python -m tests.studio.label_pictures docs/img
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.studio.browsing import DESK, PHONE, browser, window
from tests.studio.labelling import real_items
from tests.studio.serving import studio

from compeer.people.invitations import Person, invite, pause
from compeer.people.labelling import AssignedItem, LabellingQueue, create_project
from compeer.people.store import Store, open_store

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {
        "viewport": PHONE,
        "color_scheme": "light",
        "device_scale_factor": 2,
        "locale": "zh-CN",
        "has_touch": True,
        "is_mobile": True,
    },
}
NOTES = ("The stage could be either.", "I read this as tired, not angry.", "Both are kind, A is shorter.")


def opinion(work: AssignedItem, rng: random.Random) -> dict[str, Any]:
    """Somebody's answers: mostly those that most people give to this item, now and then others."""
    plain = random.Random(work.task.history[-1].text)
    usual: dict[str, Any] = {step: plain.random() < 0.8 for step in ("history", "emotion", "strategy")}
    usual = {step: value if rng.random() < 0.9 else not value for step, value in usual.items()}
    better = min(("first", "second"), key=lambda place: getattr(work.task, place))
    usual["preference"] = better if rng.random() < 0.7 else rng.choice(("first", "second", "both", "neither"))
    return {question: usual[question] for question in work.task.questions}


def label(store: Store, people: list[Person], votes: int, rng: random.Random, skips: tuple[int, ...] = ()) -> None:
    """So many items are handed in, by one after another."""
    for turn in range(votes):
        person = people[turn % len(people)]
        if (work := LabellingQueue(store).next(person)) is not None:
            if turn in skips:
                LabellingQueue(store).skip(
                    person, work.item, "" if turn == skips[-1] else "unclear", distress=turn == skips[-1]
                )
                continue
            note = rng.choice(NOTES) if rng.random() < 0.2 else ""
            seconds = rng.uniform(25, 110)
            LabellingQueue(store).submit(person, work.item, opinion(work, rng), seconds=seconds, note=note)


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
        people = [invite(store, project, one).person for one in ("Anna", "Ben", "Cleo", "Dao 道")]
        label(store, people, 110, rng, skips=(7, 40))
        pause(store, project, "Ben")
        create_project(store, "Second round", real_items(20))
        last = create_project(store, "Finished", real_items(30)[:12], audit_share=0.0).project.id
        done = [invite(store, last, one) for one in ("Hana", "Ivo", "Jun")]
        label(store, [one.person for one in done], 60, rng)
        with studio(home / "data", db=database) as address, browser() as opened:
            for look, options in LOOKS.items():
                visitor = invite(store, project, f"Emil {look}")
                with window(opened, address, **options) as (tab, _):
                    coordinate(tab, project, target, look)
                with window(opened, address, **options) as (tab, _):
                    annotate(tab, visitor.token, target, look)
                    begin(tab, done[0].token)
                    tab.screenshot(path=target / f"label-done-{look}.png", full_page=True)


def coordinate(tab: Any, project: int, target: Path, look: str) -> None:
    """The coordinator's pages, without changing anything that the next look would show."""
    pages = {
        "projects": "/label",
        "new": "/label/new",
        "project": f"/label/projects/{project}",
        "agreement": f"/label/projects/{project}/agreement?question=preference",
        "disagreements": f"/label/projects/{project}/disagreements",
    }
    for name, path in pages.items():
        tab.goto(path)
        if name == "agreement":
            tab.locator(".pairs summary").first.click()
        tab.evaluate("scrollTo(0, 0)")
        tab.screenshot(path=target / f"label-{name}-{look}.png", full_page=name != "disagreements")
    tab.goto(f"/label/projects/{project + 1}")
    tab.locator("#names").fill(f"Fei {look}\nGina {look}")
    tab.locator("form:has(#names) button").click()
    tab.locator(".link-line").first.wait_for()
    tab.screenshot(path=target / f"label-links-{look}.png", full_page=True)


def begin(tab: Any, token: str, on_welcome: Callable[[], None] = lambda: None) -> None:
    tab.goto(f"/enter/{token}")
    tab.locator("main form button").click()
    tab.wait_for_url("**/label")
    on_welcome()
    tab.locator("main form button").click()
    tab.wait_for_url("**/label/work")


def annotate(tab: Any, token: str, target: Path, look: str) -> None:
    def shot(name: str, *, whole: bool = False) -> None:
        tab.screenshot(path=target / f"label-{name}-{look}.png", full_page=whole)

    begin(tab, token, lambda: shot("welcome", whole=True))
    tab.locator(".ask.now").wait_for()
    shot("work", whole=look == "phone")
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
    tab.goto("/label/mine")
    shot("mine", whole=True)
    tab.goto("/label/items/999999")
    shot("refused", whole=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
