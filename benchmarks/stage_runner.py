"""How fast is the stage runner, against others, at the same prompts, in the same run?

    python -m benchmarks.stage_runner --out rates.json            both latencies, all contenders, about five minutes
    python -m benchmarks.stage_runner --latency 0.01 --peers aiohttp

One scripted endpoint in a process of its own; 64 requests in flight; each contender in a process of its own, timed
from the first row read to the last row written, without start-up. Contenders: our runner with its cache, its files
and its manifest, with plain and with structured answers; a bare aiohttp loop that keeps nothing (what the protocol
costs in Python); the openai client in a gather loop; bespokelabs-curator with its cache on. Peers live in virtual
environments made here, once, under `--venvs`; one that cannot be installed or fails is left out, with the reason.

At 10 ms the client's own cost shows; at 500 ms all should come near the ceiling of concurrency / latency rows a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.endpoints.process import ScriptedEndpoint, environment

from benchmarks.measure import Found, Missing, Ratio

#: what each program is given: base URL, rows file, folder to work in, in flight, "text" or "json"
COMMON = """
import asyncio, json, sys, time
base_url, rows_file, folder, concurrency, shape = sys.argv[1:]
concurrency = int(concurrency)
SYSTEM = "You judge short notes. Say whether to keep the note, its mood, and why."
def messages(row):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["text"]}]
def rows():
    return [json.loads(line) for line in open(rows_file)]
def now():
    return time.perf_counter(), time.process_time()
def report(began, done):
    seconds, cpu = (end - start for start, end in zip(began, now()))
    print(json.dumps({"seconds": seconds, "cpu": cpu, "rows": done}))
"""

OURS = """
from compeer.pipeline.stage import Progress
from compeer.pipeline.runner import run_stage
from compeer.pipeline.work import ModelSpec
from compeer.pipeline.stage import Tools
from compeer.models.endpoint import Endpoint  # loaded on first use otherwise, which would be start-up
from tests.endpoints.stages import CLASSIFY, SAY
specs = {"judge": ModelSpec("openai:scripted", base_url, concurrency)}
stage = CLASSIFY if shape == "json" else SAY
began = now()
done = run_stage(stage, rows_file, folder + "/out.jsonl", Tools(), model_specs=specs, concurrency=concurrency,
                 progress=Progress(quiet=True))
report(began, done.counts.rows_out)
"""

BARE = """
import aiohttp
async def main():
    waiting, answers = iter(rows()), []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
        async def worker():
            for row in waiting:
                body = {"model": "scripted", "messages": messages(row)}
                async with session.post(base_url + "/chat/completions", json=body) as response:
                    answers.append((await response.json())["choices"][0]["message"]["content"])
        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return len(answers)
began = now()
done = asyncio.run(main())
report(began, done)
"""

OPENAI = """
import openai
async def main():
    waiting, answers = iter(rows()), []
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as client:
        async def worker():
            for row in waiting:
                answer = await client.chat.completions.create(model="scripted", messages=messages(row))
                answers.append(answer.choices[0].message.content)
        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return len(answers)
began = now()
done = asyncio.run(main())
report(began, done)
"""

# curator would fetch its tokenizer from the network; the same file lies in a package it depends on
CURATOR = """
import importlib.util, os, pathlib
litellm = pathlib.Path(importlib.util.find_spec("litellm").origin).parent
os.environ["TIKTOKEN_CACHE_DIR"] = str(litellm / "litellm_core_utils" / "tokenizers")
from typing import Literal
from bespokelabs import curator
from pydantic import BaseModel
class Verdict(BaseModel):
    keep: bool
    mood: Literal["calm", "tense", "sad"]
    why: str
class Judge(curator.LLM):
    def prompt(self, input):
        return messages(input)
    def parse(self, input, response):
        return {"id": input["id"], "said": response if isinstance(response, str) else response.why}
params = {"base_url": base_url, "api_key": "none", "max_concurrent_requests": concurrency,
          "max_requests_per_minute": 10**8, "max_tokens_per_minute": 10**12}
judge = Judge(model_name="scripted", backend="openai", backend_params=params,
              response_format=Verdict if shape == "json" else None)
