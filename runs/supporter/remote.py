"""On the lent machine: pieces arrive, steps run in the background, results are copied to $OUT while they are made.

    python3 remote.py take PIECE… [--seconds N]    moves pieces out of the tree; the piece `head` starts the conductor
    python3 remote.py wait --seconds N             copies results to $OUT; ends with an adapter that was not brought
                                                   yet, and brings it, or when all steps are over, or the time is
    python3 remote.py fetch ADAPTER…               adapters as pieces of 15 MB in $OUT, at most 60 MB a call
    python3 remote.py retry STEP…                  starts failed steps again

Everything lies in one folder (`LENT`, ~/lent): pieces/, files/ (the unpacked head, with this program), base.gguf,
base/, overlay/, adapters/, results/, steps/. The conductor is one process in a session of its own, so that it outlives
the call. It reads files/manifest.json and starts a step, in the order of that file, once

- the steps named in `after` are done and those in `once_over` are done or failed,
- the memory it declares (`gib`) is free: beside what the running steps have declared, and in fact. Where the
  accounts allow it and the memory is not free in fact, it is started after a minute all the same,
- there is time for it: `least` seconds before the deadline, 30 if it does not say.

A step is ended, with its children, after `seconds`. One that fails is tried again once (`tries`). The state of each is
steps/NAME.json, its output steps/NAME.log. A conductor that is started twice goes on where the first one was.

Standard library only: nothing is installed there before the pieces have come.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LENT = Path(os.environ.get("LENT", Path.home() / "lent"))
HERE = Path(__file__).resolve().parent
MOST_BYTES = 15_000_000  # of a file that comes back
PAUSE = float(os.environ.get("LENT_PAUSE", "0.5"))
GRACE = float(os.environ.get("LENT_GRACE", "30"))  # a step should end itself before it is ended


def manifest() -> dict[str, Any]:
    return json.loads((LENT / "files" / "manifest.json").read_text("utf-8"))  # type: ignore[no-any-return]


def written(path: Path, value: Any) -> None:
    """JSON in a file that is there at once, so that a reader never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(value), "utf-8")
    new.replace(path)


def state_of(step: str) -> dict[str, Any]:
    path = LENT / "steps" / f"{step}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {"state": "waiting"}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- pieces --------------------------------------------------------------------------------------------------------


def take(paths: list[Path], seconds: float) -> None:
    """Pieces out of the tree; each is compared with its hash, which came with the head."""
    for path in paths:
        kept = LENT / "pieces" / path.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        arriving = kept.with_name(f".{path.name}")
        shutil.copyfile(path, arriving)
        if path.name == "head.tar.gz":
            with tarfile.open(arriving) as head:
                head.extractall(LENT / "files.new", filter="data")
            shutil.copytree(
                LENT / "files.new", LENT / "files", ignore=shutil.ignore_patterns("manifest.json"), dirs_exist_ok=True
            )
            (LENT / "files.new" / "manifest.json").replace(LENT / "files" / "manifest.json")  # last, and at once
            arriving.replace(kept)
            written(LENT / "deadline.json", {"at": time.time() + seconds})
            share_gpu()
            conduct_in_background()
            continue
        wanted = manifest()["pieces"][path.name]["sha256"]
        found = hashlib.sha256(arriving.read_bytes()).hexdigest()
        if found != wanted:
            arriving.unlink()
            raise SystemExit(f"{path.name} arrived damaged ({found[:12]} instead of {wanted[:12]}): send it again")
        arriving.replace(kept)
    report()


def share_gpu() -> None:
    """NVIDIA's MPS, so that several processes compute at the same time; without it they take turns."""
    if shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], stdin=subprocess.DEVNULL, capture_output=True, check=False)


class Arriving(io.RawIOBase):
    """The pieces of one part as one stream, each waited for."""

    def __init__(self, part: str) -> None:
        self.names = list(manifest()["parts"][part]["pieces"])
        self.file: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self.file is None:
                if not self.names:
                    return 0
                path = LENT / "pieces" / self.names[0]
                while not path.exists():
                    time.sleep(PAUSE / 5)
                self.file = path.open("rb")
            got = self.file.readinto(buffer)
            if got:
                return int(got)
            self.file.close()
            self.names.pop(0)
            self.file = None


