"""Labelling in a real browser, from making a project to its labels: by keyboard, blind, two of three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.studio.browsing import chromium, window
from tests.studio.labelling import item
from tests.studio.serving import TOKEN, studio

from compeer.cer.item import QUESTIONS, Item
from compeer.dialogue import write_rows

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

STEPS = QUESTIONS[:3]
ALL = {"history": True, "emotion": True, "strategy": True, "preference": "candidate"}
#: what people think of items; everybody agrees with ALL elsewhere
ANNA: dict[int, dict[str, Any]] = {
    3: {"history": False}, 5: {"preference": "both"}, 6: {"preference": "reference"}, 8: {"emotion": False},
}  # fmt: skip
BEN: dict[int, dict[str, Any]] = {
    0: {"strategy": False}, 4: {"emotion": False, "strategy": False}, 7: dict.fromkeys(STEPS, False) | {"preference": "neither"},
    8: {"emotion": False},
}  # fmt: skip
CLEO: dict[int, dict[str, Any]] = {
    0: {"strategy": False}, 3: {"history": False}, 4: {"emotion": False}, 6: {"preference": "neither"},
}  # fmt: skip
ITEMS = 12
#: notes at every key which question has the focus and which guideline is seen
KEYED = """
window.keyed = [];
addEventListener("keydown", () => {
  const seen = [...document.querySelectorAll("[data-guide]")].filter((one) => one.checkVisibility());
  keyed.push([document.activeElement.name, seen.map((one) => one.dataset.guide).join()]);
}, { capture: true });
"""
KEYS = {"true": "1", "false": "2", "first": "1", "second": "2", "both": "3", "neither": "4"}


def reach(page: Any, words: str) -> None:
    """Press Tab until what has the focus says this."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if words in page.evaluate("document.activeElement.innerText ?? ''"):
            return
    raise AssertionError(f"{words} cannot be reached by keyboard")


def come_in(page: Any, link: str, *, by_keyboard: bool = False) -> None:
    def press(words: str) -> None:
        if by_keyboard:
            reach(page, words)
            page.keyboard.press("Enter")
        else:
            page.get_by_role("button", name=words).click()

    page.add_init_script(KEYED)
    page.goto(link)
    press("Sign in")
    page.wait_for_url("**/")
    page.goto("/label/work")
    assert page.url.endswith("/label"), "the warning comes first"
    assert page.get_by_text("can be painful").is_visible() and page.locator(".care").get_by_text("116 123").is_visible()
    press("I have read this. Start")
    page.wait_for_url("**/label/work")
    ready(page)


def ready(page: Any) -> None:
    """Wait until keys work, or there is nothing to label."""
    page.locator("#answers[data-ready], section.reading h1").first.wait_for()


def sheet(page: Any) -> tuple[int, list[str], str]:
    """Which item is shown, from its text alone; what is asked; and the first of the two replies, if it is asked."""
    last, questions, first = page.evaluate(
        "[[...document.querySelectorAll('.pane .said')].at(-1)?.innerText ?? '', "
        "[...document.querySelectorAll('.ask')].map((one) => one.dataset.question), "
        "document.querySelector('.pair .said')?.innerText ?? '']"
    )
    return (int(last.rstrip(".").split()[-1]) if questions else -1), questions, first


def number(page: Any) -> int:
    return sheet(page)[0]


def key(first: str, wanted: Any) -> str:
    wanted = str(wanted).lower()
    if wanted in ("candidate", "reference"):
        wanted = "first" if first.startswith({"candidate": "CAND", "reference": "REF"}[wanted]) else "second"
    return KEYS[wanted]


def answer(page: Any, thinks: dict[str, Any]) -> None:
    """One item by keyboard: a key for each question; the focus moves by itself."""
    _, questions, first = sheet(page)
    page.evaluate("keyed.length = 0")
    for question in questions:
        page.keyboard.press(key(first, thinks[question]))
    focused = [[question, question] for question in questions]
    assert page.evaluate("keyed") == focused, "each had the focus, and its guideline stood beside it"


def hand_in(page: Any) -> None:
    with page.expect_navigation(wait_until="commit"):
        page.keyboard.press("Enter")
    ready(page)


