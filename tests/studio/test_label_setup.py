"""Setting a project up: one link for both rooms, the guideline's text, own questions, preview, people, files."""

from __future__ import annotations

import csv
import html
import io
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.people.arena_material import cases, replies
from tests.studio.browsing import window
from tests.studio.labelling import Page, begin, hand_in, item
from tests.studio.serving import TOKEN, begin_in, browser_of, csrf, enter, studio

from compeer.cer.item import Labels
from compeer.people.arena import create_arena
from compeer.people.guideline import current_guideline, own_questions, read_questions, set_questions
from compeer.people.invitations import invite, people_of
from compeer.people.known_items import add_known
from compeer.people.labelling import create_project
from compeer.people.labelling_results import records
from compeer.people.store import Store, open_store

ALL: dict[str, Any] = {"history": True, "emotion": True, "strategy": True, "preference": "candidate"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "labels.db")
    yield opened
    opened.close()


@pytest.fixture
def address(store: Store, tmp_path: Path) -> Iterator[str]:
    settings = {"db": str(tmp_path / "labels.db"), "public": "http://127.0.0.1:1", "token": TOKEN}
    with studio(tmp_path / "data", **settings) as found:
        yield found


def project(store: Store, name: str = "pilot", count: int = 4, start: int = 0) -> int:
    return create_project(store, name, [item(start + n) for n in range(count)], audit_share=0.0).project.id


def arena(store: Store, name: str = "duel", votes: int = 3) -> int:
    given = cases(2)
    return create_arena(store, name, given, replies(given, ("Zephyrine", "Basalt")), votes=votes, seed=1).arena.id


def send(desk: httpx.Client, page: str, to: str, **fields: Any) -> httpx.Response:
    """Send a form of a coordinator's page."""
    shown = desk.get(page).text
    return desk.post(to, data={"csrf": csrf(shown), "form": Page(shown).field("form"), **fields})


def test_one_link_leads_to_everything_and_a_second_link_locks_nothing(store: Store, address: str) -> None:
    labels, duel = project(store), arena(store)
    anna, ben = (invite(store, labels, name).token for name in ("anna", "ben"))
    assert invite(store, duel, "anna").token is None
    assert anna and ben
    with browser_of(address) as client:
        assert enter(client, ben).status_code == 303
        assert client.get("/").headers["location"] == "/label"  # one thing to do: straight there
    with browser_of(address) as client:
        assert enter(client, anna).status_code == 303
        assert client.get("/").headers["location"] == "/label/start"
        waiting = client.get("/label/start").text
        assert f"/label?project={labels}" in waiting and f"/arena?project={duel}" in waiting
        page = begin(client, anna)  # her own link once more
        assert hand_in(client, page, ALL).status_code == 303, "the same person keeps their session"
        pair = begin_in("arena", client, anna)
        assert "/arena/compare/" in pair.text
        page = Page(client.get("/label/work").text)
        # another person's link says who is signed in and offers to switch; looking at it changes nothing
        asked = client.get(f"/enter/{ben}").text
        assert "signed in as anna" in asked and "Switch to ben" in asked and "Stay signed in as anna" in asked
        assert hand_in(client, page, ALL).status_code == 303
        page = Page(client.get("/label/work").text)
        drafted = client.post(
            f"/label/items/{page.item}/draft",
            json={"answers": {"history": False}, "note": "half"},
            headers={"x-csrf-token": csrf(page.text)},
        )
        assert drafted.json() == {"kept": True}
        assert client.post("/enter", data={"csrf": csrf(asked), "token": ben}).status_code == 303
        assert hand_in(client, page, ALL).status_code == 403, "a form of anna's is not taken for ben's"
        back = begin(client, anna)
        assert back.item == page.item and "half" in back.text, "nothing was lost"


def test_several_projects_of_one_kind_are_kept_apart(store: Store, address: str) -> None:
    first, second = project(store, "first"), project(store, "second", start=70)
    token = invite(store, first, "anna").token
    invite(store, second, "anna")
    assert token
    with browser_of(address) as client:
        enter(client, token)
        for number in (second, first):
            welcome = client.get(f"/label?project={number}").text
            client.post(f"/label/begin?project={number}", data={"csrf": csrf(welcome)})
            page = Page(client.get("/label/work").text)
            other = first if number == second else second
            assert ("CAND 7" in page.text) == (number == second)
            client.get(f"/label?project={other}")
            assert hand_in(client, page, ALL).status_code == 303  # by what was shown, wherever they look meanwhile


