"""The report in a real browser, from a file: nothing is loaded, nothing fails, what was said stays text."""

from __future__ import annotations

import os
import re
import shutil
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.evals.made_runs import esc_run, judge_study, reward_run, sage_run, spoken
from tests.studio.material import policy_run

from compeer.corpora import bundled
from compeer.dialogue import read_rows
from compeer.evals.report import write_report
from compeer.evals.report.charts import FOLDER
from compeer.evals.result import Result, Transcript, TranscriptTurn, save_result
from compeer.evals.sage import figures as sage_figures

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
DATA = Path(os.environ.get("COMPEER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
LOG = DATA / "sage/released_results/deepseek-v3-2024-1227_based_simulator/gpt-4o-0808_result.jsonl"
EVIL = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    "<!--<script> &lt;b&gt; $title \u2028 ${css}"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A page that remembers what went wrong and what it asked the network for."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def done(self) -> None:
        assert self.problems == []
        assert [url for url in self.requests[1:] if not url.startswith("data:")] == []
        self.page.context.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on SAGE, one on ESC-Eval with 655 cards, and a run full of markup."""
    folder = tmp_path_factory.mktemp("report")
    sage_run(folder / "a", "model-a", drift=1)
    sage_run(folder / "b", "model-b", drift=-1, seed=2)
    esc_run(folder / "c", "model-a")
    dialogues = list(bundled.load())
    many = [
        Transcript(f"card {number:03d}", one.language, tuple(spoken(one, 10)), {"j/fluency": float(number % 5)})
        for number in range(655)
        for one in (dialogues[number % len(dialogues)],)
    ]
    save_result(folder / "many", Result("esc-eval", "many", {"simulator": "another"}, ()), many)
    evil = Transcript(
        f"id {EVIL}",
        "en",
        (
            TranscriptTurn("seeker", EVIL, note=EVIL),
            TranscriptTurn("supporter", EVIL, reasoning=f"<think>{EVIL}</think>"),
        ),
        {EVIL: 1.0},
        end=EVIL,
        about={EVIL: EVIL},
    )
    save_result(folder / "evil", Result("safety", EVIL, {"judge": EVIL}, (), {EVIL: EVIL}, (EVIL,)), [evil])
    runs = [folder / name for name in ("a", "b", "c", "many", "evil")]
    return write_report(runs, folder / "out", title="A report").page


def test_reasoning_is_folded_and_unfolds_into_three_named_steps(browser: Any, report: Path) -> None:
    watched = Watched(browser, report)
    page = watched.page
    page.select_option("#which", "0")
    first = page.locator("#case .thought").first
    assert first.locator(".steps").is_hidden()
    assert re.search(r"· why\?$", first.locator("summary").inner_text())
    first.locator("summary").click()
    assert first.locator(".steps").is_visible()
    names = [text.partition("\n")[0] for text in first.locator("h4").all_inner_texts()]
    assert [name.split()[0] for name in names] == ["History", "Emotion", "Strategy"]
    page.check("#unfold")
    assert page.locator("#case .thought:not([open])").count() == 0
    assert page.locator("#case .text", has_text="<think>").count() == 0
    watched.done()


def test_both_themes_and_the_switch(browser: Any, report: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    for scheme, own, other in (
        ("light", "rgb(250, 248, 245)", "rgb(23, 22, 20)"),
        ("dark", "rgb(23, 22, 20)", "rgb(250, 248, 245)"),
    ):
        watched = Watched(browser, report, color_scheme=scheme)
        assert watched.page.evaluate(paper) == own
        watched.page.click("#theme")
        assert watched.page.evaluate(paper) == other
        watched.page.reload()
        assert watched.page.evaluate(paper) == other, "it is remembered"
        assert watched.problems == []
        watched.page.context.close()


def test_655_dialogues_are_paged_searched_filtered_and_sorted(browser: Any, report: Path) -> None:
    watched = Watched(browser, report)
    page = watched.page
    page.select_option("#which", "3")
    assert page.inner_text("#count") == "655 dialogues"
    assert page.locator("#cases li").count() == 25
    page.click("#after")
    assert page.inner_text("#where") == "26 to 50"
    page.select_option("#order", "down")
    assert page.locator("#cases .line span").first.inner_text() == "4"
    page.select_option("#language", "zh")
    page.locator("#count", has_text=re.compile(r"^1")).wait_for()
    assert set(page.locator("#cases .said").evaluate_all("all => all.map(one => one.lang)")) == {"zh"}
    page.select_option("#language", "")
    page.fill("#query", "card 041")
    page.locator("#count", has_text=re.compile(r"^1 of")).wait_for()
    assert page.inner_text("#case h3") == "card 041"
    assert page.inner_text("#case h3 mark") == "card 041"
    page.fill("#query", "no such words anywhere")
    page.locator("#count", has_text=re.compile(r"^0 of")).wait_for()
    assert "No matching dialogue" in page.inner_text("#case")
    watched.done()


def test_the_number_beside_a_dialogue_is_its_reward(browser: Any, tmp_path: Path) -> None:
    parts = ("history", "emotion", "strategy", "preference", "complete")
    rewards = {"a": 5.0, "b": -5.0, "c": 1.0}
    samples = [
        Transcript(name, "en", (TranscriptTurn("seeker", "Hi."),), {"reward": value, **dict.fromkeys(parts, 1.0)})
        for name, value in rewards.items()
    ]
    save_result(tmp_path / "run", Result("reward", "m", {"judge": "j"}, ()), samples)
    watched = Watched(browser, write_report([tmp_path / "run"], tmp_path / "out").page)
    page = watched.page
    assert page.locator("#cases .line span").all_inner_texts() == ["5", "-5", "1"]
    assert page.locator("#order option").all_inner_texts() == [
        "as run",
        "reward: lowest first",
        "reward: highest first",
    ]
    page.select_option("#order", "up")
    assert page.locator("#cases .line b").all_inner_texts() == ["b", "c", "a"]
    watched.done()


def test_emotion_at_the_end_is_the_curve_s_whatever_the_score_is(browser: Any, tmp_path: Path) -> None:
    sample = Transcript("a", "en", (TranscriptTurn("seeker", "Hi."),), {"warm": 0.5, "long": 12.0}, (40, 30))
    save_result(tmp_path / "run", Result("kindness", "m", {}, ()), [sample])
    watched = Watched(browser, write_report([tmp_path / "run"], tmp_path / "out").page)
    assert watched.page.locator("#case .figures span").first.inner_text() == "emotion at the end 30"
    assert watched.page.locator("#cases .line span").count() == 0, "two scores on two scales are no score"
    watched.done()


def test_a_curve_opens_its_dialogue(browser: Any, report: Path) -> None:
    watched = Watched(browser, report)
    curve = watched.page.locator('.chart[data-run="1"] .one').nth(60)
    curve.dispatch_event("click")
    assert watched.page.inner_text("#case h3") == curve.get_attribute("data-case")
    assert watched.page.locator("#which").input_value() == "1"
    assert watched.page.locator('#cases [aria-current="true"]').count() == 1
    watched.done()


def test_the_released_log_of_sage_can_be_read(browser: Any, tmp_path: Path) -> None:
    """The log is turned into a run here; nothing of it is kept."""
    if not LOG.is_file():
        pytest.skip(f"SAGE's released log is not at {LOG}; set COMPEER_DATA to the folder of corpora")
    samples = []
    for row in read_rows(LOG, dict):
        said, curve = [], []
        for turn in row["history"]:
            if turn["role"] == "user":
                curve.append(int(turn["emotion-point"]))
                note = (turn.get("planning") or {}).get("analyse")
                said.append(TranscriptTurn("seeker", turn["content"], emotion=curve[-1], note=note))
            else:
                said.append(TranscriptTurn("supporter", turn["content"]))
        about = {"persona": row["player"], "scene": row["scene"], "topic": row["topic"]}
        samples.append(Transcript(row["id"], "zh", tuple(said), {}, tuple(curve), None, about))
    figures = sage_figures([sample.curve for sample in samples])
    save_result(tmp_path / "run", Result("sage", "gpt-4o", {"simulator": "deepseek-v3"}, figures), samples)
    watched = Watched(browser, write_report([tmp_path / "run"], tmp_path / "out").page)
    page = watched.page
    assert page.locator(".card .big").inner_text() == "31.75"
    label = page.locator(".chart[data-run]").first.get_attribute("aria-label")
    assert label == "Emotion of 100 dialogues with gpt-4o; their mean ends at 31.8"
    assert page.locator(".chart .one").count() == 100
    page.select_option("#order", "down")
    assert page.locator("#cases .line span").first.inner_text() == "100"
    assert page.locator("#case .about details").count() == 2, "persona and scene are folded"
    watched.done()


def test_what_was_said_is_never_markup(browser: Any, report: Path) -> None:
    watched = Watched(browser, report)
    page = watched.page
    page.select_option("#which", "4")
    page.check("#unfold")
    assert page.locator("#case .seeker .text").inner_text() == page.evaluate("text => text.trim()", EVIL)
    assert page.locator("#case img").count() == 0
    page.fill("#query", "onerror=")
    page.wait_for_selector("#case mark")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 3 + 5, (
        "style of figures, names, five runs, and our own"
    )
    assert "window.hacked" in page.inner_text("#how")
    watched.done()


def test_it_fits_a_phone_and_every_table_scrolls_inside_itself(browser: Any, report: Path) -> None:
    watched = Watched(browser, report, viewport={"width": 360, "height": 740})
    for number in ("0", "3", "4"):
        watched.page.select_option("#which", number)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == 360
    watched.done()


def light(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_series_are_seen_and_the_words_in_tinted_cells_can_be_read() -> None:
    css = (FOLDER / "static" / "charts.css").read_text(encoding="utf-8")
    series = re.findall(r"--own: light-dark\((#\w+), (#\w+)\)", css)
    assert len(series) == 6
    for pair in series:
        for colour, surface, ink in zip(pair, ("#FFFFFF", "#201E1B"), ("#25221E", "#ECE7DF"), strict=True):
            assert contrast(colour, surface) >= 3, colour
            mixed = [0.45 * int(colour[at : at + 2], 16) + 0.55 * int(surface[at : at + 2], 16) for at in (1, 3, 5)]
            cell = "#" + "".join(f"{round(part):02x}" for part in mixed)  # the strongest tint of `heat`
            assert contrast(cell, ink) >= 4.5, colour


def test_text_has_contrast_in_both_themes() -> None:
    css = (Path(__file__).parents[2] / "src/compeer/evals/report/page.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    assert len(pairs) > 8
    for theme in (1, 2):
        colours = {pair[0]: pair[theme] for pair in pairs}
        for text in ("ink", "quiet", "accent", "warm-text"):
            for ground in ("paper", "surface", "wash"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every kind of figure."""
    folder = tmp_path_factory.mktemp("figures")
    reward_run(folder / "before", "before")
    reward_run(folder / "after", "after", lift=0.3)
    sage_run(folder / "sage", "after", count=20)
    policy_run(folder / "grpo", 30)
    judge_study(folder / "judges")
    runs = [folder / name for name in ("before", "after", "sage", "grpo", "judges")]
    return write_report(runs, folder / "out").page


def test_every_figure_is_saved_from_a_page_without_a_network(browser: Any, figures: Path, tmp_path: Path) -> None:
    watched = Watched(browser, figures, offline=True, accept_downloads=True)
    page = watched.page
    shown = page.locator("figure").count()
    assert shown > 20 and page.locator("figure .save >> text=SVG").count() == shown
    names = page.locator("figure").evaluate_all("all => all.map(one => one.dataset.name)")
    for name in (names[0], names[3], names[-1]):
        figure = page.locator(f'figure[data-name="{name}"]')
        for kind, begins in (("SVG", b"<svg"), ("CSV", b""), ("LaTeX", b"\\begin{table}")):
            with page.expect_download() as saved:
                figure.get_by_text(kind, exact=True).click()
            end = {"SVG": "svg", "CSV": "csv", "LaTeX": "tex"}[kind]
            assert saved.value.suggested_filename == f"{name}.{end}"
            saved.value.save_as(tmp_path / "file")
            assert (tmp_path / "file").read_bytes().startswith(begins)
            if kind == "LaTeX":  # nothing of it is lost in its address
                table = (tmp_path / "file").read_text(encoding="utf-8")
                assert table.endswith("\\end{tabular}\n\\end{table}\n") and table.count("\\\\\n") > 2
            if kind == "SVG":
                root = xml.etree.ElementTree.fromstring((tmp_path / "file").read_text(encoding="utf-8"))
                assert "var(" not in (root[0].text or "") and len(root) > 3
    watched.done()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_nothing_stands_in_the_way_of_a_reader(browser: Any, figures: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    watched = Watched(browser, figures, viewport={"width": width, "height": 860}, color_scheme=scheme, bypass_csp=True)
    found = axe.Axe().run(watched.page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert watched.page.evaluate("document.documentElement.scrollWidth") == width
    watched.page.context.close()
