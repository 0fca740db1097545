"""The arena in a real browser on the real command: made, three people at once, by keyboard, to the bars at the end.

The suite plays it with 4 cases. With COMPEER_ARENA_CASES=50 it is the full size: four models, 50 cases with pictures.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import compeer
from tests.people.arena_material import GOOD, MODELS, cases, replies
from tests.people.test_arena_results import draws_of, independent
from tests.studio.browsing import chromium, window
from tests.studio.process import Studio

from compeer.dialogue import write_rows
from compeer.people.arena_results import OUTCOMES, count_votes, counted_votes, results_of
from compeer.people.store import open_store
from compeer.statistics import Resamples

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
CASES = int(os.environ.get("COMPEER_ARENA_CASES", "4"))
#: of a page that compares: its form's address, both replies, its whole source, what is chosen, and whether pictures wait
READ = """[
  document.querySelector("#answer")?.getAttribute("action") ?? null,
  [...document.querySelectorAll(".reply .said")].map((one) => one.innerText),
  document.documentElement.outerHTML,
  document.querySelector("#answer input:checked")?.value ?? null,
  [...document.querySelectorAll(".shot")].every((one) => one.loading === "lazy"),
]"""
KEYS = {"first": "1", "second": "2", "both": "3", "neither": "4"}


class Player:
    """Somebody with a window of their own, who prefers what is better, more or less."""

    def __init__(self, page: Any, seed: int, authors: dict[str, str]) -> None:
        self.page, self.rng, self.authors = page, random.Random(seed), authors
        self.seen: list[tuple[str, str]] = []
        self.said: list[tuple[str, str, str]] = []
        self.action: str | None = None
        self.replies: list[str] = []
        self.source, self.chosen, self.patient = "", None, True

    def come_in(self, link: str) -> None:
        self.page.goto(link)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/arena")  # invited to one thing: straight there
        assert self.page.get_by_role("link", name="Label").count() == 0, "invited to the arena, not to labelling"
        self.page.get_by_text("can be painful").wait_for()
        self.page.get_by_role("button", name="I have read this. Start").click()
        self.ready()

    def ready(self) -> bool:
        """Wait for the next comparison; False when there is none."""
        self.page.locator(f'#answer[data-ready]:not([action="{self.action}"]), #now h1').first.wait_for()
        self.action, self.replies, self.source, self.chosen, self.patient = self.page.evaluate(READ)
        return self.action is not None

    def shown(self) -> tuple[str, str]:
        left, right = self.replies
        return left, right

    def vote(self) -> None:
        """Read, choose by key, hand in by Enter; the next page is waited for later, while others vote."""
        assert self.patient and not [name for name in MODELS if name in self.source]
        left, right = self.shown()
        pair = tuple(sorted((left, right)))
        assert pair not in self.seen, "nobody compares the same two replies twice"
        self.seen.append((pair[0], pair[1]))
        felt = GOOD[self.authors[left]] - GOOD[self.authors[right]] + self.rng.gauss(0, 1)
        choice = "first" if felt > 0.4 else "second" if felt < -0.4 else self.rng.choice(("both", "neither"))
        self.page.keyboard.press(KEYS[choice])
        assert self.page.evaluate("document.querySelector('#answer input:checked').value") == choice
        self.page.keyboard.press("Enter")
        self.said.append((self.authors[left], self.authors[right], choice))

    def slip(self) -> None:
        """A wrong key, handed in, and taken back."""
        before = self.shown()
        self.page.keyboard.press("4")
        self.page.keyboard.press("z")
        assert self.page.locator("#answer input:checked").count() == 0
        self.page.keyboard.press("4")
        self.page.keyboard.press("Enter")
        assert self.ready() and self.shown() != before
        self.page.keyboard.press("z")
        assert self.ready() and self.shown() == before and self.chosen == "neither"


def test_three_browsers_compare_four_models_and_see_the_bars(opened: Any, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    given = cases(CASES, pictures)
    said = replies(given)
    authors = {reply.response: reply.model for reply in said}
    write_rows(tmp_path / "cases.jsonl", given)
    for model in MODELS:
        write_rows(tmp_path / "replies" / f"{model}.jsonl", [one for one in said if one.model == model])
    db = str(tmp_path / "arena.db")
    with (
        Studio(tmp_path, "--port", "0", "--db", db) as studio,
        window(opened, studio.address) as (desk, desk_wrong),
    ):
        links = coordinate(desk, tmp_path, pictures)
        with (
            window(opened, studio.address) as (anna, anna_wrong),
            window(opened, studio.address) as (ben, ben_wrong),
            window(opened, studio.address) as (cleo, cleo_wrong),
        ):
            players = [Player(page, seed, authors) for seed, page in enumerate((anna, ben, cleo))]
            for player, link in zip(players, links, strict=True):
                player.come_in(link)
            assert players[0].page.evaluate(
                "Promise.all([...document.querySelectorAll('.shot')].map(async (one) => (one.loading = 'eager', await one.decode(), one.naturalWidth)))"
            )[0] == 96  # fmt: skip
            players[0].slip()
            active = list(players)
            while active:
                for player in active:
                    player.vote()
                active = [player for player in active if player.ready()]
            check(players, desk, db)
            assert [anna_wrong, ben_wrong, cleo_wrong, desk_wrong] == [[], [], [], []]
    assert not [name for name in MODELS if name in (tmp_path / "log").read_text()]


def coordinate(desk: Any, home: Path, pictures: Path) -> list[str]:
    """Create arena from files on this machine, and three links."""
    desk.goto("/arena")
    desk.get_by_role("link", name="New arena").click()
    desk.get_by_label("Name", exact=True).fill("pilot <b>")
    desk.get_by_label("Or files on this machine").fill(str(home / "cases.jsonl"))
    desk.get_by_label("Replies, one file or folder per line").fill(str(home / "replies"))
    desk.get_by_label("Folder with pictures").fill(str(pictures))
    desk.locator("main details summary").click()
    assert desk.get_by_label("Votes per comparison").input_value() == "3"
    desk.get_by_label("Votes per comparison").fill("1")  # enough here
    desk.get_by_role("button", name="Create arena").click()
    desk.wait_for_url("**/arena/arenas/*")
    assert desk.get_by_role("heading", level=1).inner_text() == "pilot <b>"
    desk.get_by_label("Names, one per line").fill("Anna\nBen\nCleo")
    desk.get_by_role("button", name="Create links").click()
    desk.locator(".link-line").first.wait_for()
    links = [one.input_value() for one in desk.locator(".link-line input").all()]
    desk.get_by_role("link", name="Back to the arena").click()
    return links


def check(players: list[Player], desk: Any, db: str) -> None:
    """Everybody sees the same bars; they are what was voted; sides and people are balanced."""
    store = open_store(db)
    cast = counted_votes(store, 1)
    total = CASES * 6
    assert len(cast) == total == sum(len(player.said) for player in players)
    assert Counter((one.left, one.right, one.choice) for one in cast) == Counter(
        said for player in players for said in player.said
    )
    assert all(one.seconds is not None for one in cast)
    for place, one in enumerate(MODELS):
        for two in MODELS[place + 1 :]:
            sides = Counter((vote.left, vote.right) for vote in cast if {vote.left, vote.right} == {one, two})
            assert sum(sides.values()) == CASES and abs(sides[one, two] - sides[two, one]) <= 1, sides
    for name in ("Anna", "Ben", "Cleo"):
        mine = [vote for vote in cast if vote.annotator == name]
        assert abs(len(mine) - total / 3) <= 2
        for model in MODELS:
            left, right = (sum(getattr(vote, side) == model for vote in mine) for side in ("left", "right"))
            assert abs(left - right) <= 6, (name, model, left, right)

    found = results_of(store, 1)
    taken = draws_of(Resamples(count_votes(cast, MODELS).cases))
    for pair in found.pairs:
        expected = independent(cast, pair.one, pair.two, taken)
        for kind in OUTCOMES:
            figure = pair.shares[kind]
            assert (figure.value, figure.low, figure.high) == pytest.approx(expected[kind], abs=1e-12)
    for player in players:
        player.page.goto("/arena/work")
        page_says(player.page, found)
    desk.goto("/arena/arenas/1")
    assert desk.locator(".figures dd").all_inner_texts()[:2] == [str(total), str(total)]
    desk.get_by_role("link", name="Results", exact=True).click()
    page_says(desk, found)
    told = json.loads(compeer("arena", "results", "--db", db, "--json").stdout)
    assert [pair["counts"] for pair in told["pairs"]] == [dict(pair.counts) for pair in found.pairs]


def page_says(page: Any, found: Any) -> None:
    page.locator(".ranks").wait_for()
    rows = page.locator(".duels > li")
    assert rows.count() == 6
    for place, pair in enumerate(found.pairs):
        row = rows.nth(place)
        assert row.locator(".left").inner_text() == pair.one and row.locator(".right").inner_text() == pair.two
        won, lost = row.locator(".ends > span").all_inner_texts()
        for told, share in ((won, pair.shares["one"]), (lost, pair.shares["two"])):
            low, high = f"{100 * share.low:.0f}", f"{100 * share.high:.0f}"
            assert told.split() == [f"{100 * share.value:.0f}", "%", f"({low}", "to", f"{high})"]
        widths = [float(one.get_attribute("width")[:-1]) for one in row.locator("rect").all()]
        assert sum(widths) == pytest.approx(100, abs=0.01)
    assert page.locator(".ranks tbody th").all_inner_texts() == [one.model for one in found.ranking]