def test_the_guideline_is_written_versioned_shown_and_noted_on_votes(store: Store, address: str) -> None:
    number = project(store)
    anna, ben = (invite(store, number, name).token for name in ("anna", "ben"))
    here = f"/label/projects/{number}"
    with browser_of(address) as desk, browser_of(address) as client, browser_of(address) as other:
        enter(desk)
        assert anna and ben
        old = begin(client, anna)  # read under version 1
        assert "where the conversation stands" in old.text
        written = desk.get(f"{here}/guideline").text
        assert "where the conversation stands" in html.unescape(written)
        text = "**Only** what was said. <script>alert(1)</script> [no](javascript:alert(1)) ![x](http://evil/x.png)"
        fields = {"history.en.rule": text, "history.zh.rule": "只看说过的。", "history.en.right": "She *said* so."}
        assert send(desk, f"{here}/guideline", f"{here}/guideline", **fields).status_code == 303
        assert current_guideline(store, number).version == "2"
        new = begin(other, ben)
        assert "<strong>Only</strong> what was said." in new.text and "She <em>said</em> so." in new.text
        assert "<script>alert" not in new.text and "&lt;script&gt;" in new.text
        assert 'href="javascript' not in new.text and "<img" not in new.text
        chinese = other.get("/label/work", headers={"accept-language": "zh"}).text
        assert "只看说过的。" in chinese
        assert hand_in(client, old, ALL, guideline=old.field("guideline")).status_code == 303
        assert hand_in(other, new, ALL, guideline=new.field("guideline")).status_code == 303
        cast = {one.vote.annotator: one.vote.guideline for record in records(store, number) for one in record.votes}
        assert cast == {"anna": "1", "ben": "2"}
        assert desk.get(f"{here}/guideline?version=1").text.count("where the conversation stands") == 1
        again = send(desk, f"{here}/guideline", f"{here}/guideline", **fields, version="1")
        assert again.status_code == 422 and "does not exist yet" in again.text
        assert other.get(f"{here}/guideline").status_code == 403


def test_a_preview_stores_nothing(store: Store, address: str) -> None:
    number = project(store)
    here = f"/label/projects/{number}"
    with browser_of(address) as desk:
        enter(desk)
        shown = desk.get(f"{here}/preview").text
        assert "Your answers are not stored" in shown and 'data-draft=""' in shown and "CAND 0" in shown
        onward = desk.post(f"{here}/preview?at=1", data={"csrf": csrf(shown), "history": "true"})
        assert onward.headers["location"] == f"{here}/preview?at=2"
        assert "CAND 1" in desk.get(onward.headers["location"]).text
        assert desk.get(f"{here}/preview?at=999").status_code == 200
    assert all(not record.votes for record in records(store, number))


