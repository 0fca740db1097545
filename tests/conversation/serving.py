"""`compeer serve` as a test holds it: the installed command in a process of its own, asked with the openai package."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
from tests.cli.command import COMPEER, environment

Reply = tuple[int, dict[str, str], str]


class Server:
    """One server. `log` holds what it wrote to standard error."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder, self.log = process, folder, folder / "serve.log"
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line + self.log.read_text()
        self.base_url = line.removeprefix("listening on ").strip()
        self.root = self.base_url.removesuffix("/v1")

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while self.get("/health")[0] != 200:
            assert time.monotonic() < deadline and self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key=key, max_retries=0, timeout=60)

    def crowd(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=120)

    def get(self, path: str, **headers: str) -> Reply:
        return self._ask(urllib.request.Request(self.root + path, headers=headers))

    def post(self, body: Any, method: str = "POST", **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} | headers
        return self._ask(
            urllib.request.Request(f"{self.base_url}/chat/completions", data=data, headers=sent, method=method)
        )

    def metric(self, name: str, *labels: str) -> float:
        """The value of a metric, summed over the lines that carry these labels."""
        lines = [line for line in self.get("/metrics")[2].splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))

    def on_disk(self, word: str) -> list[Path]:
        """Files of this process, wherever it may write, that hold a word: home, cache, temporary files, shared memory."""
        places = [self.folder, *Path("/dev/shm").glob("compeer-*")]
        files = [file for place in places for file in place.rglob("*") if file.is_file()]
        return [file for file in files if word.encode() in file.read_bytes()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def _ask(self, request: urllib.request.Request) -> Reply:
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, dict(response.headers), response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()


@contextlib.contextmanager
def serving(folder: Path, *words: str, wait: bool = True, **env: str) -> Iterator[Server]:
    """`compeer serve WORDS` on a free port, with its caches and its log in `folder`."""
    cores = sorted(os.sched_getaffinity(0))
    homes = {name: str(folder) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    with (folder / "serve.log").open("w") as errors:
        process = subprocess.Popen(
            [COMPEER, "serve", "--port=0", *words],
            env=environment(COMPEER_CACHE=str(folder / "cache"), COMPEER_THREADS="1", **homes, **env),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cores[-1]}),
        )
        try:
            server = Server(process, folder)
            if wait:
                server.wait_until_ready()
            yield server
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