def join(part: str, out: Path) -> None:
    """The pieces as one file that has its full length from the start; `out`.at says how many bytes are there."""
    wanted = manifest()["parts"][part]
    digest, at = hashlib.sha256(), 0
    with out.open("wb") as file:
        file.truncate(wanted["bytes"])
        stream = Arriving(part)
        while block := stream.read(8_000_000):
            file.write(block)
            file.flush()
            digest.update(block)
            at += len(block)
            written(Path(f"{out}.at"), at)
    if digest.hexdigest() != wanted["sha256"]:
        raise SystemExit(f"{out} has another hash than the file that was cut")


def overlay(part: str, out: Path) -> None:
    """Wheels from a tar of wheels into one folder for PYTHONPATH, each unpacked as soon as it is there."""

    def unpack(content: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            for name in wheel.namelist():
                inside = name.split("/")
                if inside[0].endswith(".data"):  # purelib and platlib belong to the folder itself; scripts are not used
                    if inside[1] not in ("purelib", "platlib"):
                        continue
                    inside = inside[2:]
                if not name.endswith("/"):
                    target = out.joinpath(*inside)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(wheel.read(name))

    with ThreadPoolExecutor(8) as pool, tarfile.open(fileobj=io.BufferedReader(Arriving(part)), mode="r|") as wheels:
        made = [pool.submit(unpack, wheels.extractfile(one).read()) for one in wheels]  # type: ignore[union-attr]
        for one in made:
            one.result()


# --- processes and memory -------------------------------------------------------------------------------------------


def members(first: int) -> list[int]:
    """The processes of a session that we have begun, and those that descend from them (a launcher gives its workers
    sessions of their own), without those that have ended."""
    known: dict[int, tuple[int, int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            known[int(folder.name)] = (int(fields[1]), int(fields[3]), fields[0])
    ours = {one for one, (_, session, _) in known.items() if one == first or session == first}
    while more := {one for one, (parent, _, _) in known.items() if parent in ours} - ours:
        ours |= more
    return [one for one in ours if known[one][2] != "Z"]


def end(process: int) -> None:
    """A process that we have started, with its children."""
    ours = members(process)  # once: when a launcher has ended, its workers are nobody's children
    for how, pause in ((signal.SIGTERM, 6.0), (signal.SIGKILL, 3.0)):
        for one in filter(alive, ours):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, how)
        until = time.time() + pause
        while any(map(alive, ours)) and time.time() < until:
            time.sleep(0.2)


def query(*words: str) -> str:
    try:
        return subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def gib(what: str) -> float:
    """`free` or `total` memory of the GPU; where there is none, what LENT_GIB says."""
    told = query(f"--query-gpu=memory.{what}", "--format=csv,noheader,nounits").strip()
    return int(told) / 1024 if told.isdigit() else float(os.environ.get("LENT_GIB", "1e9"))


# --- the conductor -------------------------------------------------------------------------------------------------


def conduct_in_background() -> None:
    known = LENT / "conductor.json"
    if known.exists() and alive(json.loads(known.read_text("utf-8"))["pid"]):
        return
    with (LENT / "conductor.log").open("ab") as log:
        one = subprocess.Popen(
            [sys.executable, str(LENT / "files" / "remote.py"), "conduct"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    written(known, {"pid": one.pid})


def left() -> float:
    return float(json.loads((LENT / "deadline.json").read_text("utf-8"))["at"]) - time.time()


def conduct() -> None:
    """Starts steps until all are over. Steps of a conductor that was killed are found by their process ids."""
    running: dict[str, subprocess.Popen[bytes] | int] = {
        step["name"]: state_of(step["name"])["pid"] for step in manifest()["steps"]
        if state_of(step["name"])["state"] == "running"
    }  # fmt: skip
    waits: dict[str, float] = {}  # since when a step waits for memory that should be there
    total = gib("total") - 4
    while True:
        steps = {one["name"]: one for one in manifest()["steps"]}  # a head may be new
        for name, process in list(running.items()):
            known = state_of(name)
            if time.time() - known["began"] > steps[name].get("seconds", 1e9) + GRACE or left() < -10:
                written(LENT / "steps" / f"{name}.json", known | {"tries": 99, "why": "its time was over"})
                end(process.pid if isinstance(process, subprocess.Popen) else process)
            ended = process.poll() is not None if isinstance(process, subprocess.Popen) else not alive(process)
            if ended:
                finish(steps[name], process)
                del running[name]
        states = {name: state_of(name)["state"] for name in steps}
        if all(one in ("done", "failed") for one in states.values()):
            return
        for name, step in steps.items():
            if states[name] != "waiting" or name in running:
                continue
            needed = [states[one] for one in step.get("after", [])]
            short = left() < step.get("least", 30)
            if "failed" in needed or short:
                why = "no time" if short else "a step that it needs has failed"
                written(LENT / "steps" / f"{name}.json", {"state": "failed", "why": why})
                mark_failed(step)
            elif all(one == "done" for one in needed) and all(
                states[one] in ("done", "failed") for one in step.get("once_over", [])
            ):
                wanted = step.get("gib", 0)
                if wanted and wanted + sum(steps[one].get("gib", 0) for one in running) > total:
                    continue
                if wanted and gib("free") < wanted and time.time() - waits.setdefault(name, time.time()) < 60:
                    continue
                running[name] = begin(step, state_of(name).get("tries", 0))
        time.sleep(PAUSE)


def begin(step: dict[str, Any], tries: int) -> subprocess.Popen[bytes]:
    """One step as a process; its job file gets the seconds that are left, and the memory that it may take."""
    command = [word.replace("{lent}", str(LENT)) for word in step["run"]]
    (LENT / "steps").mkdir(exist_ok=True)
    if "job" in step:
        text = json.dumps(step["job"]).replace("{lent}", str(LENT))
        job = {**json.loads(text), "seconds": max(1, min(left(), step.get("seconds", left())))}
        file = LENT / "steps" / f"{step['name']}.job"
        written(file, job | ({"gib": step["gib"]} if "gib" in step else {}))
        command.append(str(file))
    folders = [str(LENT / one) for one in step.get("path", [])] + [os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": ":".join(filter(None, folders)), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1",
           "TOKENIZERS_PARALLELISM": "false"}  # fmt: skip
    if command[0] == "device.py":  # several trainings share the memory; vLLM wants the other allocator
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    with (LENT / "steps" / f"{step['name']}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(HERE / command[0]), *command[1:]], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True, env=env,
        )  # fmt: skip
    written(
        LENT / "steps" / f"{step['name']}.json",
        {"state": "running", "pid": process.pid, "began": time.time(), "tries": tries + 1},
    )
    return process


def finish(step: dict[str, Any], process: subprocess.Popen[bytes] | int) -> None:
    """Done, failed, or once more. Of a process of an earlier conductor only what it left behind is known (`makes`)."""
    known = state_of(step["name"])
    made = all(Path(one.replace("{lent}", str(LENT))).exists() for one in step.get("makes", []))
    code = process.returncode if isinstance(process, subprocess.Popen) else 0 if made and step.get("makes") else 1
    if code == 0 and made:
        known |= {"state": "done"}
    elif known["tries"] >= step.get("tries", 2) or left() < 30:
        known |= {"state": "failed"}
        mark_failed(step)
    else:
        known |= {"state": "waiting"}
    written(LENT / "steps" / f"{step['name']}.json", known | {"code": code, "ended": time.time()})


def mark_failed(step: dict[str, Any]) -> None:
    """So that whoever waits for what it makes need not."""
    for one in step.get("makes", []):
        mark = Path(f"{Path(one.replace('{lent}', str(LENT))).parent}.failed")
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def retry(steps: list[str]) -> None:
    for name in steps:
        if state_of(name)["state"] == "failed":
            (LENT / "steps" / f"{name}.json").unlink()
            for one in next(step for step in manifest()["steps"] if step["name"] == name).get("makes", []):
                Path(f"{Path(one.replace('{lent}', str(LENT))).parent}.failed").unlink(missing_ok=True)
    conduct_in_background()
    report()


# --- what comes back -----------------------------------------------------------------------------------------------


class Mirror:
    """Rows of all results in $OUT/rows-K.jsonl, each file under 15 MB; whole lines only, and all of them in every call,
    so that nothing hangs on a call that was lost."""

    def __init__(self, out: Path) -> None:
        self.out, self.at, self.number, self.size = out, {}, 0, 0  # type: ignore[var-annotated]

    def copy(self) -> None:
        for path in sorted((LENT / "results").glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self.at.get(path, 0))
                new = file.read()
            new = new[: new.rfind(b"\n") + 1]
            self.at[path] = self.at.get(path, 0) + len(new)
            for line in new.splitlines(keepends=True):
                if self.size + len(line) > MOST_BYTES:
                    self.number, self.size = self.number + 1, 0
                with (self.out / f"rows-{self.number}.jsonl").open("ab") as file:
                    file.write(line)
                self.size += len(line)
        logs = [*sorted((LENT / "steps").glob("*.log")), LENT / "conductor.log"]
        ends = [
            f"=== {one.name}\n{one.read_bytes()[-20_000:].decode('utf-8', 'replace')}" for one in logs if one.exists()
        ]
        (self.out / "logs.txt").write_text("\n".join(ends), "utf-8")
        written(self.out / "states.json", {one["name"]: state_of(one["name"]) for one in manifest()["steps"]})


def unsent() -> list[str]:
    """Adapters that are done and were not brought; two fit into a call, beside the rows."""
    done = sorted((LENT / "adapters").glob("*/job.json"), key=lambda path: path.stat().st_mtime)
    names = [path.parent.name for path in done if path.parent.suffix != ".part"]  # `save` renames when all is there
    return [name for name in names if not (LENT / "adapters" / f"{name}.sent").exists()][:2]


def wait(seconds: float) -> None:
    """Copies while it waits. Ends with a new adapter, when all steps are over, or 20 s before the call does."""
    conduct_in_background()  # it may have been killed; a running one stays
    began, mirror = time.time(), Mirror(Path(os.environ["OUT"]))
    while True:
        over = all(state_of(one["name"])["state"] in ("done", "failed") for one in manifest()["steps"])
        mirror.copy()
        if over or unsent() or time.time() - began > seconds - 20:
            break
        time.sleep(PAUSE * 2)
    fetch(unsent())


def fetch(names: list[str]) -> None:
    """Adapters in one tar, cut into files that may come back."""
    out = Path(os.environ["OUT"])
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in names:
            tar.add(LENT / "adapters" / name, name)
    content = packed.getvalue() if names else b""
    if len(content) > 4 * MOST_BYTES:
        raise SystemExit(f"{len(content):,} bytes are more than one call brings back: fetch fewer adapters")
    digest = hashlib.sha256(content).hexdigest()[:16]
    for number, start in enumerate(range(0, len(content), MOST_BYTES)):
        (out / f"adapters-{digest}-{number}.tar").write_bytes(content[start : start + MOST_BYTES])
    for name in names:
        (LENT / "adapters" / f"{name}.sent").touch()
        print("brought:", name)
    report()


def report() -> None:
    here = sorted(path.name for path in (LENT / "pieces").iterdir() if not path.name.startswith("."))
    print(f"{len(here)} of {len(manifest()['pieces']) + 1} pieces;", end=" ")
    print(f"{left():.0f} s to the deadline")
    if error := (LENT / "conductor.log").read_text("utf-8").strip():
        print("conductor:", error[-1500:])
    for step in manifest()["steps"]:
        known, log = state_of(step["name"]), LENT / "steps" / f"{step['name']}.log"
        said = log.read_text("utf-8", "replace").strip().splitlines()[-1:] if log.exists() else []
        print(f"{step['name']:16} {known['state']:8} {' '.join(said)[-150:]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=["take", "wait", "fetch", "retry", "conduct", "join", "overlay"])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--seconds", type=float, default=1500)
    args = parser.parse_args()
    if args.do == "take":
        take([Path(one) for one in args.what], args.seconds)
    elif args.do == "wait":
        wait(args.seconds)
    elif args.do in ("join", "overlay"):
        {"join": join, "overlay": overlay}[args.do](args.what[0], Path(args.what[1]))
        Path(f"{args.what[1]}.whole").touch()
    elif args.do == "conduct":
        conduct()
    else:
        {"fetch": fetch, "retry": retry}[args.do](args.what)


if __name__ == "__main__":
    main()
