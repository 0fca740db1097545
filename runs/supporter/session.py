"""One GPU session, prepared and read here: what travels, the list of device calls, and what becomes of the results.

    python -m runs.supporter.session pack [--rows-only]     rows, base and wheels as pieces of 60 MB in runs/out/session
    python -m runs.supporter.session hide                   two files travel until `show`; git is locked
    python -m runs.supporter.session calls                  the calls as JSON, each with its size checked
    python -m runs.supporter.session unpack FOLDER…         what came back: results by set, adapters
    python -m runs.supporter.session items --most 3000      candidates as CER items for labellers
    python -m runs.supporter.session reading                moments and answers for `reading.py`
    python -m runs.supporter.session disputed LABELLED      items about which two labellers differ
    python -m runs.supporter.session judged ODDS OUT        the judge's figures on the test items and the attacks
    python -m runs.supporter.session show                   git as it was

`plan.json` says what is trained and sampled, and the rule by which it is judged. README.md has the order of the calls.
The base is cut from the cached GGUF file. The wheels are those of the plan's packages for Python 3.12, less what the
machine has (torch, CUDA) or vLLM does not need there; they are compressed already, so nothing is packed twice.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, Candidate, Item, read_items
from compeer.corpora import open_cer
from compeer.dialogue import read_rows, write_rows
from compeer.models.weights import cache_dir
from compeer.reasoning import Pins, Reasoning, parse, system_prompt
from compeer.reasoning.ontology import STRATEGIES
from compeer.reward.case import case_of
from compeer.reward.conversation import threads
from compeer.reward.train import RowSettings
from compeer.reward.train import chat as judge_chat
from compeer.reward.train import rows as judge_training_rows
from compeer.reward.verdict import CHOICES, PAIR_WORDS, STEP_WORDS, preference_of
from compeer.safety.reader import ANSWERS, WORDS, question, taught
from compeer.statistics.classification import auc
from runs.open_cer.items import WANTED, balanced, place
from runs.safety import reader_rows
from runs.supporter import rows as open_rows

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
HOME = ROOT / "runs" / "out" / "session"
GGUF = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
GGUF_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PIECE = 60_000_000
LIMIT = 64 * 1024 * 1024 - 500_000  # of what one call sends, with room for what a transfer adds
PROGRAMS = ("remote.py", "device.py")
#: on the machine already, or not needed there
DROPPED = re.compile(
    r"(torch|torchvision|torchaudio|triton|cuda-.*|flashinfer-.*|tilelang|tokenspeed-.*|humming-kernels|quack-kernels"
    r"|z3-solver|nvidia-(?!ml-py).*)=="
)


def plan_of(path: Path = HERE / "plan.json") -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")
    return len(lines)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


# --- rows ----------------------------------------------------------------------------------------------------------


def judge_rows(split: str, kind: Any, seed: int) -> list[dict[str, Any]]:
    """What a judge learns from the labelled items of a split: conversations with its verdicts, no reasons."""
    settings = RowSettings(kind=kind, reasons=0.0, seed=seed)
    made = []
    for item in read_items(f"open-cer/{split}"):
        for row in judge_training_rows(item, settings):
            asked = [one | {"learn": True} if one["role"] == "assistant" else one for one in judge_chat(row)]
            made.append({"id": item.id, "messages": asked})
    random.Random(seed).shuffle(made)
    return made


def judge_cases(what: str, kind: Any) -> list[dict[str, Any]]:
    """What a judge is asked: `test`, `valid`, `alone` (test without the conversation) or `attacks`; the item's name
    decides the order of the replies."""
    names = {"attacks": str(open_cer.FOLDER / "attacks.jsonl"), "alone": "open-cer/test"}
    made = []
    for item in read_items(names.get(what, f"open-cer/{what}")):
        if what == "alone":
            item = msgspec.structs.replace(item, history=(msgspec.structs.replace(item.history[-1], text="…"),))
        first = bool(place(item.id)[1] % 2)
        for number, thread in enumerate(threads(case_of(item), kind, first)):
            pair, step = PAIR_WORDS[item.language], STEP_WORDS[item.language]
            answers = [
                [pair[one] for one in CHOICES] if turn.question == "preference" else [step[True], step[False]]
                for turn in thread.turns
            ]
            made.append({"id": f"{what} {number} {item.id}", "system": {"role": "system", "content": thread.system},
                         "turns": [turn.content for turn in thread.turns], "answers": answers})  # fmt: skip
    return made


def danger_rows(held_out: bool) -> list[dict[str, Any]]:
    """Conversations with a level of danger, as the reader asks for it; the held-out ones without their answer."""
    parts = (reader_rows.written(), reader_rows.single(), reader_rows.monologues(), reader_rows.opened())
    found, known = [], set()
    for row in (row for part in parts for row in part):
        text = json.dumps(row["messages"])
        if text in known or reader_rows.held_out(row) is not held_out:
            continue
        known.add(text)
        system = {"role": "system", "content": system_prompt(row["language"], think="off")}
        asked = question(row["messages"], row["language"], system)
        answer = {} if held_out else {"answer": next(one for one in ANSWERS if one == row["level"])}
        found.append({"id": row["id"], "language": row["language"], "messages": asked, **answer})
    return found


def danger_questions() -> list[dict[str, Any]]:
    """What `runs.safety.measure --rows HOME/danger-*.jsonl` has written down, as the reader is asked."""
    found = {row["id"]: row for path in sorted(HOME.glob("danger-*.jsonl")) for row in lines_of(path)}
    return [
        {"id": row["id"], "language": row["language"], "messages": question(
            row["messages"], row["language"],
            {"role": "system", "content": system_prompt(row["language"], think="off")})} for row in found.values()
    ]  # fmt: skip


def make_rows(plan: dict[str, Any], out: Path, esconv: Path) -> list[dict[str, Any]]:
    """All files of rows and prompts under `out`; gives the steps of the session."""
    items = list(open_rows.moments())
    train = [item for item in items if open_rows.split_of(item.dialogue) == "train"]
    fresh = [item for item in items if open_rows.unlearned(item)]
    seed = plan["seed"]
    steps: list[dict[str, Any]] = [
        {"name": "gguf", "run": ["remote.py", "join", "gguf", "{lent}/base.gguf"], "makes": ["{lent}/base.gguf.whole"]},
        {"name": "base", "run": ["device.py", "dequantise", "{lent}/base.gguf", "{lent}/files/tokenizer", "{lent}/base",
                                 "{bytes}"], "path": ["files/packages"], "makes": ["{lent}/base/done"]},
        {"name": "wheels", "run": ["remote.py", "overlay", "wheels", "{lent}/overlay"],
         "makes": ["{lent}/overlay.whole"]},
    ]  # fmt: skip
    for arm in plan["arms"]:
        name, kind = arm["name"], arm["kind"]
        part = [item for item in train if arm.get("part") in (None, open_rows.half_of(item.dialogue))]
        job = plan["learning"] | {
            key: value for key, value in arm.items() if key not in ("name", "kind", "part", "seconds")
        }
        job |= {"base": "{lent}/base", "out": f"{{lent}}/adapters/{name}", "seed": arm.get("seed", seed)}
        job["rows"] = f"{{lent}}/files/rows/{name}.jsonl"
        if kind == "prefer":
            replies = {row["id"]: row["output"].strip() for row in lines_of(HOME / "results" / "off-base.jsonl")}
            write_lines(
                out / f"{name}-pairs.jsonl", open_rows.pairs(part, replies)[: arm.get("most", plan.get("most_rows"))]
            )
            job["pairs"] = f"{{lent}}/files/rows/{name}-pairs.jsonl"
        if kind in ("prefer", "danger"):
            rows = danger_rows(False)
        elif kind == "judge":
            rows = judge_rows("train", arm.get("judge", "unified"), job["seed"])
        else:
            rows = open_rows.arm_rows(kind, part, seed=seed, contrasts=plan.get("contrasts", 1.0))
        write_lines(out / f"{name}.jsonl", rows[: plan.get("most_rows")])
        made = [name, *(f"{name}-{share:g}" for share in arm.get("save_at", []))]
        limit = {"seconds": arm["seconds"]} if "seconds" in arm else {}
        verb = "prefer" if kind == "prefer" else "train"
        steps.append({"name": name, "run": ["device.py", verb], "job": job, **limit,
                      "lane": "train", "after": ["gguf", "base"],
                      "makes": [f"{{lent}}/adapters/{one}/job.json" for one in made]})  # fmt: skip
        if kind == "judge":
            for what in plan["judged"]:
                write_lines(out / f"cases-{what}-{arm.get('judge', 'unified')}.jsonl",
                            judge_cases(what, arm.get("judge", "unified"))[: plan.get("most_rows")])  # fmt: skip
            steps.append({
                "name": f"{name}-odds", "run": ["device.py", "judge"], "after": [name], "lane": "odds",
                "job": {"base": "{lent}/base", "adapter": f"{{lent}}/adapters/{name}", "cases": [
                    f"{{lent}}/files/rows/cases-{what}-{arm.get('judge', 'unified')}.jsonl" for what in plan["judged"]
                ], "out": f"{{lent}}/results/odds-{name}.jsonl"},
            })  # fmt: skip
        if kind in ("prefer", "danger"):
            write_lines(out / "danger-dev.jsonl", danger_rows(True)[: plan.get("most_rows")])
            write_lines(out / "danger-more.jsonl", danger_questions()[: plan.get("most_rows")])
            steps.append({
                "name": f"{name}-danger", "run": ["device.py", "score"], "after": [name], "lane": "odds",
                "job": {"base": "{lent}/base", "adapter": f"{{lent}}/adapters/{name}", "answers": list(WORDS),
                        "prompts": ["{lent}/files/rows/danger-dev.jsonl", "{lent}/files/rows/danger-more.jsonl"],
                        "out": f"{{lent}}/results/danger-{name}.jsonl"},
            })  # fmt: skip
    sets = make_prompts(plan, fresh, [item for item in train if open_rows.unlearned(item)], out, esconv)
    job = {"base": "{lent}/base", "sets": sets, "out": "{lent}/results", "regexes": "{lent}/files/rows/regexes.json",
           "rank": plan["learning"]["rank"], "batch": plan.get("batch", 3000), "seed": seed}  # fmt: skip
    ready = {"run": ["device.py", "sample"], "lane": "sample", "makes": ["{lent}/results/done"]}
    if plan.get("engine", "vllm") == "vllm":
        steps.append(ready | {"name": "sample", "after": ["gguf", "base", "wheels"], "path": ["overlay"],
                              "job": job | {"engine": "vllm"}})  # fmt: skip
    slow = [one for one in sets if plan.get("engine") == "hf" or one["name"] != "candidates-base"]
    instead = {"instead_of": "sample"} if plan.get("engine", "vllm") == "vllm" else {}
    job |= {"engine": "hf", "sets": slow, "batch": plan.get("batch", 256)}
    return [*steps, ready | instead | {"name": "sample-hf", "after": ["gguf", "base"], "job": job}]


def make_prompts(
    plan: dict[str, Any], items: list[Item], train: list[Item], out: Path, esconv: Path
) -> list[dict[str, Any]]:
    """Prompts of candidates, of best of n and of the blind reading; in the order in which they are worth having."""
    sets: list[dict[str, Any]] = []

    trained = {f"{arm['name']}{end}" for arm in plan["arms"]
               for end in ("", *(f"-{share:g}" for share in arm.get("save_at", [])))}  # fmt: skip

    def add(name: str, rows: list[dict[str, Any]], adapter: str | None = None, most: int = 512) -> None:
        if adapter and adapter not in trained:
            return
        write_lines(out / f"prompts-{name}.jsonl", rows[: plan.get("most_prompts")])
        where = {"adapter": f"{{lent}}/adapters/{adapter}"} if adapter else {}
        most = min(most, plan.get("most_tokens", most))
        sets.append({"name": name, "prompts": f"{{lent}}/files/rows/prompts-{name}.jsonl", "most": most, **where})

    found, regexes = open_rows.candidate_prompts(items, plan.get("candidates", {}), plan["seed"])
    (out / "regexes.json").write_text(json.dumps(regexes, ensure_ascii=False), "utf-8")
    moments = {name: list(read_items(HOME / f"{name}.jsonl")) for name in ("choice", "confirm")
               if (HOME / f"{name}.jsonl").exists()}  # fmt: skip
    if not moments:  # drawn once: what is read in a later round is what was answered in the first
        moments = open_rows.reading_moments(esconv, plan["seed"])
        for name, chosen in moments.items():
            write_rows(HOME / f"{name}.jsonl", chosen)
    asked = [item for chosen in moments.values() for item in chosen][: plan.get("most_moments")]
    for one in plan["reading"]:
        think, length = one.get("think", "full"), one.get("length", "brief")
        rows = [
            {"id": item.id, "arm": one["arm"], "temperature": 0.3,
             "messages": open_rows.prompt(item, think=think, length=length)} for item in asked
        ]  # fmt: skip
        if one.get("two_steps"):
            rows = [{**row, "messages": open_rows.in_two_steps(row["messages"])} for row in rows]
        add(f"reading-{one['arm']}", rows, one.get("adapter"), 120 if think == "off" else 320)
    for arm in plan.get("steer", []):  # pinned to each strategy; who reads the reply alone names it
        some = moments["choice"][:27] + moments["choice"][-13:]
        rows = [
            {"id": f"{item.id} {one.id}", "pin": one.id, "temperature": 0.3,
             "messages": open_rows.prompt(item, pins=Pins(strategy=one.id))}
            for item in some[: plan.get("most_moments")] for one in STRATEGIES
        ]  # fmt: skip
        add(f"steer-{arm}", rows, arm, 320)
    if not found:
        return sets
    rows = [
        {"id": item.id, "n": 2, "temperature": 0.5, "messages": open_rows.prompt(item)}
        for item in items if item in train
    ]  # fmt: skip
    add("mend", rows, "part-a")  # to be mended by authors
    for name, adapter, length in (("off-base", None, "full"), ("off-part", "part-a", "brief")):  # to compare with
        rows = [
            {"id": item.id, "temperature": 0.7, "messages": open_rows.prompt(item, think="off", length=length)}
            for item in items
        ]  # fmt: skip
        add(name, rows, adapter, 160)
    for generator in sorted(found, reverse=True):
        adapter = None if generator == "base" else generator  # the base goes on until the grammar's limits
        add(f"candidates-{generator}", found[generator], adapter, 512 if adapter else 640)
    return sets


# --- pieces --------------------------------------------------------------------------------------------------------


def cut(source: Iterable[bytes], name: str, folder: Path, size: int) -> dict[str, Any]:
    """A stream as pieces of `size` bytes: their names and hashes, and the hash of the whole."""
    pieces: dict[str, dict[str, Any]] = {}
    whole, total, open_piece = hashlib.sha256(), 0, bytearray()
    for old in folder.glob(f"{name}-*"):
        old.unlink()

    def close() -> None:
        piece = f"{name}-{len(pieces):02d}"
        (folder / piece).write_bytes(open_piece)
        pieces[piece] = {"bytes": len(open_piece), "sha256": hashlib.sha256(open_piece).hexdigest()}
        open_piece.clear()

    for block in source:
        whole.update(block)
        total += len(block)
        while block:
            left = size - len(open_piece)
            open_piece += block[:left]
            block = block[left:]
            if len(open_piece) == size:
                close()
    if open_piece:
        close()
    return {"bytes": total, "sha256": whole.hexdigest(), "pieces": pieces}


def blocks(file: Any) -> Iterable[bytes]:
    while block := file.read(4_000_000):
        yield block


def fetched_wheels(packages: list[str], folder: Path) -> list[Path]:
    """The wheels of these packages for Python 3.12 on the machine, from the package index; kept between calls."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "wheels.json"
    if note.exists() and (known := json.loads(note.read_text("utf-8")))["packages"] == packages:
        return [folder / one for one in known["wheels"]]
    want, resolved = folder / "want.txt", folder / "resolved.txt"
    want.write_text("\n".join(packages) + "\n", "utf-8")
    subprocess.run(
        ["uv", "pip", "compile", str(want), "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_39",
         "--no-header", "--no-annotate", "-q", "-o", str(resolved)],
        check=True, env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    kept = [line for line in resolved.read_text("utf-8").splitlines() if line and not DROPPED.match(line)]
    resolved.write_text("\n".join(kept) + "\n", "utf-8")
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    tags = [word for one in platforms for word in ("--platform", one)]
    tags += [word for one in ("cp312", "abi3", "none") for word in ("--abi", one)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.12",
         "--implementation", "cp", *tags, "-r", str(resolved), "-d", str(folder)], check=True,
    )  # fmt: skip
    found = sorted(folder.glob("*.whl"))
    if len(found) < len(kept):
        raise SystemExit(f"{len(kept)} packages, {len(found)} wheels in {folder}")
    note.write_text(json.dumps({"packages": packages, "wheels": [one.name for one in found]}), "utf-8")
    return found


