"""Pictures of every page for the documentation: both themes, and a phone.

python -m tests.studio.screenshots docs/img
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.studio.browsing import DESK, PHONE, browser, window
from tests.studio.material import example_runs
from tests.studio.serving import browser_of, runs_studio

#: of a page; the rest is left out
MOST = {"light": 2200, "dark": 2200, "phone": 1500}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2, "locale": "zh-CN"},
}


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        runs = example_runs(Path(home) / "runs")
        with runs_studio(Path(home) / "data", runs=(runs,)) as address, browser() as opened:
            with browser_of(address) as client:
                page = client.get("/runs").text
            found = {name: path for path, name in re.findall(r'<a href="(/runs/[0-9a-f]{12})">(.*?)</a>', page)}
            pages = {
                "home": "/",
                "enter": "/enter/token",
                "runs": "/runs",
                "run": found["policy/paper-seed-3"],
                "evaluation": found["evaluations/sage-base"],
                "compare": "/runs/compare?"
                + "&".join(f"run={found[name].rpartition('/')[2]}" for name in ("policy/paper-seed-3", "policy/tau-2")),
                "error": "/nothing",
            }
            for look, options in LOOKS.items():
                with window(opened, address, **options) as (tab, _):
                    for name, path in pages.items():
                        tab.goto(path)
                        high = tab.evaluate("document.documentElement.scrollHeight")
                        wide = options["viewport"]["width"]
                        part = {"x": 0, "y": 0, "width": wide, "height": min(high, MOST[look])}
                        tab.screenshot(path=target / f"studio-{name}-{look}.png", full_page=True, clip=part)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
