"""All benchmarks, or those named, one after another, as one table."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Ratio, machine

NAMES = ("start_up", "embedded", "parsing", "judge", "stage_runner", "evals", "serve", "studio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which ones; default: {' '.join(NAMES)}")
    parser.add_argument("--json", type=Path, help="write the results here")
    chosen = parser.parse_args()
    results: list[Ratio] = []
    for name in chosen.names or NAMES:
        results += importlib.import_module(f"benchmarks.{name}").run()
    table = Table("what", "ours", "against", "theirs", "ratio", "wanted", title=machine())
    for result in results:
        wanted = f"{'≥' if result.at_least else '≤'} {result.wanted:g}" if result.wanted else ""
        theirs = f"{result.theirs:.4g}"
        table.add_row(
            result.what, f"{result.ours:.4g} {result.unit}", result.against, theirs, f"{result.ratio:.2f}", wanted
        )
    Console().print(table)
    if chosen.json:
        rows = [result.as_dict() for result in results]
        chosen.json.write_text(json.dumps({"machine": machine(), "results": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