def label(page: Any, opinions: dict[int, dict[str, Any]], most: int = 99) -> dict[int, list[str]]:
    """Everything that the queue has for somebody: what was asked about each item."""
    seen: dict[int, list[str]] = {}
    while len(seen) < most:
        shown, questions, _ = sheet(page)
        if not questions:
            break
        assert shown not in seen, "nobody sees an item twice"
        seen[shown] = questions
        answer(page, ALL | opinions.get(shown, {}))
        hand_in(page)
    return seen


def test_the_whole_story(opened: Any, tmp_path: Path) -> None:
    source = tmp_path / "items.jsonl"
    write_rows(source, [item(n) for n in range(ITEMS)])
    with (
        studio(tmp_path / "data", db=str(tmp_path / "labels.db"), public="http://localhost", token=TOKEN) as address,
        window(opened, address) as (desk, desk_wrong),
    ):
        desk.goto(f"/enter/{TOKEN}")
        desk.get_by_role("button", name="Sign in").click()
        desk.get_by_role("link", name="Open Label").click()
        desk.get_by_role("link", name="New project").click()
        desk.get_by_label("Name", exact=True).fill("pilot <b>")
        desk.get_by_label("Upload items").set_input_files(source)
        desk.get_by_text("More settings").click()
        desk.get_by_label("Closed items to check again").fill("0")
        desk.get_by_role("button", name="Create project").click()
        assert desk.get_by_role("heading", level=1).inner_text() == "pilot <b>"
        desk.get_by_label("Names, one per line").fill("Anna\nBen\nCleo")
        desk.get_by_role("button", name="Create links").click()
        links = [
            one.input_value().replace("http://localhost", address) for one in desk.locator(".link-line input").all()
        ]
        assert len(links) == 3
        desk.get_by_role("link", name="Back to the project").click()
        assert not any(link.rpartition("/")[2] in desk.content() for link in links), "shown once"

        with (
            window(opened, address) as (anna, anna_wrong),
            window(opened, address) as (ben, ben_wrong),
            window(opened, address) as (cleo, cleo_wrong),
        ):
            come_in(cleo, links[2])
            assert list(label(cleo, CLEO, most=1)) == [0]
            cleo.keyboard.press("s")  # the second she skips, then goes for lunch with the third before her
            cleo.keyboard.press("2")
            with cleo.expect_navigation():
                cleo.keyboard.press("Enter")
            assert number(cleo) == 2
            desk.get_by_label("Change Cleo").get_by_role("button", name="Pause").click()  # what she holds goes back
            desk.get_by_text("paused").wait_for()
            cleo.goto("/label/work")
            assert cleo.get_by_role("heading", level=1).inner_text() == "Your work is paused"
            come_in(anna, links[0], by_keyboard=True)
            slips(anna)
            assert label(anna, ANNA).keys() == set(range(ITEMS)) - {0, 1}
            come_in(ben, links[1], by_keyboard=True)
            seen = label(ben, BEN)
            assert next(iter(seen)) == 0 and seen.pop(0) == ["strategy"], "Cleo and Anna differ on it: Ben is the third"
            assert seen == {n: list(QUESTIONS) for n in range(1, ITEMS)}
            desk.get_by_label("Change Cleo").get_by_role("button", name="Resume").click()
            cleo.goto("/label/work")
            ready(cleo)
            source_seen = cleo.content()
            assert cleo.locator("#answers input:checked").count() == 0
            thirds = label(cleo, CLEO)
            assert thirds == {
                3: ["history"],
                4: ["emotion", "strategy"],
                5: ["preference"],
                6: ["preference"],
                7: list(QUESTIONS),
            }, "exactly what is disputed, and nothing that she has seen or put away"
            for told in ("Anna", "Ben", "a note of Anna", "candidate", "reference", "third"):
                assert told not in source_seen, told
            assert cleo.get_by_role("heading", level=1).inner_text() == "All done. Thank you"
            assert [anna_wrong, ben_wrong, cleo_wrong] == [[], [], []]

        desk.reload()
        with desk.expect_download() as download:
            desk.get_by_role("button", name="CER items").click()
        labelled = [
            msgspec.json.decode(line, type=Item) for line in Path(download.value.path()).read_bytes().splitlines()
        ]
        assert [one.id for one in labelled] == [f"d{n}#1" for n in range(ITEMS)]
        for n, one in enumerate(labelled):
            check(one, {name: ALL | given.get(n, {}) for name, given in (("Anna", ANNA), ("Ben", BEN), ("Cleo", CLEO))})
        statuses = {n: one.trace["consensus"] for n, one in enumerate(labelled)}
        assert statuses[6]["preference"] == "dropped" and labelled[6].labels.preference is None
        assert statuses[0]["strategy"] == "adjudicated" and labelled[0].labels.strategy is False
        assert statuses[8] == dict.fromkeys(QUESTIONS, "agreed") and labelled[8].labels.emotion is False
        assert labelled[1].trace["annotation"]["skips"][0] | {"at": ""} == {
            "annotator": "Cleo", "at": "", "reason": "language", "distress": False,
        }  # fmt: skip
        assert labelled[2].trace["annotation"]["notes"] == {"Anna": "a note of Anna"}
        coordinator_reads(desk)
        assert desk_wrong == []


