"""The installed command in a process of its own, away from this machine's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPEER = str(Path(sys.executable).parent / "compeer")


def environment(**more: str) -> dict[str, str]:
    """This environment without settings of ours; what is passed on top of it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "COMPEER_", "COLUMNS", "LINES"))
    }
    return kept | {"LANG": "C.UTF-8", "COLUMNS": "80"} | more


def compeer(
    *words: str, said: bytes = b"", seconds: float = 300, env: dict[str, str] | None = None, core: int = -1
) -> subprocess.CompletedProcess[str]:
    """Run `compeer WORDS` with these environment variables and this on standard input."""
    # on one core: the embedded model then decodes in one thread, which on a busy machine is many times faster
    cores = sorted(os.sched_getaffinity(0))
    done = subprocess.run(
        [COMPEER, *words],
        input=said,
        env=environment(**(env or {})),
        capture_output=True,
        timeout=seconds,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[core]}),
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
