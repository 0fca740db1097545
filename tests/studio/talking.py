"""`compeer studio` in a process of its own with models to talk with, and what one does on its page."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.cli.command import COMPEER, environment
from tests.conversation.supporter import Supporter

from compeer.models import shipped

#: two models behind the scripted server, and the one that comes along, which cannot see
MODELS = ("openai:kind-7b", "openai:other-7b", "embedded:small")


class Running(msgspec.Struct):
    """The process, its address, and every folder that it could write to."""

    address: str
    process: subprocess.Popen[str]
    home: Path


@contextlib.contextmanager
def talking(
    home: Path, supporter: Supporter, *words: str, models: tuple[str, ...] = MODELS, **more: str
) -> Iterator[Running]:
    """The studio with the room Talk; its data, its home, its temporary files and its log lie below `home`. `more`:
    environment variables."""
    for name in ("data", "tmp", "home"):
        (home / name).mkdir(parents=True, exist_ok=True)
    given = [word for model in models for word in ("--model", model)]
    command = [COMPEER, "studio", "--port", "0", "--data", str(home / "data"), *given, *words]
    own = {"HOME": str(home / "home"), "TMPDIR": str(home / "tmp"), "OPENAI_BASE_URL": supporter.base_url}
    kept = {name: value for name, value in os.environ.items() if name == "COMPEER_EMBEDDED"}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            env=environment(**own, **kept, **more),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=home / "home",
        )
        try:
            assert process.stdout
            said = process.stdout.readline()
            assert said, (home / "log").read_text()
            yield Running(said.split()[-1], process, home)
        finally:
            process.terminate()
            process.wait(20)
            if process.stdout:
                process.stdout.close()


def measured_adapters(folder: Path) -> Path:
    """The shipped adapter of the small model, with a record of how far pins steer its replies."""
    made = folder / "adapters" / "supporter"
    made.mkdir(parents=True)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (made / name).symlink_to(Path(shipped.__file__).parent / "supporter" / name)
    (made / "steering.json").write_text(
        '{"share": 0.74, "low": 0.66, "high": 0.81, "n": 120, "readers": 2, "date": "2026-11-18"}'
    )
    return made.parent


def open_room(page: Any) -> None:
    page.goto("/talk")
    page.locator("#room[data-ready]").wait_for()


def send(page: Any, text: str, *, wait: bool = True) -> None:
    """Write and press Enter; wait until the answer stands there."""
    answers = page.locator(".turn .answer:not(.coming, .old)")
    before = answers.count()
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
    if wait:
        answers.nth(before).wait_for()
        idle(page)


def idle(page: Any) -> None:
    """Wait until nothing is being written."""
    page.locator("#room:not(.writing)").wait_for(timeout=60_000)


def reply(page: Any) -> str:
    """The latest answer's words."""
    return str(page.locator(".turn").last.locator(".answer:not(.old) .reply").first.inner_text())
