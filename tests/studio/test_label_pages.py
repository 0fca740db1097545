"""The labelling pages: what is kept while somebody works, hostile text, no script, a phone, and people who listen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.people.labelling import LABELS
from tests.people.test_quality import known
from tests.studio.browsing import PHONE, chromium, window
from tests.studio.labelling import item, png
from tests.studio.serving import studio

from compeer.cer.item import Candidate, PastTurn
from compeer.people.invitations import invite
from compeer.people.known_items import ItemAddresses, add_known
from compeer.people.labelling import LabellingQueue, create_project
from compeer.people.store import Store, open_store
from compeer.people.tables import skips, votes
from compeer.reasoning import Reasoning

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> </p></section><h1>big</h1> "
    "{{ 7*7 }} {% raw %} &lt;b&gt; \u202egnirts desrever\u202c \u2067שלום\u2069 \u200f مرحبا 👩‍👩‍👧‍👦🏳️‍🌈 "
    "'\"`--><!-- ]]> javascript:alert(1) \x07 end"
)
LONG = "wordwithoutanyspace" * 600 + " many words " * 700 + "the end"  # 20,000 characters


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened_store = open_store(tmp_path / "labels.db")
    yield opened_store
    opened_store.close()


@pytest.fixture
def address(tmp_path: Path, store: Store) -> Iterator[str]:
    with studio(tmp_path / "data", db=str(tmp_path / "labels.db")) as found:
        yield found


def come_in(page: Any, token: str) -> None:
    page.goto(f"/enter/{token}")
    page.locator("main form button").click()
    page.goto("/label")
    page.locator("main form button").click()
    page.locator(".asks").wait_for()


def test_what_is_filled_in_is_kept(opened: Any, address: str, store: Store) -> None:
    """Through a reload, an absent studio, a changed mind; and putting away is one key and no questions."""
    made = create_project(store, "p", [item(n) for n in range(4)], audit_share=0.0)
    token = invite(store, made.project.id, "Anna").token
    with window(opened, address) as (page, wrong):
        come_in(page, token)
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.locator("#state").get_by_text("saved").wait_for()
        page.reload()
        page.locator(".ask.now").wait_for()
        assert page.locator("#answers input:checked").evaluate_all("all => all.map((one) => one.name + one.value)") == [
            "historytrue", "emotionfalse",
        ]  # fmt: skip
        assert page.locator(".ask.now").get_attribute("data-question") == "strategy"
        page.keyboard.press("Enter")
        assert page.locator("#state").inner_text() == "Not answered yet: Strategy, Replies"
        page.keyboard.press("1")
        page.keyboard.press("3")
        page.context.set_offline(True)
        page.keyboard.press("Enter")
        page.locator("#state").get_by_text("Not submitted: the studio is not responding").wait_for()
        page.context.set_offline(False)
        page.keyboard.press("Enter")
        page.get_by_text("Item 2 of 4").wait_for()
        page.goto("/label/mine")
        page.locator(".list a").click()
        page.get_by_text("You can change it until it is closed").wait_for()
        page.locator("label").filter(has_text="Neither").click()
        page.keyboard.press("Enter")
        page.wait_for_url("**/label/mine")
        page.goto("/label/work")
        page.locator(".ask.now").wait_for()  # keys are heard from now on
        page.keyboard.press("?")
        page.get_by_role("dialog").get_by_text("this one distresses me").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("d")
        page.get_by_role("dialog").get_by_text("no reason is asked").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url("**/label/rest")
        assert page.locator(".care").get_by_role("link", name="116 123").is_visible()
        assert [one for one in wrong if "ERR_INTERNET_DISCONNECTED" not in one] == []
    with store.read() as db:
        cast = [(row.revision, row.question, row.answer) for row in db.execute(votes.select().order_by(votes.c.id))]
        put_away = [(row.reason, row.distress) for row in db.execute(skips.select())]
    assert [one for one in cast if one[1] == "preference"] == [(1, "preference", "both"), (2, "preference", "neither")]
    assert len(cast) == 8 and put_away == [("", True)]


def test_without_a_script_plain_forms_do_the_same(opened: Any, address: str, store: Store) -> None:
    made = create_project(store, "p", [item(n) for n in range(3)], audit_share=0.0)
    token = invite(store, made.project.id, "Anna").token
    with window(opened, address, java_script_enabled=False) as (page, wrong):
        come_in(page, token)
        for question, value in (
            ("history", "true"),
            ("emotion", "false"),
            ("strategy", "true"),
            ("preference", "both"),
        ):
            page.locator(f"input[name={question}][value={value}]").check()
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("Item 2 of 3").wait_for()
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("Item 1 of 3").wait_for()
        assert page.locator("#answers input:checked").count() == 4
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("link", name="Skip S").click()
        page.get_by_label("Something is missing").check()
        page.get_by_role("button", name="Skip it").click()
        page.get_by_text("Item 2 of 3").wait_for()
        assert wrong == []
    with store.read() as db:
        assert [row.reason for row in db.execute(skips.select())] == ["broken"]
        cast = db.execute(votes.select()).all()
    assert len(cast) == 8 and all(row.seconds is not None for row in cast)


def test_hostile_text_shows_as_text_everywhere(opened: Any, address: str, store: Store, tmp_path: Path) -> None:
    (tmp_path / "face.png").write_bytes(png(300, 200, 90))
    steps = {step: f"{step} {HOSTILE}" for step in ("history", "emotion", "strategy")}
    odd = Candidate(response=f"CAND {HOSTILE}", reasoning=Reasoning.of(steps, LABELS))
    turns = (PastTurn("seeker", HOSTILE, ("face.png",)), PastTurn("supporter", LONG), PastTurn("seeker", HOSTILE))
    made = create_project(
        store,
        "<i>p</i>",
        [item(0, history=turns, candidate=odd, reference=LONG)],
        images=tmp_path,
        audit_share=0.0,
    )
    names = ("<script>a</script>", "b\u05d0 <b>")
    tokens = [invite(store, made.project.id, name).token for name in names]
    with window(opened, address, viewport=PHONE) as (page, wrong):
        for token in tokens:
            come_in(page, token)
            texts = page.eval_on_selector_all(".pane .said", "all => all.map((one) => one.textContent)")
            assert texts == [HOSTILE, LONG, HOSTILE]
            replies = page.eval_on_selector_all(".pair .said", "all => all.map((one) => one.textContent)")
            assert sorted(replies) == sorted([f"CAND {HOSTILE}", LONG])
            shot = page.locator("img.shot").first  # above, out of sight: it comes when it is scrolled to
            assert shot.evaluate("async (one) => (one.scrollIntoView(), await one.decode(), one.naturalWidth)") == 300
            plain(page)
            page.locator("#note").fill(HOSTILE.replace("\x07", ""))
            page.locator(".ask input[value=true]").evaluate_all("all => all.forEach((one) => one.click())")
            page.locator(".ask input[value=both]" if token == tokens[0] else ".ask input[value=neither]").check()
            page.locator("#hand-in").click()
            page.get_by_text("No items for you right now").wait_for()
            page.goto("/label/mine")
            plain(page)
        page.get_by_role("button", name="Sign out").click()
        for path in (
            "",
            f"/projects/{made.project.id}",
            f"/projects/{made.project.id}/agreement",
            f"/projects/{made.project.id}/disagreements",
        ):
            page.goto(f"/label{path}")
            page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
            plain(page)
        assert page.locator(".differ .pane .said").first.evaluate("one => one.textContent") == HOSTILE
        assert page.locator(".differ td[dir]").first.evaluate("one => one.textContent") == HOSTILE.replace("\x07", "")
        assert wrong == []


def plain(page: Any) -> None:
    """Nothing of the text has become part of the page, and the page is no wider than the screen."""
    assert page.title() != "taken" and page.locator("h1").count() == 1
    assert page.locator("main script, main i:text-is('p'), img[src=x]").count() == 0
    wide, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= shown, f"{page.url} is {wide} wide"


def test_the_turn_that_is_judged_is_in_sight_and_everything_has_a_key_and_a_name(
    opened: Any, address: str, store: Store
) -> None:
    said = [PastTurn(("seeker", "supporter")[n % 2], f"Turn {n}. " + "A long story. " * 12) for n in range(21)]
    made = create_project(store, "p", [item(n, history=tuple(said)) for n in range(2)])
    token = invite(store, made.project.id, "Anna").token
    in_sight = """() => {
      const pane = document.querySelector(".pane").getBoundingClientRect();
      const last = document.querySelector(".pane .turn:last-child .said").getBoundingClientRect();
      return last.top >= Math.max(pane.top, 0) && last.bottom <= Math.min(pane.bottom, innerHeight);
    }"""
    for size in ({}, {"viewport": PHONE}):
        with window(opened, address, **size) as (page, wrong):
            come_in(page, token)
            page.locator("#answers[data-ready]").wait_for()
            assert page.evaluate(in_sight), "the last turn, not the oldest"
            above = page.get_by_role("button", name="More above")
            assert above.is_visible()
            above.click()
            above.wait_for(state="hidden")  # at the top there is nothing more above
            assert not wrong
    with window(opened, address) as (page, wrong):
        come_in(page, token)
        page.locator("#answers[data-ready]").wait_for()
        assert page.get_by_role("region", name="Conversation").count() == 1
        assert page.get_by_role("complementary", name="Guideline").count() == 1
        for name, answers in (
            ("History", ["True", "False", "Unsure"]),
            ("Replies", ["A is better", "B is better", "Both", "Neither", "Unsure"]),
        ):
            group = page.get_by_role("form", name="Questions").get_by_role("group", name=name)
            assert [group.get_by_role("radio", name=one).count() for one in answers] == [1] * len(answers), name
        for name in ("Submit", "Undo"):
            assert page.get_by_role("button", name=name).count() == 1
        for key in "u2u3":
            page.keyboard.press(key)
        chosen = "[...document.querySelectorAll('#answers input:checked')].map((one) => one.value)"
        assert page.evaluate(chosen) == ["unsure", "false", "unsure", "both"]
        page.keyboard.press("z")  # taken back, and its question has the focus
        assert page.evaluate("document.activeElement.name") == "preference" and len(page.evaluate(chosen)) == 3
        page.keyboard.press("u")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.locator("#answers[data-ready]").wait_for()
        assert not wrong
    with store.read() as db:
        assert [row.answer for row in db.execute(votes.select().order_by(votes.c.id))] == [
            "unsure", "false", "unsure", "unsure",
        ]  # fmt: skip


def test_every_page_on_a_phone_in_chinese_with_names_for_everything(opened: Any, address: str, store: Store) -> None:
    made = create_project(store, "p", [item(n) for n in range(5)], audit_share=0.5)
    people = [invite(store, made.project.id, name) for name in ("安娜", "Ben", "Cleo")]
    for n, one in enumerate(people[:2]):
        work = LabellingQueue(store).next(one.person)
        assert work is not None
        LabellingQueue(store).submit(
            one.person,
            work.item,
            dict.fromkeys(("history", "emotion", "strategy"), n == 0) | {"preference": "both"},
        )
    home = f"/label/projects/{made.project.id}"
    add_known(store, made.project.id, [known(9)], "practice")
    own, other = (f"/label/items/{ItemAddresses(store).shown(number)}" for number in (1, 4))
    mine = [
        "/label",
        "/label/work",
        "/label/rest",
        "/label/mine",
        "/label/practice",
        own,
        other,
        f"{own}/skip",
    ]
    theirs = [
        "/label",
        "/label/new",
        home,
        f"{home}/quality",
        f"{home}/quality/item?name=known-9",
        f"{home}/agreement",
        f"{home}/disagreements",
        f"{home}/disagreements?page=9",
    ]
    with window(opened, address, viewport=PHONE, locale="zh-CN", color_scheme="dark") as (page, wrong):
        come_in(page, people[0].token)
        visited = [(path, look(page, path)) for path in mine]
        page.get_by_role("button", name="退出").click()
        visited += [(path, look(page, path)) for path in theirs]
        assert [path for path, status in visited if status != 200] == [other]
        assert [one for one in wrong if "403" not in one] == []


def look(page: Any, path: str) -> int:
    status: int = page.goto(path).status
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    plain(page)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels)), (path, levels)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]),textarea,select,button,a,summary,svg,progress,fieldset,dialog,img')]"
        ".filter((one) => !(one.innerText?.trim() || one.alt || one.getAttribute('aria-label') || one.labels?.length"
        " || one.getAttribute('aria-labelledby') || one.querySelector?.('legend')))"
        ".map((one) => one.outerHTML.slice(0, 80))"
    )
    assert unnamed == [], path
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(236, 231, 223)", "the system is dark"
    return status