def tokenizer_of(gguf: Path, folder: Path) -> None:
    if not (folder / "tokenizer.json").exists():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(folder)


def pack(
    plan: dict[str, Any],
    gguf: Path,
    esconv: Path,
    *,
    sha256: str = GGUF_SHA256,
    piece: int = PIECE,
    rows_only: bool = False,
) -> dict[str, Any]:
    """Everything that travels, under HOME/pieces; the head holds programs, rows, tokenizer, `gguf` and the manifest."""
    pieces, files = HOME / "pieces", HOME / "files"
    pieces.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(files, ignore_errors=True)
    note = HOME / "parts.json"
    wheels = fetched_wheels(plan["packages"], HOME / "wheels")
    if not rows_only or not note.exists():
        with gguf.open("rb") as file:
            parts = {"gguf": cut(blocks(file), "gguf", pieces, piece)}
        if parts["gguf"]["sha256"] != sha256:
            raise SystemExit(f"{gguf} is not the file that was meant: {parts['gguf']['sha256']}")
        packed = HOME / "wheels.tar"
        with tarfile.open(packed, "w") as tar:
            for one in wheels:
                tar.add(one, one.name)
        with packed.open("rb") as file:
            parts["wheels"] = cut(blocks(file), "wheels", pieces, piece)
        packed.unlink()
        note.write_text(json.dumps(parts), "utf-8")
    parts = json.loads(note.read_text("utf-8"))
    steps = make_rows(plan, files / "rows", esconv)
    for step in steps:
        step["run"] = [word.replace("{bytes}", str(parts["gguf"]["bytes"])) for word in step["run"]]
    tokenizer_of(gguf, HOME / "tokenizer")
    shutil.copytree(HOME / "tokenizer", files / "tokenizer")
    for one in wheels:
        if one.name.startswith("gguf-"):
            with zipfile.ZipFile(one) as wheel:
                wheel.extractall(files / "packages")
    for program in PROGRAMS:
        shutil.copyfile(HERE / program, files / program)
    manifest = {"pieces": {name: told for part in parts.values() for name, told in part["pieces"].items()},
                "parts": {name: part | {"pieces": list(part["pieces"])} for name, part in parts.items()},
                "lanes": {"train": plan.get("lanes", 2), "sample": 1, "odds": 2}, "steps": steps,
                "rule": plan["rule"]}  # fmt: skip
    (files / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with tarfile.open(pieces / "head.tar.gz", "w:gz", compresslevel=6) as tar:
        tar.add(files, ".")
    return manifest


# --- calls ---------------------------------------------------------------------------------------------------------


def tree_bytes(root: Path = ROOT) -> int:
    """Bytes of what travels without being carried: tracked files, and untracked ones that git does not ignore."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.split(b"\0")
    paths = [root / os.fsdecode(name) for name in set(names) if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def calls(plan: dict[str, Any], manifest: dict[str, Any], root: Path = ROOT) -> list[dict[str, Any]]:
    """The device calls in their order. Raises if one would send more than the limit."""
    remote = "python3 runs/supporter/remote.py"
    tree = tree_bytes(root)
    found: list[dict[str, Any]] = []
    for name in ["head.tar.gz", *manifest["pieces"]]:
        path = HOME / "pieces" / name
        carried = str(path.relative_to(root))
        begin = f" --seconds {plan['deadline']}" if name == "head.tar.gz" else ""
        if tree + path.stat().st_size > LIMIT:
            raise SystemExit(
                f"{name}: tree {tree:,} and piece {path.stat().st_size:,} are over {LIMIT:,} bytes: run `hide`"
            )
        found.append({"command": f"{remote} take {carried}{begin}", "carry": [carried], "timeout_s": 60,
                      "expected_s": 120 if begin else 5, "bytes": tree + path.stat().st_size})  # fmt: skip
    for seconds in (560, 560, 300):
        found.append({"command": f"{remote} wait --seconds {seconds}", "carry": [], "timeout_s": seconds + 20,
                      "expected_s": "until all steps are over", "bytes": tree})  # fmt: skip
    names = [arm["name"] for arm in plan["arms"]]
    for at in range(0, len(names), 3):
        found.append({"command": f"{remote} fetch {' '.join(names[at : at + 3])}", "carry": [], "timeout_s": 60,
                      "expected_s": 8, "bytes": tree})  # fmt: skip
    return [{"call": number, **one} for number, one in enumerate(found)]


def git_file(name: str, root: Path) -> Path:
    told = subprocess.run(
        ["git", "rev-parse", "--git-path", name], cwd=root, check=True, capture_output=True, text=True
    )
    return root / told.stdout.strip()


def hide(root: Path = ROOT, keep: tuple[str, ...] = ("runs/supporter/remote.py", "runs/supporter/device.py")) -> int:
    """A git index of the two programs alone, everything else ignored; the lock keeps others from committing."""
    index, lock, exclude = (git_file(name, root) for name in ("index", "index.lock", "info/exclude"))
    if index.with_name("index.full").exists():
        raise SystemExit("hidden already: run `show` first")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    shutil.copyfile(index, index.with_name("index.full"))
    exclude.parent.mkdir(exist_ok=True)
    before = exclude.read_text("utf-8") if exclude.exists() else ""
    exclude.with_name("exclude.full").write_text(before, "utf-8")
    exclude.write_text("*\n", "utf-8")
    small = index.with_name("index.small")
    env = {**os.environ, "GIT_INDEX_FILE": str(small)}
    subprocess.run(["git", "read-tree", "--empty"], cwd=root, check=True, env=env)
    subprocess.run(["git", "update-index", "--add", *keep], cwd=root, check=True, env=env)
    small.replace(index)
    return tree_bytes(root)


def show(root: Path = ROOT) -> None:
    """Git as it was before `hide`."""
    index, lock, exclude = (git_file(name, root) for name in ("index", "index.lock", "info/exclude"))
    if not index.with_name("index.full").exists():
        raise SystemExit("nothing is hidden")
    index.with_name("index.full").replace(index)
    exclude.with_name("exclude.full").replace(exclude)
    lock.unlink()


# --- what came back ------------------------------------------------------------------------------------------------


def unpack(folders: list[Path]) -> dict[str, int]:
    """Results by set, each output once, and the adapters whose pieces are all there."""
    found: dict[str, dict[str, Any]] = {}
    pieces: dict[str, dict[int, Path]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("rows-*.jsonl")):
            for row in lines_of(path):
                found.setdefault(row["set"], {})[row["id"]] = row
        for path in folder.rglob("adapters-*.tar"):
            _, digest, number = path.stem.split("-")
            pieces.setdefault(digest, {})[int(number)] = path
    for name, rows in found.items():
        path = HOME / "results" / f"{name}.jsonl"
        kept = {row["id"]: row for row in lines_of(path)} if path.exists() else {}
        write_lines(path, (kept | rows).values())
    for digest, parts in pieces.items():
        content = b"".join(parts[number].read_bytes() for number in sorted(parts))
        if hashlib.sha256(content).hexdigest()[:16] != digest:
            raise SystemExit(f"pieces of adapters-{digest} are missing: fetch them again")
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            tar.extractall(HOME / "adapters", filter="data")
    for danger in (HOME / "adapters" / name for name in ("danger", "voice")):
        if not danger.is_dir():
            continue  # else what `compeer.safety.reader.reader_of` looks for
        (danger / "reader.json").write_text(json.dumps(taught(), ensure_ascii=False), "utf-8")
    return {name: len(lines_of(HOME / "results" / f"{name}.jsonl")) for name in found}


def candidate_items(most: int) -> tuple[list[Item], dict[str, int]]:
    """Complete candidates as items, drawn by hash; for test and validation 7 % more than are wanted, because an item on
    which three labellers differ is lost.

    Half of the items keep the moment's written reply to compare with. The other half get a model's reply without
    thinking (`off-base`, `off-part`): beside written replies alone, two of the four answers would hardly occur.
    """
    moments = {item.id: item for item in open_rows.moments()}
    others = {name: {row["id"]: row["output"].strip() for row in lines_of(HOME / "results" / f"off-{name}.jsonl")
                     if row["ended"]} for name in ("base", "part")}  # fmt: skip
    made: dict[str, list[Item]] = {"test": [], "valid": [], "train": []}
    dropped: Counter[str] = Counter()
    for path in [*sorted((HOME / "results").glob("candidates-*.jsonl")), HOME / "results" / "mend.jsonl"]:
        for row in lines_of(path):
            name, at = row.get("moment") or row["id"].split("~")[0], row.get("generator", "part-a")
            parsed, moment = parse(row["output"]), moments[name]
            if not (parsed.complete and row["ended"] and parsed.reasoning and parsed.response):
                dropped[at] += 1
                continue
            split = open_rows.split_of(moment.dialogue)
            source = ("written", "base", "written", "part")[place(row["id"])[0] % 4]
            changed: dict[str, Any] = {}
            if source != "written":
                if not others[source].get(name):
                    continue
                changed = {"reference": others[source][name], "reference_reasoning": None}
            trace = {"temperature": row["temperature"], "pin": row.get("pin", {}), "pin_fits": row.get("pin_fits"),
                     "moment": name, "compared_with": source, "sampling_round": 1}  # fmt: skip
            candidate = Candidate(response=parsed.response, reasoning=parsed.reasoning, generator=f"1.5b/{at}")
            made[split].append(
                msgspec.structs.replace(moment, id=row["id"], candidate=candidate, split=split, trace=trace, **changed)
            )
    wanted = {split: round(1.07 * few) for split, few in WANTED.items()}
    wanted["train"] = most - sum(wanted.values())
    drawn = [item for split, few in wanted.items() for item in sorted(made[split], key=lambda one: place(one.id))[:few]]
    return drawn, dict(dropped)


def author_items(counts: dict[str, int]) -> list[Item]:
    """Fluent candidates, so that fluency tells nothing: per split two thirds contrasted answers (two in three of them
    beside the written reply, one beside a model's), a third with steps or a reply that belong elsewhere.

    What a model of this size writes is seldom right, and a written reply then always wins. A step that belongs
    elsewhere is one that an author wrote for another moment, of the same dialogue where it has one.
    """
    items = {open_rows.name_of(item): item for item in open_rows.moments()}
    said = {row["id"]: row["output"].strip() for name in ("part", "base")
            for row in lines_of(HOME / "results" / f"off-{name}.jsonl") if row["ended"]}  # fmt: skip
    others: dict[str, list[Item]] = {}
    for item in items.values():
        others.setdefault(item.dialogue, []).append(item)
    answers: dict[str, list[open_cer.Contrast]] = {split: [] for split in counts}
    for one in open_cer.contrasts():
        if one.of in items:
            answers[open_rows.split_of(items[one.of].dialogue)].append(one)
    contrasted = {one.of for part in answers.values() for one in part}
    for name, item in items.items():  # elsewhere the written answer itself, beside a model's reply
        if name not in contrasted and item.id in said and (told := item.reference_reasoning):
            own = open_cer.Contrast(name, str(told.label("strategy")), told.text("strategy"), item.reference)
            answers[open_rows.split_of(item.dialogue)].append(own)
    made = []
    for split, few in counts.items():
        here = sorted(answers[split], key=lambda one: (one.of not in contrasted, place(f"{one.of} {one.strategy}")))
        used: Counter[str] = Counter()
        same = [item for item in items.values() if open_rows.split_of(item.dialogue) == split]
        for one in here:
            if sum(used.values()) >= few:
                break
            item = items[one.of]
            if used[one.of] >= (2 if split == "train" else 3) or item.reference_reasoning is None:
                continue
            rng = random.Random(f"{one.of} {one.strategy}")
            kind = rng.choice(("contrast", "contrast", "contrast-model", "mixed", "mixed", "contrast"))
            if kind == "contrast-model" and item.id not in said:
                kind = "contrast"
            if one.of not in contrasted:
                kind = "mixed"
            written = item.reference_reasoning
            steps = {step: written.text(step) for step in ("history", "emotion")} | {"strategy": one.strategy_step}
            labels = {label: written.label(label) for label in ("stage", "sentiment", "emotion", "intensity")}
            labels, reply, taken = labels | {"strategy": one.strategy}, one.reply, []
            if kind == "mixed":
                near = [other for other in others[item.dialogue] if other.id != item.id and other.reference_reasoning]
                far = [other for other in same if other.language == item.language and other.dialogue != item.dialogue]
                taken = [part for part in ("history", "emotion", "strategy", "reply") if rng.random() < 0.45]
                taken = taken or [rng.choice(("history", "emotion", "strategy", "reply"))]
                for part in taken:
                    other = rng.choice(near if near and rng.random() < 0.8 else far)
                    told = other.reference_reasoning
                    if part == "reply":
                        reply = other.reference
                    elif told is not None:
                        steps[part] = told.text(part)
                        for label in {"history": ("stage",), "emotion": ("sentiment", "emotion", "intensity"),
                                      "strategy": ("strategy",)}[part]:  # fmt: skip
                            labels[label] = told.label(label)
            source = rng.choice(("written", "written", "model")) if kind == "mixed" and item.id in said else "written"
            source = "model" if kind == "contrast-model" or one.of not in contrasted else source
            changed = {"reference": said[item.id], "reference_reasoning": None} if source == "model" else {}
            if source == "written" and reply == item.reference:
                continue
            trace = {"moment": item.id, "compared_with": source, "taken_from_elsewhere": taken, "sampling_round": 1}
            candidate = Candidate(response=reply, reasoning=Reasoning.of(steps, labels, item.language),
                                  generator=f"author/{kind.removesuffix('-model')}")  # fmt: skip
            made.append(
                msgspec.structs.replace(
                    item, id=f"{item.id}~a-{used[one.of]}", candidate=candidate, split=split, trace=trace, **changed
                )
            )
            used[one.of] += 1
    return made


def reading_files() -> list[str]:
    """Answers of the arms beside each set of moments, for `reading.py sheet`."""
    told = []
    for name in ("choice", "confirm"):
        wanted = {item.id for item in read_items(HOME / f"{name}.jsonl")}
        rows = [row for path in sorted((HOME / "results").glob("reading-*.jsonl")) for row in lines_of(path)]
        count = write_lines(HOME / f"{name}-answers.jsonl", (row for row in rows if row["id"] in wanted))
        told.append(f"{name}: {len(wanted)} moments, {count} answers")
    return told


def judged(odds: Path) -> dict[str, Any]:
    """Areas, balanced accuracy and recall of False with intervals over dialogues; test items, the same without the
    conversation (`alone`), and the share of each attack that is taken for good."""
    found: dict[tuple[str, str], Any] = {}
    for row in read_rows(odds, dict):
        what, _, name = row["id"].split(" ", 2)
        found[what, name] = row["odds"]
    items, rng = list(read_items("open-cer/test")), np.random.default_rng(0)
    groups: dict[str, list[int]] = {}
    for at, item in enumerate(items):
        groups.setdefault(item.dialogue, []).append(at)
    members = [np.array(one) for one in groups.values()]
    draws = [np.concatenate([members[at] for at in rng.integers(0, len(members), len(members))]) for _ in range(1000)]

    def told(value: Callable[[Any], float]) -> dict[str, Any]:
        whole = np.arange(len(items))
        spread = np.quantile([value(draw) for draw in draws], [0.025, 0.975])
        return {"value": round(float(value(whole)), 3), "interval": [round(float(one), 3) for one in spread]}

    result: dict[str, Any] = {"items": len(items), "dialogues": len(members)}
    for what in ("test", "alone"):
        for at, asked in enumerate(QUESTIONS):
            labels = [getattr(item.labels, asked) for item in items]
            odd = [found[what, item.id][at] for item in items]
            if asked == "preference":
                by_origin = [by_preference(one, item.id) for one, item in zip(odd, items, strict=True)]
                good = np.array([one in ("candidate", "both") for one in labels])
                score = np.array([one["candidate"] + one["both"] for one in by_origin])
                said = np.array([max(one, key=lambda name: one[name]) for one in by_origin])
            else:
                good, score = np.array(labels), np.array([one[0] for one in odd])
                said = score > 0.5
            truth = np.array(labels)
            result.setdefault(what, {})[asked] = {
                "area": told(lambda draw, g=good, s=score: auc(g[draw], s[draw])),
                "balanced accuracy": told(lambda draw, t=truth, s=said: balanced(t[draw], s[draw])),
            }
    taken: dict[str, list[bool]] = {}
    for item in read_items(open_cer.FOLDER / "attacks.jsonl"):
        one = by_preference(found["attacks", item.id][3], item.id)
        taken.setdefault(item.trace["attack"], []).append(max(one, key=lambda name: one[name]) in ("candidate", "both"))
    result["attacks taken for good"] = {name: f"{sum(found)} of {len(found)}" for name, found in taken.items()}
    return result


def by_preference(odds: list[float], name: str) -> dict[str, float]:
    """Probabilities by place as probabilities by origin; `judge_cases` says which reply was first."""
    first = bool(place(name)[1] % 2)
    return {preference_of(choice, first): one for choice, one in zip(CHOICES, odds, strict=True)}


def disputed(path: Path) -> list[Item]:
    """Items with a question on which their two labellers differ, without votes: for the third."""
    found = [item for item in read_items(path) if "open" in item.trace.get("consensus", {}).values()]
    return [msgspec.structs.replace(item, votes=(), label_source=None) for item in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "do", choices=["pack", "calls", "hide", "show", "unpack", "items", "reading", "disputed", "judged"]
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rows-only", action="store_true")
    parser.add_argument("--gguf", type=Path, default=None)
    parser.add_argument("--esconv", type=Path, default=ROOT.parent / "shared" / "data" / "esconv")
    parser.add_argument("--most", type=int, default=3000)
    args = parser.parse_args()
    plan = plan_of()
    if args.do == "pack":
        manifest = pack(plan, args.gguf or cache_dir() / GGUF, args.esconv, rows_only=args.rows_only)
        print(
            f"{len(manifest['pieces']) + 1} pieces, {sum(one['bytes'] for one in manifest['pieces'].values()):,} bytes"
        )
    elif args.do == "calls":
        manifest = json.loads((HOME / "files" / "manifest.json").read_text("utf-8"))
        print(json.dumps(calls(plan, manifest), indent=1))
    elif args.do == "hide":
        print(f"{hide():,} bytes travel without what is carried")
    elif args.do == "show":
        show()
    elif args.do == "unpack":
        print(json.dumps(unpack(args.files), indent=1))
    elif args.do == "items":
        found, dropped = candidate_items(args.most)
        write_rows(HOME / "candidates.jsonl", found)
        print(len(found), "items", dict(Counter(item.split for item in found)), "incomplete:", dropped)
    elif args.do == "reading":
        print("\n".join(reading_files()))
    elif args.do == "judged":
        args.files[1].write_text(json.dumps(judged(args.files[0]), indent=1) + "\n", "utf-8")
    else:
        print(write_rows(args.files[0].with_name("third.jsonl"), disputed(args.files[0])), "items for the third")


if __name__ == "__main__":
    main()
