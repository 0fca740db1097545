"""axe-core over the pages of the studio and a report: 1280 and 390 wide, light and dark, without findings.

Talk and the annotators' pages are seen in all four looks, the rest at 1280 in light and at 390 in dark colours.

Pages of the coordinator are found by following links from the home page, one of each kind, so a new page is checked
without being listed. What is seen only after something was done is in a table of states: Talk, and the annotators'
pages of Label and Arena. axe-core comes with the package axe-playwright-python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from tests.conversation.supporter import Supporter, running
from tests.evals.made_runs import esc_run, sage_run
from tests.studio.arena_pictures import arena, play
from tests.studio.browsing import COMMON_PHONE, DESK, chromium, window
from tests.studio.label_pictures import label
from tests.studio.labelling import real_items
from tests.studio.serving import browser_of, studio
from tests.studio.talking import idle, open_room, send

from compeer.people.arena import close_arena
from compeer.people.invitations import invite
from compeer.people.labelling import create_project
from compeer.people.store import open_store

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

AXE = AXE_FILE_PATH.read_text(encoding="utf-8")
COLOURS = {"runOnly": ["color-contrast"]}
#: both widths and both themes, with all rules twice; a theme changes nothing but colours
LOOKS: tuple[tuple[dict[str, int], str, dict[str, Any]], ...] = (
    (DESK, "light", {}),
    (COMMON_PHONE, "dark", {}),
    (DESK, "dark", COLOURS),
    (COMMON_PHONE, "light", COLOURS),
)


def findings(page: Any, looks: int = 4) -> list[str]:
    """What axe finds on the page as it is now, in the first so many looks."""
    found = []
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE)
    for size, theme, options in LOOKS[:looks]:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        violations = page.evaluate(
            "(options) => axe.run(document, { resultTypes: ['violations'], ...options }).then((one) => one.violations)",
            options,
        )
        for one in violations:
            places = " ; ".join(" ".join(map(str, node["target"])) for node in one["nodes"][:3])
            found.append(f"{size['width']} {theme}: {one['id']} ({len(one['nodes'])}): {places}")
    page.set_viewport_size(DESK)
    return found


def check(found: dict[str, list[str]]) -> None:
    assert not any(found.values()), "\n".join(f"{name}: {one}" for name in found for one in found[name])


class Studio:
    """Its address, the scripted model behind it, and tokens of people who work there."""

    def __init__(self, address: str, supporter: Supporter, tokens: dict[str, str]) -> None:
        self.address, self.supporter, self.tokens = address, supporter, tokens


@pytest.fixture(scope="module")
def everything(runs_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio with all rooms open and work in each."""
    import random

    home = tmp_path_factory.mktemp("everything")
    store = open_store(home / "studio.db")
    project = create_project(store, "Pilot", real_items(12), audit_share=0.0, seed=3).project.id
    people = [invite(store, project, one).person for one in ("Anna", "Ben", "Cleo")]
    label(store, people, 24, random.Random(4), skips=(5, 9))
    made, authors = arena(store, home, "Spring", 10)
    play(store, made, authors, ["Dao 道", "Emil"], 40)
    over, others = arena(store, home, "Winter", 10)
    play(store, over, others, ["Fei", "Gina"], 60)
    close_arena(store, over.arena.id)
    tokens = {"label": invite(store, project, "Hua").token, "arena": invite(store, made.arena.id, "Ivo").token}
    store.close()
    with (
        running() as supporter,
        studio(
            home / "data",
            runs=(runs_folder,),
            db=str(home / "studio.db"),
            items=(home,),
            models=("openai:kind-7b", "embedded:small"),
            base_url=supporter.base_url,
        ) as address,
    ):
        yield Studio(address, supporter, tokens)


def kinds_of_pages(address: str) -> list[str]:
    """The pages that a coordinator reaches from the home page, one of each kind."""
    found: dict[str, str] = {}
    waiting = ["/", "/enter/some-token", "/nothing"]
    with browser_of(address) as client:
        while waiting:
            path = waiting.pop(0)
            kind = re.sub(r"[0-9a-f]{12}|\d+", "N", path.partition("?")[0])
            if kind in found:
                continue
            answer = client.get(path)
            if "text/html" not in answer.headers["content-type"] or "sandbox" in answer.headers.get(
                "content-security-policy", ""
            ):
                continue
            found[kind] = path
            links = re.findall(r'<a (?![^>]*\bdownload\b)[^>]*href="(/[^"#]*)"', answer.text)
            waiting += [one.replace("&amp;", "&") for one in links if not one.startswith("/static/")]
    return list(found.values())


