"""The pictures of docs/evaluation.md: `python -m tests.evals.screenshots docs/img`.

The dialogues are the project's own bundled ones; model names, scores and curves are invented.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.conversation.supporter import running
from tests.evals.made_runs import esc_run, sage_run

from compeer.corpora import bundled
from compeer.evals.control import ControlSettings, run_control
from compeer.evals.language.measure import measure, strategies_of
from compeer.evals.language.outputs import read_outputs
from compeer.evals.report import write_report
from compeer.evals.result import save_result


def example(folder: Path) -> Path:
    """A report of two invented models on everything but safety."""
    sage_run(folder / "sage-sft", "example-sft", drift=0.4, seed=3, simulator="openai:simulator-a")
    sage_run(folder / "sage-rl", "example-rl", drift=3.2, seed=3, simulator="openai:simulator-a")
    sage_run(folder / "sage-other", "example-rl", drift=1.2, seed=5, simulator="openai:simulator-b")
    esc_run(folder / "esc-sft", "example-sft")
    esc_run(folder / "esc-rl", "example-rl", lift=0.25)
    people = strategies_of(bundled.load())
    measured = measure(
        read_outputs(folder / "sage-rl"), "example-rl", None, people=people, people_source="the bundled corpus"
    )
    save_result(folder / "language", measured.result, measured.transcripts)
    with running() as server:
        run_control(
            ControlSettings(model="openai:example-rl", base_url=server.base_url, turns=4, emotions=2),
            folder / "control",
        )
    names = ("sage-sft", "sage-rl", "sage-other", "esc-sft", "esc-rl", "language", "control")
    title = "Example report (invented models and figures)"
    return write_report([folder / name for name in names], folder / "report", title=title).page


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        shoot(example(Path(made)), out)


def shoot(file: Path, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, scheme in (("wide", 1280, "light"), ("dark", 1280, "dark"), ("phone", 360, "light")):
            context = browser.new_context(
                viewport={"width": width, "height": 1500 if width > 1000 else 900},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(file.as_uri())
            page.screenshot(path=out / f"report-{name}.png")
            page.select_option("#which", "1")
            page.locator("#case .thought summary").first.click()
            page.locator("#transcripts").scroll_into_view_if_needed()
            page.evaluate("document.getElementById('transcripts').scrollIntoView()")
            page.screenshot(path=out / f"report-{name}-transcript.png")
            if len(sys.argv) > 2:  # the whole page, to look at while working on it
                page.screenshot(path=out / f"report-{name}-whole.png", full_page=True)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
