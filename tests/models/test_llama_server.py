"""Opening and closing llama.cpp, in processes of their own: a lost stop hangs where no time-out of pytest can reach."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compeer.models.llama_server import LlamaServer
from compeer.models.request import ModelError
from compeer.models.weights import locate

OPEN_AND_CLOSE = """
import sys, time
from pathlib import Path
from compeer.models.llama_server import LlamaServer
begun, rounds = time.monotonic(), 0
while rounds < 100 and (rounds < 40 or time.monotonic() - begun < 60):
    LlamaServer(Path(sys.argv[1]), slots=1, context=256, brief=True, n_threads=1).close()
    rounds += 1
print(rounds)
"""

OPEN = """
import sys
from pathlib import Path
from compeer.models.llama_server import LlamaServer
print("opening", flush=True)
server = LlamaServer(Path(sys.argv[1]), n_threads=1)
print("open", flush=True)
sys.stdin.read()
"""

READ_A_LONG_PROMPT = """
import asyncio
from compeer.models.embedded import Embedded
from compeer.models.request import Request
async def main():
    model = Embedded()
    model.load()
    print("reading", flush=True)
    await model.ask(Request(messages=[{"role": "user", "content": "A long story. " * 1900}], max_tokens=1000))
asyncio.run(main())
"""


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Two processes that spin."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for process in spinning:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("busy_cores")
@pytest.mark.timeout(200)
def test_a_stop_right_after_opening_is_not_lost(tiny_gguf: Path) -> None:
    """Without the first task that makes a server count as open, this hangs within a few rounds."""
    command = [sys.executable, "-c", OPEN_AND_CLOSE, str(tiny_gguf)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    assert int(done.stdout) >= 40


@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.2, 0.4])
def test_ctrl_c_while_it_loads(after: float) -> None:
    with _running(OPEN, str(locate())) as process:
        assert _line(process) == "opening"
        time.sleep(after)  # a moment in the middle of loading, which takes about half a second
        assert _seconds_to_end(process) < 8
        assert process.returncode != 0


def test_ctrl_c_while_it_reads_a_long_prompt() -> None:
    with _running(READ_A_LONG_PROMPT) as process:
        assert _line(process) == "reading"
        time.sleep(0.3)
        assert _seconds_to_end(process) < 8
        assert process.returncode in (1, 130, -signal.SIGINT)


def test_a_program_that_never_closes_ends(tiny_gguf: Path) -> None:
    with _running(OPEN, str(tiny_gguf)) as process:
        output, _ = process.communicate(timeout=60)
        assert output.split() == ["opening", "open"]
        assert process.returncode == 0


def test_closed_is_closed(tiny_gguf: Path) -> None:
    with closing(LlamaServer(tiny_gguf, slots=1, context=256, n_threads=1)) as server:
        assert server.request("GET", "/lora-adapters") == []
    with pytest.raises(ModelError, match="closed"):
        server.request("GET", "/lora-adapters")
    with pytest.raises(ModelError, match="closed"):
        server.complete({"prompt": "x", "max_tokens": 1}, lambda chunk: False)


def test_closing_ends_an_answer_at_its_next_token(tiny_gguf: Path) -> None:
    server = LlamaServer(tiny_gguf, slots=1, context=2048, n_threads=1)
    chunks = []

    def deliver(chunk: dict[str, object]) -> bool:
        chunks.append(chunk)
        server.close()
        return False

    with pytest.raises(ModelError, match="closed while it answered"):
        server.complete({"prompt": "x", "max_tokens": 1500, "stream": True, "ignore_eos": True}, deliver)
    assert len(chunks) == 1
    assert server.busy == 0


def _running(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _seconds_to_end(process: subprocess.Popen[str]) -> float:
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return time.monotonic() - begun
