"""The judge's service as a test holds it: a process that is started, questioned, spoilt, killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tests.endpoints.process import ROOT, environment

from compeer.cer import gold
from compeer.reward.case import Case, case_of


def gold_cases(count: int, candidates: int = 1) -> list[Case]:
    """Cases of the gold set; with several candidates a history, those stand next to each other."""
    items = list(gold.load())[: -(-count // candidates)]
    cases = [
        case_of(item) if turn == 0 else _other(case_of(item), turn) for item in items for turn in range(candidates)
    ]
    return cases[:count]


def _other(case: Case, turn: int) -> Case:
    import msgspec

    return msgspec.structs.replace(case, id=f"{case.id}/{turn}", reply=f"{case.reply} ({turn})")


class JudgeProcess:
    """One service. Options are those of the module, with underscores."""

    def __init__(self, module: Sequence[str] = ("-m", "tests.reward.rule_judge"), **options: Any) -> None:
        self.module, self.options = module, options
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self, wait: bool = True) -> JudgeProcess:
        """Start, or start again at the same port."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        command = [sys.executable, *self.module, *words]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment() | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.removeprefix("listening on ").strip()
        self.options["port"] = int(self.url.rpartition(":")[2])
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while self.get("/health")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def get(self, path: str, key: str | None = None) -> tuple[int, str]:
        return self._ask(urllib.request.Request(self.url + path), key)

    def post(self, path: str, body: Any, key: str | None = None, kind: str = "application/json") -> tuple[int, str]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask(urllib.request.Request(self.url + path, data=data, headers={"Content-Type": kind}), key)

    def _ask(self, request: urllib.request.Request, key: str | None) -> tuple[int, str]:
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def fault(self, name: str) -> None:
        assert self.post(f"/fault/{name}", b"{}")[0] == 200

    def metric(self, name: str) -> float:
        """The value of a metric, summed over its labels."""
        page = self.get("/metrics", self.options.get("key"))[1]
        lines = [line for line in page.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def __enter__(self) -> JudgeProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
