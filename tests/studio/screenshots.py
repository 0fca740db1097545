"""Pictures of the shell's pages and of Runs for the documentation: both themes, and a phone.

python -m tests.studio.screenshots docs/img        (with "all" at the end: whole pages, and a dark phone as well)
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.evals.made_runs import judge_study, reward_run, sage_run
from tests.studio.browsing import browser, looks, shoot, window
from tests.studio.material import example_runs
from tests.studio.serving import browser_of, csrf, studio

NOTE = "Variety falls from step 170 on. Checkpoint 160 goes to the arena; the next run has a higher scale of tau."


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        runs = example_runs(home / "runs")
        sage_run(runs / "evaluations" / "sage-rl", "example-rl", drift=2.0)
        reward_run(runs / "evaluations" / "reward-before", "example-sft")
        reward_run(runs / "evaluations" / "reward-after", "example-rl", lift=0.25)
        judge_study(runs / "judges" / "study")
        given = {"runs": (runs,), "db": str(home / "labels.db"), "models": ("openai:example-rl",)}
        with (
            studio(home / "data", **given, base_url="http://127.0.0.1:1/v1") as address,
            browser() as opened,
        ):
            with browser_of(address) as client:
                page = client.get("/runs").text
                found = {name: path for path, name in re.findall(r'<a href="(/runs/[0-9a-f]{12})">(.*?)</a>', page)}
                noted = found["policy/paper-seed-3"]
                client.post(f"{noted}/note", data={"csrf": csrf(client.get(noted).text), "text": NOTE})

            def compared(*names: str) -> str:
                return "/runs/compare?" + "&".join(f"run={found[one].rpartition('/')[2]}" for one in names)

            pages = {
                "home": "/",
                "enter": "/enter/token",
                "runs": "/runs",
                "run": noted,
                "evaluation": found["evaluations/sage-rl"],
                "transcripts": f"{found['evaluations/sage-rl']}?order=up#dialogues",
                "study": found["judges/study"],
                "compare": compared("policy/paper-seed-3", "policy/tau-2"),
                "compare-evaluations": compared("evaluations/reward-before", "evaluations/reward-after"),
                "error": "/nothing",
            }
            for look, options in looks().items():
                with window(opened, address, **options) as (tab, _):
                    for name, path in pages.items():
                        tab.goto(path)
                        shoot(tab, target / f"studio-{name}-{look}.png", whole="#" not in path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
