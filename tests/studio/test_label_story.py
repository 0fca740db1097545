"""Labelling in a real browser, from making a project to its labels: by keyboard, blind, two of three; and a project with
its own guideline, gold items and practice, six people in two languages, one of them careless, who then compare models."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.people.arena_material import MODELS, cases, replies
from tests.studio.browsing import chromium, window
from tests.studio.labelling import Page, item
from tests.studio.labelling import hand_in as post_answers
from tests.studio.serving import TOKEN, browser_of, csrf, enter, studio

from compeer.cer.item import QUESTIONS, Item, Labels, PastTurn
from compeer.dialogue import write_rows
from compeer.people.arena_results import counted_votes
from compeer.people.store import open_store
from compeer.statistics import wilson

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
    page.wait_for_url("**/label")  # their own queue
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
        desk.get_by_role("link", name="Quality").click()
        desk.get_by_label("Hold the labels of flagged people").uncheck()  # keys are pressed faster than anybody reads
        desk.get_by_role("button", name="Save").click()
        desk.get_by_role("link", name="pilot <b>").click()
        desk.get_by_label("Names, one per line").fill("Anna\nBen\nCleo")
        desk.get_by_role("button", name="Create links").click()
        desk.locator(".link-line input").first.wait_for()
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
        "83.3 % [55.2, 95.3]", "83.3 % [55.2, 95.3]", "75.0 % [46.8, 91.1]", "75.0 % [46.8, 91.1]",
    ]  # fmt: skip
    desk.go_back()
    desk.get_by_role("link", name="Disagreements").click()
    desk.locator(".differ").nth(5).wait_for()
    assert desk.locator(".differ").count() == 6
    assert desk.locator(".differ").first.locator("td b").all_inner_texts() == ["False", "True", "False"]
    assert desk.get_by_role("cell", name="Cleo").count() == 10


# a project as a coordinator runs it

ENGLISH, CHINESE = range(12), range(20, 24)
PEOPLE = {"Anna": "en", "Ben": "both", "Cleo": "en", "Finn": "en", "小雨": "zh", "小林": "zh"}


def truth(n: int) -> dict[str, Any]:
    return {
        "history": n % 3 > 0,
        "emotion": n % 4 > 0,
        "strategy": True,
        "preference": ("reference", "candidate")[n % 2],
    }


def known(n: int, why: str = "") -> Item:
    labels = Labels(history=True, emotion=True, strategy=True, preference="candidate")
    return item(n, id=f"known-{n}", labels=labels, label_source="human", trace={"explanation": why})


def thinks(name: str, n: int) -> dict[str, Any]:
    """What somebody answers: the truth, with a slip here and there; nothing but False where nobody reads."""
    if name == "Finn":
        return dict.fromkeys(STEPS, False) | {"preference": "neither"}
    right = truth(n) if n < 100 else ALL
    slips = {("Cleo", 5): {"history": False}, ("Cleo", 7): {"preference": "both"}, ("小林", 21): {"emotion": False}}
    return right | slips.get((name, n), {}) | ({"history": "unsure"} if (name, n) == ("小雨", 20) else {})


class ByHttp:
    """Somebody without a browser, who sends the same forms."""

    def __init__(self, name: str, address: str, link: str, seconds: str) -> None:
        self.name, self.seconds, self.client = name, seconds, browser_of(address)
        assert enter(self.client, link.rpartition("/")[2]).status_code == 303

    def begin(self, room: str) -> httpx.Response:
        welcome = self.client.get(f"/{room}")
        self.client.post(f"/{room}/begin", data={"csrf": csrf(welcome.text)})
        return self.client.get(f"/{room}/work")

    def label(self, most: int = 99) -> int:
        done, page = 0, self.begin("label")
        while page.status_code == 303:  # practice comes first, without scripts
            asked = self.client.get("/label/practice").text
            number = re.search(r'action="/label/practice/(\d+)"', asked)
            assert number
            form = {"csrf": csrf(asked)} | Page(asked).answers(ALL)
            there = self.client.post(f"/label/practice/{number[1]}", data=form).headers["location"]
            assert "Say what she says" in self.client.get(there).text
            page = self.client.get("/label/work")
        while done < most and (shown := Page(page.text)).item is not None:
            found = re.search(r"number (\d+)\.", page.text)
            assert found
            answer = post_answers(self.client, shown, thinks(self.name, int(found[1])), seconds=self.seconds)
            assert answer.status_code == 303
            done, page = done + 1, self.client.get("/label/work")
        return done

    def compare(self) -> int:
        done, page = 0, self.begin("arena").text
        while there := re.search(r'action="(/arena/compare/[^"/]+)"', page):
            form = {"csrf": csrf(page), "form": Page(page).field("form"), "choice": "first", "seconds": "9"}
            assert self.client.post(there[1], data=form).status_code == 303
            done, page = done + 1, self.client.get("/arena/work").text
        return done


def by_keys(page: Any, name: str, most: int = 99) -> list[int]:
    """Label by keyboard; the numbers of the items."""
    seen: list[int] = []
    while len(seen) < most:
        n, questions, first = sheet(page)
        if not questions:
            break
        wanted = thinks(name, n)
        for question in questions:
            page.keyboard.press("u" if wanted[question] == "unsure" else key(first, wanted[question]))
        hand_in(page)
        seen.append(n)
    return seen


def set_up(desk: Any, home: Path) -> None:
    """Project, guideline, gold and practice items, as the coordinator makes them."""
    chinese = [item(n, language="zh", history=(PastTurn("seeker", f"我又丢了工作，number {n}."),)) for n in CHINESE]
    write_rows(home / "items.jsonl", [*(item(n) for n in ENGLISH), *chinese])
    write_rows(home / "gold.jsonl", [known(n) for n in range(100, 104)])
    write_rows(home / "practice.jsonl", [known(n, "**Say what she says**, and no more.") for n in (200, 201)])
    desk.goto(f"/enter/{TOKEN}")
    desk.get_by_role("button", name="Sign in").click()
    desk.get_by_role("link", name="Open Label").click()
    desk.get_by_role("link", name="New project").click()
    desk.get_by_label("Name", exact=True).fill("winter")
    desk.get_by_label("Upload items").set_input_files(home / "items.jsonl")
    desk.get_by_text("More settings").click()
    desk.get_by_label("Closed items to check again").fill("0")
    desk.get_by_role("button", name="Create project").click()
    desk.get_by_role("link", name="Guideline").click()
    desk.locator('[name="history.en.rule"]').fill("Only what **she** said counts.")
    desk.locator('[name="history.zh.rule"]').fill("只看**她自己**说的话。")
    desk.get_by_role("button", name="Save").click()
    desk.get_by_role("status").first.wait_for()
    desk.goto("/label/projects/1/quality")
    for use, file in (("gold", "gold.jsonl"), ("practice", "practice.jsonl")):
        desk.get_by_label("Upload items with labels").set_input_files(home / file)
        desk.locator("#use").select_option(use)
        desk.get_by_role("button", name="Add items").click()
        desk.get_by_role("cell", name={"gold": "Gold item", "practice": "Practice item"}[use]).first.wait_for()
    desk.get_by_label("Gold items, % of what a person gets").fill("50")
    desk.get_by_role("button", name="Save").click()
    desk.wait_for_url("**/quality")


def invited(desk: Any, address: str) -> Iterator[tuple[str, str]]:
    """Names with their links; three invitations, because languages differ."""
    for kind, without in (("en", "Chinese"), ("zh", "English"), ("both", "")):
        desk.goto("/label/projects/1")
        form = desk.locator('form[action$="/invite"]')
        form.get_by_label("Names, one per line").fill("\n".join(name for name, read in PEOPLE.items() if read == kind))
        if without:
            form.get_by_label(without).uncheck()
        form.get_by_role("button", name="Create links").click()
        desk.locator(".link-line").first.wait_for()
        names = [name for name, read in PEOPLE.items() if read == kind]
        shown = [one.input_value() for one in desk.locator(".link-line input").all()]
        yield from zip(names, (link.replace("http://localhost", address) for link in shown), strict=True)


def practise(page: Any) -> None:
    """The practice round by keyboard alone."""
    for number in (1, 2):
        page.wait_for_url(re.compile(r"/label/practice"))
        ready(page)
        assert page.get_by_role("heading", level=1).inner_text() == f"Practice item {number} of 2"
        _, _, first = sheet(page)
        for question in QUESTIONS:  # the second answer is wrong
            page.keyboard.press("2" if question == "emotion" else key(first, ALL[question]))
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_role("heading", name="The right answers, and why").wait_for()
        assert page.locator(".explained .chip").all_inner_texts() == ["✓ right", "differs", "✓ right", "✓ right"]
        assert page.locator(".rule strong").inner_text() == "Say what she says"
        with page.expect_navigation():
            page.keyboard.press("Enter")  # the way on has the focus


def test_six_people_one_careless_label_and_then_compare(opened: Any, tmp_path: Path) -> None:
    db = str(tmp_path / "labels.db")
    with ExitStack() as stack:
        address = stack.enter_context(studio(tmp_path / "data", db=db, public="http://localhost", token=TOKEN))
        desk, desk_wrong = stack.enter_context(window(opened, address))
        anna, anna_wrong = stack.enter_context(window(opened, address))
        yu, yu_wrong = stack.enter_context(window(opened, address, locale="zh-CN"))
        set_up(desk, tmp_path)
        links = dict(invited(desk, address))
        assert links.keys() == PEOPLE.keys()

        anna.goto(links["Anna"])
        anna.get_by_role("button", name="Sign in").click()
        anna.get_by_role("button", name="I have read this. Start").click()
        practise(anna)
        ready(anna)
        assert anna.locator('[data-guide="history"] strong').inner_text() == "she", "the coordinator's own guideline"
        first = by_keys(anna, "Anna", most=4)
        assert sum(n >= 100 for n in first) == 2 and {n for n in first if n < 100} == {0, 1}, "half is gold"
        yu.goto(links["小雨"])
        yu.locator("form[action='/enter'] button").click()
        yu.locator("form[action^='/label/begin'] button").click()
        ready(yu)
        assert yu.locator('[data-guide="history"] strong').inner_text() == "她自己"
        assert by_keys(yu, "小雨") == list(CHINESE), "only what she reads"

        http = {name: ByHttp(name, address, links[name], "30") for name in ("Ben", "Cleo", "小林")}
        http["Finn"] = ByHttp("Finn", address, links["Finn"], "0.4")
        for one in http.values():
            stack.callback(one.client.close)
        assert http["小林"].label() == len(CHINESE)
        http["Ben"].label()
        assert http["Finn"].label() == 10, "flagged after ten items, and given no more"
        assert "Your work is paused" in http["Finn"].client.get("/label/work").text

        held_and_discarded(desk)
        http["Cleo"].label()
        anna.goto("/label/work")
        ready(anna)
        later = by_keys(anna, "Anna")
        assert {n for n in later if n < 100} - {2} == {5, 7}, "what she held, and thirds where Ben and Cleo differ"
        http["Ben"].label()
        labels_are_right(desk)
        compare_models(desk, anna, http, yu, tmp_path)
        votes = counted_votes(open_store(db), 2)
        assert {one.annotator for one in votes} == PEOPLE.keys() and len(votes) == 18
        assert [desk_wrong, anna_wrong, yu_wrong] == [[], [], []]


def held_and_discarded(desk: Any) -> None:
    desk.goto("/label/projects/1")
    assert desk.get_by_role("row", name="Finn").get_by_text("on hold: 10").is_visible()
    figures = dict(
        zip(desk.locator(".figures dt").all_inner_texts(), desk.locator(".figures dd").all_inner_texts(), strict=True)
    )
    assert figures["wait for your decision"] == "6", "four of the ten were gold"
    desk.get_by_role("link", name="Quality").click()
    finn = desk.get_by_role("article", name="Finn")
    finn.wait_for()
    reasons = finn.get_by_role("listitem").all_inner_texts()
    assert reasons[0].startswith("Median time per item: 0.4 s (items: 10). The others: 30 s.")
    assert reasons[1].startswith("Right answers to gold items: 0 of 16 (0 %, 95 % interval 0 to 49 %)")
    assert desk.locator("article").count() == 1, "nobody else is flagged"
    finn.get_by_role("button", name="Discard").click()
    desk.locator("article .chip", has_text="discarded").wait_for()


def labels_are_right(desk: Any) -> None:
    """What comes out: labels, votes that were discarded, agreement with intervals."""
    text = desk.request.get("/label/projects/1/export/labels.csv").text()
    rows = {one["item"]: one for one in csv.DictReader(text.removeprefix("\ufeff").splitlines())}
    assert rows.keys() == {f"d{n}#1" for n in (*ENGLISH, *CHINESE)}, "gold and practice are no labels"
    for n in (*ENGLISH, *CHINESE):
        got = {name: rows[f"d{n}#1"][name] for name in QUESTIONS}
        assert got == {name: str(value).lower() for name, value in truth(n).items()}, n
        assert "Finn" not in rows[f"d{n}#1"]["annotators"]
    assert rows["d20#1"]["history_status"] == rows["d5#1"]["history_status"] == "adjudicated"
    text = desk.request.get("/label/projects/1/export/votes.csv").text()
    cast = list(csv.DictReader(text.removeprefix("\ufeff").splitlines()))
    assert {one["annotator"] for one in cast if one["standing"] == "discarded"} == {"Finn"}
    assert "unsure" in {one["answer"] for one in cast if one["annotator"] == "小雨" and one["item"] == "d20#1"}
    desk.goto("/label/projects/1/agreement")
    cells = desk.locator("tbody tr").first.locator("td")
    cells.first.wait_for()
    counted = [
        one for one in cast if one["question"] == "history" and one["pass"] == "first" and one["standing"] == "counts"
    ]
    pairs = [[two["answer"] for two in counted if two["item"] == name] for name in rows]
    voted = [pair for pair in pairs if "unsure" not in pair]
    assert all(len(pair) == 2 for pair in pairs) and len(voted) == 15
    share = sum(one == two for one, two in voted) / len(voted)
    low, high = wilson(share, len(voted))
    assert cells.nth(1).inner_text() == f"{100 * share:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    assert cells.nth(5).inner_text() == "1", "unsure"


def compare_models(desk: Any, anna: Any, http: dict[str, ByHttp], yu: Any, home: Path) -> None:
    """The same people, with the links that they have, in the arena."""
    given = cases(6)
    given[4:] = [msgspec.structs.replace(one, language="zh") for one in given[4:]]
    write_rows(home / "cases.jsonl", given)
    files = [home / f"{model}.jsonl" for model in MODELS[:2]]
    for file in files:
        write_rows(file, [one for one in replies(given, MODELS[:2]) if one.model == file.stem])
    desk.goto("/arena/new")
    desk.get_by_label("Name", exact=True).fill("duel")
    desk.locator("#file").set_input_files(home / "cases.jsonl")
    desk.locator("#files").set_input_files(files)
    desk.get_by_role("button", name="Create arena").click()
    desk.get_by_label("Names, one per line").fill("\n".join(PEOPLE))
    desk.get_by_role("button", name="Create links").click()
    desk.get_by_role("heading", name="Personal links").wait_for()
    assert desk.locator(".link-line").count() == 0, "everybody uses the link they have"
    for page, choice in ((anna, "1"), (yu, "2")):
        page.goto("/arena")
        page.locator("form[action^='/arena/begin'] button").click()
        page.locator("#answer[data-ready]").wait_for()
        page.keyboard.press(choice)
        with page.expect_navigation():
            page.keyboard.press("Enter")
    assert all(one.compare() for one in http.values())
    for page in (anna, yu):
        while page.locator("#answer").count():
            page.locator("#answer[data-ready]").wait_for()
            page.keyboard.press("1")
            with page.expect_navigation():
                page.keyboard.press("Enter")
    desk.goto("/arena/arenas/2/results")
    desk.locator(".ranks").wait_for()
    assert set(desk.locator(".ranks tbody th").all_inner_texts()) == set(MODELS[:2])
