"""The scripted endpoint as a test holds it: started, asked what it has done, stopped or killed, started again.

with ScriptedEndpoint(answer="json", fail_every=10, by="hash", log=folder / "answered.jsonl") as endpoint:
    model = open_model("openai:scripted", base_url=endpoint.base_url)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """The environment in which a subprocess finds both `tests` and `compeer`."""
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "src")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


class ScriptedEndpoint:
    """One server process. Options are those of `scripted`, with underscores."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def start(self) -> ScriptedEndpoint:
        """Start, or start again at the same port after `kill`."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        command = [sys.executable, "-m", "tests.endpoints.scripted", *words]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the scripted endpoint did not start: {line!r}")
        self.base_url = line.removeprefix("listening on ").strip()
        self.options["port"] = int(self.base_url.removesuffix("/v1").rpartition(":")[2])
        return self

    def kill(self) -> None:
        """kill -9, as a machine that loses power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def counters(self) -> dict[str, int]:
        """What it has done since it was started: requests, answered, failed, broken_contents, most_in_flight, …"""
        with urllib.request.urlopen(self.base_url.removesuffix("/v1") + "/counters", timeout=10) as response:
            told: dict[str, int] = json.load(response)
        return told

    def answered(self) -> list[str]:
        """Hashes of the requests it answered, over all its lives, from the log."""
        log = Path(self.options["log"])
        return [json.loads(line)["body"] for line in log.read_text().splitlines()] if log.exists() else []

    def __enter__(self) -> ScriptedEndpoint:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