began = now()
done = judge(rows(), working_dir=folder)
report(began, len(done.dataset))
"""

#: program, packages of its environment (none: this one), shapes
CONTENDERS: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "compeer": (OURS, None, ("text", "json")),
    "aiohttp": (BARE, None, ("text",)),
    "openai": (OPENAI, "openai", ("text",)),
    "curator": (CURATOR, "bespokelabs-curator", ("text", "json")),
}


def main() -> None:
    options = parser().parse_args()
    table = rates(options, {})
    show(table)
    if options.out:
        options.out.write_text(json.dumps(table, indent=2) + "\n")


def run() -> Found:
    """For `python -m benchmarks`: ours against each peer, and against the ceiling that the latency sets."""
    left_out: dict[str, str] = {}
    table = rates(parser().parse_args([]), left_out)
    ours = {(row["latency"], row["answers"]): row for row in table if row["contender"] == "compeer"}
    found: Found = []
    for (latency, answers), row in ours.items():
        what = f"stage runner, {answers}, {latency * 1000:.0f} ms"
        rate, ceiling = row["rows_per_second"], row["rows_per_second"] / row["of_ceiling"]
        if latency >= 0.1:
            found.append(Ratio(what=what, ours=rate, theirs=ceiling, against="ceiling", unit="rows/s", wanted=0.9))
        for peer in table:
            if peer["contender"] == "compeer" or (peer["latency"], peer["answers"]) != (latency, answers):
                continue
            wanted = 3.0 if peer["contender"] == "curator" and latency < 0.1 else None
            theirs, against = peer["rows_per_second"], peer["contender"]
            found.append(Ratio(what=what, ours=rate, theirs=theirs, against=against, unit="rows/s", wanted=wanted))
    return found + [Missing(what="stage runner", against=name, reason=why) for name, why in left_out.items()]


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--latency", type=float, nargs="+", default=[0.01, 0.5])
    arguments.add_argument("--rows", type=int, default=3000, help="at 10 ms; at more, as many as twelve seconds allow")
    arguments.add_argument("--concurrency", type=int, default=64)
    arguments.add_argument("--peers", nargs="*", default=["aiohttp", "openai", "curator"])
    arguments.add_argument("--repeat", type=int, default=2, help="the best of so many runs counts, for each")
    arguments.add_argument("--venvs", type=Path, default=Path(tempfile.gettempdir()) / "compeer-bench-venvs")
    arguments.add_argument("--out", type=Path, help="write the table as JSON")
    return arguments


def rates(options: argparse.Namespace, left_out: dict[str, str]) -> list[dict[str, Any]]:
    """All rows of the table; contenders that cannot take part are noted with the reason."""
    pythons = {name: python_of(name, options.venvs, left_out) for name in ["compeer", *options.peers]}
    return [row for latency in options.latency for row in measure(latency, options, pythons, left_out)]


def python_of(name: str, venvs: Path, left_out: dict[str, str]) -> str | None:
    """The interpreter of a contender's environment, made if need be; None when that fails."""
    packages = CONTENDERS[name][1]
    if packages is None:
        return sys.executable
    folder = venvs / name
    if not (folder / "installed").exists():
        print(f"installing {packages} into {folder} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "1", packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            left_out[name] = f"it cannot be installed: {why}"
            print(f"{name} is left out: {why}", file=sys.stderr)
            return None
        (folder / "installed").touch()
    return str(folder / "bin" / "python")


def measure(
    latency: float, options: argparse.Namespace, pythons: dict[str, str | None], left_out: dict[str, str]
) -> list[dict[str, Any]]:
    """Rows a second of each contender at one latency. Repetitions are interleaved, so that noise hits all alike."""
    ceiling = options.concurrency / latency
    count = min(options.rows, int(ceiling * 12))
    best: dict[tuple[str, str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, ScriptedEndpoint(latency=latency, answer="auto") as endpoint:
        rows = Path(folder) / "rows.jsonl"
        told = "I could not sleep again, and nobody at work knows why I am so tired. " * 5
        rows.write_text("".join(json.dumps({"id": f"n{n}", "text": f"Note {n}: {told}"}) + "\n" for n in range(count)))
        for repetition in range(options.repeat if latency < 0.1 else 1):
            for name, python in pythons.items():
                program, _, shapes = CONTENDERS[name]
                for shape in shapes if python else ():
                    place = Path(folder) / f"{name}-{shape}-{repetition}"
                    words = [endpoint.base_url, rows, place, options.concurrency, shape]
                    result = once(str(python), program, words)
                    if isinstance(result, str) or result["rows"] != count:
                        why = result if isinstance(result, str) else f"{result['rows']} of {count} rows came out"
                        left_out[f"{name}, {shape}, {latency * 1000:.0f} ms"] = why
                        print(f"{name} ({shape}) is left out: {why}", file=sys.stderr)
                        continue
                    rate = count / result["seconds"]
                    known = best.get((name, shape))
                    if known is None or rate > known["rows_per_second"]:
                        best[name, shape] = {
                            "latency": latency,
                            "contender": name,
                            "answers": shape,
                            "rows": count,
                            "rows_per_second": round(rate, 1),
                            "of_ceiling": round(rate / ceiling, 3),
                            "cpu_ms_per_row": round(result["cpu"] / count * 1000, 3),
                        }
    return list(best.values())


def once(python: str, program: str, words: list[Any]) -> dict[str, Any] | str:
    """One contender's run, or why there is none.

    Its program is a file, because curator looks at the source of its functions.
    """
    place = Path(words[2])
    place.mkdir(parents=True)
    file = place / "program.py"
    file.write_text(COMMON + program)
    quiet = {"TELEMETRY_ENABLED": "false", "CURATOR_DISABLE_RICH_DISPLAY": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    surroundings = environment() if python == sys.executable else os.environ | {"PYTHONPATH": ""}
    command = [python, str(file), *map(str, words)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings | quiet)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {place.name}: {result['seconds']:.1f} s of {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return result


def show(table: list[dict[str, Any]]) -> None:
    """Rates, and how many times each peer's rate with the same kind of answers ours is."""
    ours = {(row["latency"], row["answers"]): row["rows_per_second"] for row in table if row["contender"] == "compeer"}
    head = f"{'latency':>8} {'contender':<10} {'answers':<8} {'rows/s':>8} {'of ceiling':>11}"
    print(f"{head} {'compeer is':>11} {'CPU a row':>10}")
    for row in table:
        ratio = ours.get((row["latency"], row["answers"]), 0.0) / row["rows_per_second"]
        cells = f"{row['latency'] * 1000:>5.0f} ms {row['contender']:<10} {row['answers']:<8}"
        cells += f" {row['rows_per_second']:>8.0f} {row['of_ceiling']:>11.0%}"
        print(f"{cells} {ratio:>10.1f}x {row['cpu_ms_per_row']:>7.2f} ms")


if __name__ == "__main__":
    main()