def slips(anna: Any) -> None:
    """Two items on which Anna presses wrong keys and takes them back, and one with a note."""
    assert number(anna) == 0
    anna.keyboard.press("2")
    anna.keyboard.press("z")
    assert anna.locator(".ask.now").get_attribute("data-question") == "history"
    assert anna.locator("#answers input:checked").count() == 0
    answer(anna, ALL)
    hand_in(anna)
    assert number(anna) == 1
    answer(anna, ALL | {"history": False})
    hand_in(anna)
    assert number(anna) == 2
    anna.keyboard.press("z")  # nothing answered here yet: the item before comes back
    anna.locator("#answers[data-ready] input[name=history][value=false]:checked").wait_for(state="attached")
    assert number(anna) == 1
    anna.keyboard.press("ArrowUp")
    anna.keyboard.press("ArrowUp")
    anna.keyboard.press("ArrowUp")
    anna.keyboard.press("1")
    hand_in(anna)
    assert number(anna) == 2
    anna.keyboard.press("n")
    anna.keyboard.type("a note of Anna")
    anna.keyboard.press("Escape")


def check(labelled: Item, opinions: dict[str, dict[str, Any]]) -> None:
    """Label, status and votes of every question, worked out here from what everybody thinks."""
    first = ("Cleo", "Anna") if labelled.id == "d0#1" else ("Anna", "Ben")
    (third,) = {"Anna", "Ben", "Cleo"} - set(first)
    for question in QUESTIONS:
        wanted = [(name, opinions[name][question]) for name in first]
        if wanted[0][1] != wanted[1][1]:
            wanted.append((third, opinions[third][question]))
        cast = [vote for vote in labelled.votes if vote.question == question]
        assert sorted((vote.annotator, vote.value) for vote in cast) == sorted(wanted), (labelled.id, question)
        assert all(vote.seconds is not None and vote.guideline == "1" for vote in cast)
        assert all(vote.candidate_first is not None for vote in cast)
        values = [value for _, value in wanted]
        label = next((value for value in values if values.count(value) > 1), None)
        status = "agreed" if len(values) == 2 else "dropped" if label is None else "adjudicated"
        assert (getattr(labelled.labels, question), labelled.trace["consensus"][question]) == (label, status)


def coordinator_reads(desk: Any) -> None:
    """Agreement by hand: 12 items; the first two differ on two, one, three and three of them."""
    desk.get_by_role("link", name="Agreement", exact=True).click()
    desk.wait_for_url("**/agreement*")
    desk.locator("tbody th", has_text="Replies").first.wait_for()  # the figures come after the heading
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in desk.locator("tbody tr").all()[:4]
    }
    assert [rows[name][1] for name in ("History", "Emotion", "Strategy", "Replies")] == [
        "83.3 %", "83.3 %", "75.0 %", "75.0 %",
    ]  # fmt: skip
    desk.go_back()
    desk.get_by_role("link", name="Disagreements").click()
    desk.locator(".differ").nth(5).wait_for()
    assert desk.locator(".differ").count() == 6
    assert desk.locator(".differ").first.locator("td b").all_inner_texts() == ["False", "True", "False"]
    assert desk.get_by_role("cell", name="Cleo").count() == 10
