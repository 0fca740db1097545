"""How near do the benchmarks come to what the endpoint allows, and how much faster than one dialogue after another?

    python -m benchmarks.evals                      SAGE with 100 profiles, ESC-Eval with 100 cards, about four minutes
    python -m benchmarks.evals --cards 655 --latency 0.01 --only esc-eval    a full ESC-Eval against a fast endpoint

A scripted endpoint in a process of its own answers after one second; 40 calls are in flight. The ceiling is 40 calls a
second. Our rate is all calls over the time from opening the models to the written result, Inspect's log included. A
dialogue with a second endpoint that answers at once goes before, so that what Inspect loads on first use is not in the
rate; that set-up (about two seconds of processor time a run) is told beside it. People are as long as the real ones;
supporters answer with the whole reasoning contract; moods move so that SAGE's dialogues end after 4, 6 or 9 changes.
The time of one dialogue after another is not waited for: it is the seconds a call of two dialogues played one after the
other, times all calls.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.endpoints.process import ROOT, environment
from tests.evals.played_roles import PeopleServer

from benchmarks.measure import Ratio

#: address, address of the endpoint without latency, folder with people, folder of the run, calls in flight, how many
#: people, which benchmark
PROGRAM = """
import json, sys, time
from pathlib import Path
address, fast, people, out, concurrency, limit, benchmark = sys.argv[1:]
people, out, concurrency, limit = Path(people), Path(out), int(concurrency), int(limit)
from compeer.evals import esc_eval, sage
from compeer.evals.launch import evaluate
from compeer.evals.roles import RoleSettings, open_role
def play(address, out, limit):
    began, cpu = time.perf_counter(), time.process_time()
    names = ("supporter", "seeker", "judge")
    model, seeker, judge = (open_role("openai:" + name, base_url=address, connections=concurrency) for name in names)
    settings = RoleSettings(concurrency=concurrency, log_calls=False)  # as the command does
    if benchmark == "sage":
        roles = {"seeker": [seeker]}
        made = sage.benchmark(settings, profiles=people / "profiles.jsonl", limit=limit)
    else:
        roles = {"seeker": [seeker], "judge": [judge]}
        made = esc_eval.benchmark(settings, cards=[people / "en.json", people / "zh.json"], limit=limit)
    result = evaluate(made, out, model, roles, quiet=True)
    return time.perf_counter() - began, time.process_time() - cpu, result
setup, setup_cpu, _ = play(fast, out / "first", 1)
seconds, cpu, result = play(address, out / "run", limit)
spent = {"seconds": seconds, "cpu": cpu, "setup_seconds": setup, "setup_cpu": setup_cpu}
told = {"calls": result.setup["counts"]["calls"], "samples": result.setup["samples"], "failed": result.setup["failed"]}
print(json.dumps(spent | told))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--latency", type=float, default=1.0)
    arguments.add_argument("--concurrency", type=int, default=40)
    arguments.add_argument("--profiles", type=int, default=100)
    arguments.add_argument("--cards", type=int, default=100)
    arguments.add_argument("--only", choices=("sage", "esc-eval"))
    arguments.add_argument("--out", type=Path, help="write the rows as JSON")
    options = arguments.parse_args()
    rows = measure(options)
    for row in rows:
        print(
            f"{row['benchmark']}: {row['samples']} dialogues ({row['failed']} failed), {row['calls']} calls in "
            f"{row['seconds']:.1f} s: {row['rate']:.1f} of {row['ceiling']:.0f} calls/s ({row['of_ceiling']:.0%}), "
            f"{row['times_sequential']:.1f} times one after another; {row['cpu_ms_per_call']:.1f} ms CPU a call; "
            f"{row['setup_seconds']:.1f} s set-up ({row['setup_cpu']:.1f} s CPU); {row['most_in_flight']} in flight"
        )
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


def run() -> list[Ratio]:
    """For `python -m benchmarks`."""
    options = argparse.Namespace(latency=1.0, concurrency=40, profiles=100, cards=100, only=None)
    found: list[Ratio] = []
    for row in measure(options):
        what = f"{row['benchmark']}, {row['samples']} dialogues, 1 s, 40 in flight"
        given = {"what": what, "ours": row["rate"], "unit": "calls/s"}
        found.append(Ratio(theirs=row["ceiling"], against="ceiling", wanted=0.8, **given))
        alone = row["rate"] / row["times_sequential"]
        found.append(Ratio(theirs=alone, against="one dialogue after another", wanted=20.0, **given))
    return found


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    latency = options.latency
    with tempfile.TemporaryDirectory() as folder, PeopleServer(latency=latency) as server, PeopleServer() as fast:
        write_people(Path(folder), options.profiles, options.cards)
        for name, count in (("sage", options.profiles), ("esc-eval", options.cards)):
            if options.only not in (None, name):
                continue
            alone = once(server, fast, folder, name, 1, 2)
            row = once(server, fast, folder, name, options.concurrency, count)
            sequential = alone["seconds"] / alone["calls"] * row["calls"]
            rate, ceiling = row["calls"] / row["seconds"], options.concurrency / latency
            rows.append(
                row
                | {
                    "benchmark": name,
                    "rate": rate,
                    "ceiling": ceiling,
                    "of_ceiling": rate / ceiling,
                    "times_sequential": sequential / row["seconds"],
                    "cpu_ms_per_call": row["cpu"] / row["calls"] * 1000,
                    "most_in_flight": server.counters()["most"],
                }
            )
    return rows


def once(
    server: PeopleServer, fast: PeopleServer, folder: str, name: str, concurrency: int, limit: int
) -> dict[str, Any]:
    """One run in a process of its own."""
    out = Path(folder) / f"{name}-{concurrency}-{time.time_ns()}"
    words = [server.base_url, fast.base_url, folder, str(out), str(concurrency), str(limit), name]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def write_people(folder: Path, profiles: int, cards: int) -> None:
    """Invented people, as long as the real ones."""
    with (folder / "profiles.jsonl").open("w", encoding="utf-8") as file:
        for number in range(profiles):
            person = {
                "id": f"p{number}",
                "player": f"第{number}号。" + "性格安静，做事认真，不爱说自己的事。" * 30,
                "scene": "那天下班以后发生了一件小事，她一直没有放下。" * 70,
                "task": "你希望对方听你把话说完",
                "first_talk": f"我今天又没睡好，第{number}天了。",
            }
            file.write(json.dumps(person, ensure_ascii=False) + "\n")
    for language, name, text in (
        ("english", "en", "Age: 30. Problem: a long quarrel with an old friend. " * 8),
        ("chinese", "zh", "年龄：青年。问题：和老朋友吵了很久。" * 8),
    ):
        count = (cards + 1) // 2 if name == "en" else cards // 2
        people = [{"id": n, "base": f"{text} {n}", "language": language, "source": "made up"} for n in range(count)]
        (folder / f"{name}.json").write_text(json.dumps(people, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