def test_every_page_of_a_coordinator(opened: Any, everything: Studio) -> None:
    pages = kinds_of_pages(everything.address)
    assert {"/", "/talk", "/label", "/arena", "/runs"} <= set(pages) and len(pages) >= 15, pages
    found: dict[str, list[str]] = {}
    with window(opened, everything.address) as (page, _):
        for path in pages:
            page.goto(path)
            page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")
            found[path] = findings(page, 2)
    check(found)


def test_the_shell_in_chinese(opened: Any, everything: Studio) -> None:
    found: dict[str, list[str]] = {}
    with window(opened, everything.address, locale="zh-CN") as (page, _):
        for path in ("/", "/talk"):
            page.goto(path)
            page.locator("#help-now summary").click()
            found[path] = findings(page)
    check(found)


def press(role: Any, name: str) -> Callable[[Any], None]:
    return lambda page: page.get_by_role(role, name=name).last.click()


def risky(words: str) -> Callable[[Any], None]:
    return lambda page: send(page, words)


def rewritten(page: Any) -> None:
    page.get_by_role("button", name="Send again").click()
    page.locator(".earlier summary").wait_for()
    idle(page)
    page.locator(".earlier summary").click()


#: one after another: what is done, and what the page then shows
TALK: tuple[tuple[str, Callable[[Any], None]], ...] = (
    ("first screen", lambda page: None),
    ("a conversation", lambda page: [send(page, one) for one in ("I lost my job.", "Nobody knows.")]),
    ("a rating", press("button", "Helpful")),
    ("what is kept", press("button", "Keep it?")),
    ("list of conversations", lambda page: page.locator("#list > summary").click()),
    ("how it thinks", press("button", "Why?")),
    ("editing a step", press("button", "Edit What you feel")),
    ("no thinking", lambda page: (press("button", "Cancel")(page), press("radio", "none")(page))),
    ("editing a message", lambda page: (press("button", "Close")(page), press("button", "Edit your message 2")(page))),
    ("an edited message", rewritten),
    ("trouble", lambda page: (page.locator("#model").select_option("1"), page.locator("#picture").click(force=True))),
    ("high risk", risky("I want to kill myself.")),
    ("emergency", risky("I have taken all my pills just now.")),
)


def test_talk_in_every_state(opened: Any, everything: Studio) -> None:
    everything.supporter.reset()
    found: dict[str, list[str]] = {}
    with window(opened, everything.address) as (page, wrong):
        open_room(page)
        for name, act in TALK:
            act(page)
            found[name] = findings(page)
        assert wrong == []
    check(found)


def enter(page: Any, token: str, room: str) -> None:
    """Sign in by a personal link and go to a room."""
    page.goto(f"/enter/{token}")
    with page.expect_navigation():
        page.locator("main form button").click()
    page.goto(f"/{room}")


def test_the_pages_of_annotators(opened: Any, everything: Studio) -> None:
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        found[name] = findings(page)

    with window(opened, everything.address) as (page, _):
        enter(page, everything.tokens["label"], "label")
        look("label: welcome")
        page.locator("main form button").click()
        page.locator(".ask.now").wait_for()
        look("label: work")
        for key, name in (("s", "skip"), ("?", "keys")):
            page.keyboard.press(key)
            page.locator("dialog[open]").wait_for()
            look(f"label: {name}")
            page.keyboard.press("Escape")
        page.goto("/label/mine")
        look("label: mine")
    with window(opened, everything.address) as (page, _):
        enter(page, everything.tokens["arena"], "arena")
        page.locator("main form button").click()
        page.locator("#answer[data-ready], #now h1").first.wait_for()
        look("arena: compare")
    check(found)


def test_a_report_from_disk(opened: Any, tmp_path: Path) -> None:
    from compeer.evals.report import write_report

    sage_run(tmp_path / "a", "model-a", drift=1)
    sage_run(tmp_path / "b", "model-b", drift=-1, seed=2)
    esc_run(tmp_path / "c", "model-a")
    report = write_report([tmp_path / name for name in ("a", "b", "c")], tmp_path / "out", title="A report").page
    with window(opened, report.as_uri()) as (page, _):
        page.goto(report.as_uri())
        found = findings(page, 2)
    assert found == []