def test_own_questions_are_asked_decided_and_exported(store: Store, address: str) -> None:
    number = project(store, count=2)
    here = f"/label/projects/{number}"
    tokens = [invite(store, number, name).token for name in ("anna", "ben", "cleo")]
    with browser_of(address) as desk:
        enter(desk)
        row = {"id.0": "warmth", "en.0": "How warm?", "zh.0": "有多温暖？"}
        wrong = send(desk, f"{here}/questions", f"{here}/questions", **row, **{"answers.0": "warm | Warm"})
        assert wrong.status_code == 422 and "2 to 8 different ones" in wrong.text and "How warm?" in wrong.text
        lines = "cold | Cold\nwarm | Warm | 温暖"
        assert send(desk, f"{here}/questions", f"{here}/questions", **row, **{"answers.0": lines}).status_code == 303
        assert [one.values for one in own_questions(store, number)] == [("cold", "warm")]
        says = {"anna": "warm", "ben": "cold", "cleo": "warm"}
        for token, name in zip(tokens, says, strict=True):
            assert token
            with browser_of(address) as client:
                page = begin(client, token)
                while page.item is not None:
                    assert page.questions == ["warmth"] if name == "cleo" else page.questions[-1] == "warmth"
                    assert "How warm?" in page.text and 'value="warm"' in page.text
                    asked = [one for one in page.questions if one != "warmth"]
                    sent = {"csrf": csrf(page.text), "form": page.field("form"), "shown": page.field("shown")}
                    sent |= {one: page.place("candidate") if one == "preference" else "true" for one in asked}
                    here_is = f"/label/items/{page.item}"
                    assert client.post(here_is, data=sent).status_code == 422  # not answered yet
                    assert client.post(here_is, data=sent | {"own:warmth": "hot"}).status_code == 422
                    assert client.post(here_is, data=sent | {"own:warmth": says[name]}).status_code == 303
                    page = Page(client.get("/label/work").text)
        changed = send(desk, f"{here}/questions", f"{here}/questions", **row, **{"answers.0": "a | A\nb | B"})
        assert changed.status_code == 422 and "only the texts" in changed.text
        exported = [msgspec.json.decode(line) for line in desk.get(f"{here}/export/cer").content.splitlines()]
        assert len(exported) == 2 and all(vote["question"] != "warmth" for one in exported for vote in one["votes"])
        own = exported[0]["trace"]["annotation"]["questions"]["warmth"]
        assert (own["label"], own["status"], len(own["votes"])) == ("warm", "adjudicated", 3)
        rows = list(csv.DictReader(io.StringIO(desk.get(f"{here}/export/labels.csv").content.decode("utf-8-sig"))))
        assert [(one["warmth"], one["warmth_status"], one["preference"]) for one in rows] == [
            ("warm", "adjudicated", "candidate")
        ] * 2
        votes = list(csv.DictReader(io.StringIO(desk.get(f"{here}/export/votes.csv").content.decode("utf-8-sig"))))
        assert len(votes) == 2 * (5 + 5 + 1) and {one["annotator"] for one in votes} == set(says)
        agreed = desk.get(f"{here}/agreement?question=warmth").text
        assert "How warm?" in agreed and "Cold" in agreed
        assert {"s-own0", "s-own1"} <= set(re.findall(r'<rect class="(.*?)"', agreed)), "its bars have colours"
        known = item(7, id="known", labels=Labels(history=True), label_source="human")
        add_known(store, number, [known], "practice")
        with browser_of(address) as client:
            begin(client, invite(store, number, "dora").token or "")
            page = client.get("/label/practice").text
            there = re.search(r'action="(/label/practice/\d+)"', page)
            assert there
            steps = dict.fromkeys(("history", "emotion", "strategy"), "true")
            sent = {"csrf": csrf(page), **steps, "preference": "first", "own:warmth": "warm"}
            explained = client.get(client.post(there[1], data=sent).headers["location"]).text
            assert "<td>Warm</td>" in explained and "<td>warm</td>" not in explained, "its answer, and not the id"
        assert "How warm?" in desk.get(f"{here}/disagreements").text and "How warm?" in desk.get(here).text


def test_names_are_pasted_and_links_come_as_a_table(store: Store, address: str) -> None:
    number = project(store)
    here = f"/label/projects/{number}"
    with browser_of(address) as desk:
        enter(desk)
        invite(store, number, "ben")
        refused = send(desk, here, f"{here}/invite", names="anna\nben; 小雨，cleo\t=dora")
        assert refused.status_code == 422 and "already have a link here: ben" in refused.text
        box = re.search(r'<textarea id="names"[^>]*>([^<]*)</textarea>', refused.text)
        assert box and html.unescape(box[1]).split("\n") == ["anna", "小雨", "cleo", "=dora"]
        assert len(people_of(store, number)) == 1, "no one was invited by halves"
        made = send(desk, here, f"{here}/invite", names=html.unescape(box[1]), languages=["zh"])
        found = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', made.text)
        assert made.status_code == 200 and found
        rows = list(csv.reader(io.StringIO(urllib.parse.unquote(html.unescape(found[1])).removeprefix("\ufeff"))))
        assert [one[0] for one in rows] == ["name", "anna", "小雨", "cleo", "'=dora"]
        assert all(one[1].startswith("http://127.0.0.1:1/enter/") for one in rows[1:])
        assert [one.languages for one in people_of(store, number)] == [("en", "zh")] + [("zh",)] * 4
        other = arena(store)
        joined = send(desk, f"/arena/arenas/{other}", f"/arena/arenas/{other}/invite", names="anna\nbo")
        assert "which now opens this too: anna" in joined.text and joined.text.count("/enter/") >= 1


