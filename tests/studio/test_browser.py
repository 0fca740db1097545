"""The pages in a real browser: nothing complains, everything can be reached by keyboard, and a phone shows it all."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browsing import PHONE, chromium, window
from tests.studio.material import judge_run
from tests.studio.serving import TOKEN, browser_of, runs_studio

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def everywhere(address: str) -> list[str]:
    """The address of every kind of page."""
    with browser_of(address) as client:
        page = client.get("/runs").text
    found = {name: path for path, name in re.findall(r'<a href="(/runs/[0-9a-f]{12})">(.*?)</a>', page)}
    runs = [found["policy/paper-seed-3"], found["judges/unified-0.5b"], found["evaluations/sage-base"]]
    return ["/", "/enter/some-token", "/runs", "/runs?q=nothing", *runs, f"{runs[0]}?every=1", "/nothing"]


def test_no_page_complains_or_is_wider_than_a_phone(opened: Any, address: str, everywhere: list[str]) -> None:
    with window(opened, address, viewport=PHONE, locale="zh-CN", color_scheme="dark") as (page, wrong):
        for path in everywhere:
            page.goto(path)
            page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
            wide, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= shown, f"{path} is {wide} wide on a screen of {shown}"
            assert page.locator("html").get_attribute("lang") == "zh-Hans"
            assert page.evaluate("getComputedStyle(document.body).color") == "rgb(236, 231, 223)", "the system is dark"
        assert [one for one in wrong if "404" not in one] == []


def test_theme_and_language_stay_as_chosen(opened: Any, address: str) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light, dark = "rgb(250, 248, 245)", "rgb(23, 22, 20)"
    with window(opened, address, color_scheme="light") as (page, wrong):
        page.goto("/runs")
        assert page.evaluate(ground) == light
        with page.expect_response("**/look") as answer:
            page.get_by_label("Theme").select_option("dark")
        assert answer.value.status == 303
        assert page.evaluate(ground) == dark, "at once, without a reload"
        page.reload()
        assert page.evaluate(ground) == dark and page.locator("html").get_attribute("data-theme") == "dark"
        page.get_by_role("button", name="中文").click()
        page.wait_for_url("**/runs")
        assert page.get_by_role("heading", level=1).inner_text() == "运行" and page.evaluate(ground) == dark
        with page.expect_response("**/look"):
            page.get_by_label("外观").select_option("system")
        page.get_by_role("button", name="English").click()
        page.wait_for_load_state()
        assert page.get_by_role("heading", level=1).inner_text() == "Runs"
        assert page.evaluate(ground) == light and wrong == []


def test_everything_is_reached_by_keyboard_and_seen(opened: Any, address: str, everywhere: list[str]) -> None:
    with window(opened, address) as (page, _):
        for path in everywhere:
            page.goto(path)
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.className") == "skip", path
            assert page.locator(".skip").bounding_box()["y"] >= 0, "the skip link shows itself"
            seen = set()
            for _ in range(200):
                page.keyboard.press("Tab")
                outline, box, name = page.evaluate(
                    "(() => { const one = document.activeElement, style = getComputedStyle(one);"
                    " return [style.outlineStyle + ' ' + style.outlineWidth, one.getBoundingClientRect().height,"
                    " one.tagName + (one.id || one.innerText || one.value || '')]; })()"
                )
                if name in seen or name.startswith("BODY"):
                    break
                seen.add(name)
                assert outline == "solid 2px" and box > 0, (path, name, outline)
            wanted = page.evaluate(
                "document.querySelectorAll('main a, main button, main summary, main input:not([type=hidden])').length"
            )
            assert len(seen) >= min(wanted, 5) + 3, (path, seen)
        page.goto("/runs")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "q", "the skip link leads past the navigation"


def test_names_and_order_for_people_who_listen(opened: Any, address: str, everywhere: list[str]) -> None:
    with window(opened, address) as (page, _):
        for path in everywhere:
            page.goto(path)
            assert page.locator("h1").count() == 1 and page.locator("main").count() == 1 and page.title()
            levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((one) => Number(one.tagName[1]))")
            assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels)), (path, levels)
            unnamed = page.evaluate(
                "[...document.querySelectorAll('input:not([type=hidden]),select,button,a,summary,svg')]"
                ".filter((one) => !(one.closest('[aria-hidden=true]') || one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length))"
                ".map((one) => one.outerHTML.slice(0, 80))"
            )
            assert unnamed == [], path


def test_a_run_under_way_is_followed_without_a_reload(opened: Any, tmp_path: Path) -> None:
    run = judge_run(tmp_path / "runs" / "now", 20)
    with runs_studio(tmp_path / "data", runs=(tmp_path / "runs",)) as address, window(opened, address) as (page, wrong):
        page.clock.install()
        page.goto("/runs")
        page.get_by_role("link", name="now").click()
        page.get_by_text("step 20", exact=True).wait_for()
        page.evaluate("window.kept = true")
        run.log({"step": 21, "loss": 0.125})
        page.clock.fast_forward(11_000)
        page.get_by_text("step 21", exact=True).wait_for(timeout=5000)
        assert page.evaluate("window.kept") and wrong == []


def test_a_curve_tells_the_value_under_the_pointer(opened: Any, address: str, everywhere: list[str]) -> None:
    with window(opened, address) as (page, wrong):
        page.goto(everywhere[4])
        card = page.locator(".figure").first
        before = card.locator("b").inner_text()
        card.locator("svg").hover(position={"x": 34, "y": 60})
        step, value = card.locator("b").inner_text().split(": ")
        assert int(step) <= 4 and -4 < float(value) < 0
        page.mouse.move(2, 2)
        assert card.locator("b").inner_text() == before and wrong == []


def test_a_report_runs_apart(opened: Any, address: str) -> None:
    """Its own script runs and reaches nothing of the studio."""
    with window(opened, address) as (page, _):
        page.goto("/runs")
        page.get_by_role("link", name="policy/paper-seed-3/sage").click()
        with page.context.expect_page() as report:
            page.get_by_role("link", name="Open the report").click()
        told = report.value.locator("#told")
        told.wait_for()
        assert told.inner_text() == "cookies: refused, origin: null"


def test_a_personal_link_lets_in_by_its_button(opened: Any, tmp_path: Path, runs_folder: Path) -> None:
    with (
        runs_studio(tmp_path, runs=(runs_folder,), public="http://localhost", token=TOKEN) as address,
        window(opened, address) as (page, wrong),
    ):
        page.goto("/")
        assert page.get_by_text("You need a personal link").is_visible()
        page.goto(f"/enter/{TOKEN}")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/")
        page.get_by_role("link", name="Open Runs").click()
        assert page.get_by_role("heading", name="policy/tau-2").is_visible()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/")
        assert page.get_by_text("You need a personal link").is_visible() and wrong == []
