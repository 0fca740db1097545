"""One GPU session, prepared and read here: what travels, the list of device calls, and what becomes of the results.

    python -m runs.supporter.session pack [--rows-only]     rows, base and wheels as pieces of 60 MB in runs/out/session
    python -m runs.supporter.session hide                   two files travel until `show`; git is locked
    python -m runs.supporter.session calls                  the calls as JSON, each with its size checked
    python -m runs.supporter.session unpack FOLDER…         what came back: results by set, adapters
    python -m runs.supporter.session reading                moments and answers for `reading.py`
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, read_items
from compeer.corpora import open_cer
from compeer.dialogue import read_rows, write_rows
from compeer.models.weights import cache_dir
from compeer.reward.case import case_of
from compeer.reward.conversation import threads
from compeer.reward.train import RowSettings
from compeer.reward.train import chat as judge_chat
from compeer.reward.train import rows as judge_training_rows
from compeer.reward.verdict import CHOICES, PAIR_WORDS, STEP_WORDS, preference_of
from compeer.safety.reader import ANSWERS, WORDS, shown, taught
from compeer.statistics.classification import auc
from runs.open_cer.items import balanced, place
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
STEP = ("seconds", "gib", "once_over", "tries", "least")  #: of an arm: what the conductor is told, not the training
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
        asked = shown(row["messages"], row["language"])
        answer = {} if held_out else {"answer": next(one for one in ANSWERS if one == row["level"])}
        found.append({"id": row["id"], "language": row["language"], "messages": asked, **answer})
    return found


def make_rows(plan: dict[str, Any], out: Path, esconv: Path) -> list[dict[str, Any]]:
    """All files of rows and prompts under `out`; gives the steps of the session, in the order of their value."""
    steps: list[dict[str, Any]] = [
        {"name": "gguf", "run": ["remote.py", "join", "gguf", "{lent}/base.gguf"], "makes": ["{lent}/base.gguf.whole"]},
        {"name": "base", "run": ["device.py", "dequantise", "{lent}/base.gguf", "{lent}/files/tokenizer", "{lent}/base",
                                 "{bytes}"], "path": ["files/packages"], "makes": ["{lent}/base/done"]},
        {"name": "wheels", "run": ["remote.py", "overlay", "wheels", "{lent}/overlay"],
         "makes": ["{lent}/overlay.whole"]},
    ]  # fmt: skip
    most = plan.get("most_rows")
    for arm in plan["arms"]:
        name, kind = arm["name"], arm["kind"]
        job = plan["learning"] | {key: value for key, value in arm.items() if key not in ("name", "kind", *STEP)}
        adapter, asked = {"base": "{lent}/base", "adapter": f"{{lent}}/adapters/{name}"}, {}
        job |= {"base": "{lent}/base", "out": adapter["adapter"], "seed": arm.get("seed", plan["seed"])}
        if kind == "danger":
            rows = danger_rows(False)
            write_lines(out / "danger-dev.jsonl", danger_rows(True)[:most])
            asked = {"run": ["device.py", "score"], "job": adapter | {
                "answers": list(WORDS), "out": f"{{lent}}/results/danger-{name}.jsonl",
                "prompts": ["{lent}/files/rows/danger-dev.jsonl"]}}  # fmt: skip
        elif kind == "judge":
            rows = judge_rows("train", "unified", job["seed"])
            for what in plan["judged"]:
                write_lines(out / f"cases-{what}.jsonl", judge_cases(what, "unified")[:most])
            asked = {"run": ["device.py", "judge"], "job": adapter | {
                "cases": [f"{{lent}}/files/rows/cases-{what}.jsonl" for what in plan["judged"]],
                "out": f"{{lent}}/results/odds-{name}.jsonl"}}  # fmt: skip
        elif kind == "prefer":
            if not (pairs := HOME / job["pairs"]).exists():
                print(f"{name} is left out: there is no {pairs}")
                continue
            rows = lines_of(pairs)
        else:
            train = [item for item in open_rows.moments() if open_rows.split_of(item.dialogue) == "train"]
            rows = open_rows.arm_rows(kind, train, seed=plan["seed"], contrasts=plan.get("contrasts", 1.0))
        write_lines(out / f"{name}.jsonl", rows[:most])
        job["pairs" if kind == "prefer" else "rows"] = f"{{lent}}/files/rows/{name}.jsonl"
        steps.append({"name": name, "run": ["device.py", "prefer" if kind == "prefer" else "train"], "job": job,
                      "after": ["gguf", "base"], "makes": [f"{{lent}}/adapters/{name}/job.json"],
                      **{key: arm[key] for key in STEP if key in arm}})  # fmt: skip
        if asked:
            steps.append({"name": f"{name}-odds", "after": [name], "seconds": 120, "gib": 20} | asked)
    known = {one["name"] for one in steps}
    for one in steps:  # an arm that was left out is waited for by nobody
        one["once_over"] = [name for name in one.get("once_over", []) if name in known]
    if sets := make_prompts(plan, known, out, esconv):
        job = {
            "base": "{lent}/base",
            "sets": sets,
            "out": "{lent}/results",
            "batch": plan["batch"],
            "seed": plan["seed"],
        }
        arms = [arm["name"] for arm in plan["arms"] if arm["name"] in known]
        steps.append({"name": "sample", "run": ["device.py", "sample"], "after": ["gguf", "base"], "once_over": arms,
                      "seconds": 150, "gib": 24, "makes": ["{lent}/results/done"], "job": job})  # fmt: skip
    return steps


def make_prompts(plan: dict[str, Any], arms: set[str], out: Path, esconv: Path) -> list[dict[str, Any]]:
    """Prompts of the blind reading, for the arms that are trained."""
    moments = {name: list(read_items(HOME / f"{name}.jsonl")) for name in ("choice", "confirm")
               if (HOME / f"{name}.jsonl").exists()}  # fmt: skip
    if not moments:  # drawn once: what is read in a later round is what was answered in the first
        moments = open_rows.reading_moments(esconv, plan["seed"])
        for name, chosen in moments.items():
            write_rows(HOME / f"{name}.jsonl", chosen)
    items = [item for chosen in moments.values() for item in chosen][: plan.get("most_moments")]
    sets: list[dict[str, Any]] = []
    for one in plan["reading"]:
        adapter, think = one.get("adapter"), one.get("think", "full")
        if adapter and adapter not in arms:
            continue
        rows = [
            {"id": item.id, "arm": one["arm"], "temperature": 0.3,
             "messages": open_rows.prompt(item, think=think, length=one.get("length", "brief"))} for item in items
        ]  # fmt: skip
        write_lines(out / f"prompts-{one['arm']}.jsonl", rows)
        sets.append({"name": f"reading-{one['arm']}", "prompts": f"{{lent}}/files/rows/prompts-{one['arm']}.jsonl",
                     "most": min(120 if think == "off" else 320, plan.get("most_tokens", 512)),
                     **({"adapter": f"{{lent}}/adapters/{adapter}"} if adapter else {})})  # fmt: skip
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
                "steps": steps, "rule": plan["rule"]}  # fmt: skip
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
    found += [{"command": f"{remote} wait --seconds 560", "carry": [], "timeout_s": 580, "bytes": tree,
               "expected_s": "until an adapter is done, or all steps are over: again until then"}]  # fmt: skip
    names = [
        one["name"] for one in manifest["steps"] if f"{{lent}}/adapters/{one['name']}/job.json" in one.get("makes", [])
    ]
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
    if (danger := HOME / "adapters" / "danger").is_dir():  # what `compeer.safety.reader.reader_of` looks for
        (danger / "reader.json").write_text(json.dumps(taught(), ensure_ascii=False), "utf-8")
    return {name: len(lines_of(HOME / "results" / f"{name}.jsonl")) for name in found}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["pack", "calls", "hide", "show", "unpack", "reading", "judged"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rows-only", action="store_true")
    parser.add_argument("--gguf", type=Path, default=None)
    parser.add_argument("--esconv", type=Path, default=ROOT.parent / "shared" / "data" / "esconv")
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
    elif args.do == "reading":
        print("\n".join(reading_files()))
    else:
        args.files[1].write_text(json.dumps(judged(args.files[0]), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