def test_limits_and_reminders(store: Store, address: str) -> None:
    number = project(store)
    here = f"/label/projects/{number}"
    token = invite(store, number, "anna@example.org").token
    invite(store, number, "小雨", languages=("zh",))
    assert token
    with browser_of(address) as desk, browser_of(address) as client:
        enter(desk)
        hand_in(client, begin(client, token), ALL)
        anna = people_of(store, number)[0].id
        assert send(desk, here, f"{here}/quota", quota="3").status_code == 303
        changed = send(desk, here, f"{here}/people/{anna}", action="limits", languages=["en"], quota="2")
        assert changed.status_code == 303
        assert (people_of(store, number)[0].languages, people_of(store, number)[0].quota) == (("en",), 2)
        shown = html.unescape(desk.get(f"{here}/reminders").text)
        assert "mailto:anna%40example.org?subject=" in shown and "You have done 1 of 2, and" in shown
        assert "小雨，你好" in shown and "3 条中的 0 条" in shown and token not in shown
        hand_in(client, Page(client.get("/label/work").text), ALL)
        assert "You have done your share" in client.get("/label/work").text, "two were enough for anna"
        assert "anna@example.org" not in html.unescape(desk.get(f"{here}/reminders").text)


def test_a_coordinator_of_one_project_gets_no_link_to_others(store: Store, address: str) -> None:
    own, other = project(store, "own"), project(store, "other")
    chief = invite(store, own, "chief", "coordinator").token
    invite(store, other, "anna")
    assert chief
    with browser_of(address) as desk:
        enter(desk, chief)
        here = f"/label/projects/{own}"
        joined = send(desk, here, f"{here}/invite", names="anna\nben")
        assert joined.status_code == 200 and "which now opens this too: anna" in joined.text
        anna, ben = (next(one.id for one in people_of(store, own) if one.name == name) for name in ("anna", "ben"))
        refused = send(desk, here, f"{here}/people/{anna}", action="link")
        assert refused.status_code == 422 and "/enter/" not in refused.text and "do not coordinate" in refused.text
        assert "/enter/" in send(desk, here, f"{here}/people/{ben}", action="link").text


def test_a_preview_by_keyboard_and_links_as_a_file(opened: Any, store: Store, address: str, tmp_path: Path) -> None:
    """In a browser: an own question is answered by keys like the others, and the table of links can be saved."""
    number = project(store)
    own = [{"id": "warmth", "text": "How warm?", "answers": ["cold", "plain", "mild", "warm", "hot"]}]
    set_questions(store, number, read_questions(own))
    with window(opened, address) as (page, wrong):
        page.goto(f"/enter/{TOKEN}")
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"/label/projects/{number}")
        page.get_by_role("link", name="Preview").click()
        page.locator("form[data-ready]").wait_for()
        for key in "11135":
            page.keyboard.press(key)
        assert page.locator("fieldset[data-question=warmth] input:checked").get_attribute("value") == "hot"
        page.keyboard.press("Enter")
        page.wait_for_url("**/preview?at=2")
        assert all(not record.votes for record in records(store, number))
        page.goto(f"/label/projects/{number}")
        page.get_by_label("Names, one per line").fill("Dora\n小雨")
        page.get_by_role("button", name="Create links").click()
        with page.expect_download() as saving:
            page.get_by_role("link", name="Download links (CSV)").click()
        saving.value.save_as(tmp_path / "links.csv")
        saved = (tmp_path / "links.csv").read_text(encoding="utf-8-sig").splitlines()
        assert saving.value.suggested_filename == "pilot-links.csv"
        assert [one.split(",")[0] for one in saved] == ["name", "Dora", "小雨"]
        assert wrong == []
