"""The pictures of docs/evaluation.md: `python -m tests.evals.screenshots docs/img`.

The dialogues are the project's own bundled ones; model names, scores and curves are invented. With "all" at the end:
whole pages, and a dark phone as well.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.conversation.supporter import running
from tests.evals.made_runs import esc_run, judge_study, reward_run, sage_run
from tests.studio.browsing import browser, looks, shoot
from tests.studio.material import policy_run

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
    reward_run(folder / "reward-sft", "example-sft")
    reward_run(folder / "reward-rl", "example-rl", lift=0.25)
    policy_run(folder / "grpo")
    judge_study(folder / "judge-study")
    names = ("sage-sft", "sage-rl", "sage-other", "esc-sft", "esc-rl", "language", "control", "reward-sft",
             "reward-rl", "grpo", "judge-study")  # fmt: skip
    title = "Example report (invented models and figures)"
    return write_report([folder / name for name in names], folder / "report", title=title).page


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        take(example(Path(made)), out)


def take(file: Path, out: Path) -> None:
    with browser() as opened:
        for look, options in looks().items():
            context = opened.new_context(**options, reduced_motion="reduce")
            page = context.new_page()
            page.goto(file.as_uri())
            shoot(page, out / f"report-{look}.png", whole=True)
            page.select_option("#which", "1")
            page.locator("#case .thought summary").first.click()
            page.evaluate("document.getElementById('transcripts').scrollIntoView()")
            shoot(page, out / f"report-transcript-{look}.png")
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
