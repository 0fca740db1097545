"""A red-team of whole conversations at risk, through the three ways a person meets the program.

    python -m runs.safety.redteam SCRIPTS.jsonl OUT.jsonl --model embedded

Each script is the seeker's side of one conversation (`{"id", "language", "turns", "notes"}`), written before and apart
from the program. The scripts take the three doors in turn: the terminal (`compeer chat`, its real output), the server
(`compeer serve`, what any OpenAI client shows) and the page (`compeer studio`, a real browser, the text a person sees).
The transcript keeps everything that reached the person after each line, unedited. It is read by readers, not scored
here. Run again to continue: finished conversations are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DOORS = ("terminal", "server", "page")
COUNTRY = {"en": "US", "zh": "CN"}
Replies = list[str]


def in_terminal(turns: list[str], language: str, model: str) -> Replies:
    """What the terminal shows after each line."""
    command = [sys.executable, "-m", "compeer.cli", "chat", "--model", model, "--country", COUNTRY[language]]
    done = subprocess.run(
        [*command, "--seed", "7"],
        input="\n".join(turns) + "\n",
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"COLUMNS": "100", "TERM": "dumb"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    parts = re.split(r"(?m)^You  .*$", done.stdout)
    if len(parts) != len(turns) + 1:
        raise RuntimeError(f"{len(parts) - 1} answers to {len(turns)} lines:\n{done.stdout[-3000:]}")
    return [part.strip() for part in parts[1:]]


def over_http(turns: list[str], language: str, address: str) -> Replies:
    """What an ordinary OpenAI client shows: the content of each answer, nothing else."""
    messages: list[dict[str, str]] = []
    replies: Replies = []
    for line in turns:
        messages.append({"role": "user", "content": line})
        body = {"messages": messages, "seed": 7, "compeer": {"country": COUNTRY[language]}}
        request = urllib.request.Request(
            f"{address}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            content = json.load(answer)["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": content})
        replies.append(content)
    return replies


#: what a person sees on the page: the banner, where it stands, the newest turn, and what is said beside them
_SEEN = """() => {
  const seen = (one) => one && one.checkVisibility() && one.innerText.trim();
  const banner = document.querySelector("#banner");
  const parts = [];
  if (seen(banner)) {
    const first = banner.getBoundingClientRect().top <= 1;
    parts.push(`[${first ? "at the very top of the page" : "above the conversation"}] ${seen(banner)}`);
  }
  const turns = document.querySelectorAll("#turns > *");
  if (turns.length === 1) parts.unshift(seen(document.querySelector(".notice > p")));
  parts.push(seen(turns[turns.length - 1]));
  for (const beside of ["#reminder", "#trouble"]) parts.push(seen(document.querySelector(beside)));
  return parts.filter(Boolean).join("\\n\\n");
}"""


#: the turn stands there; the page gave the message back, because the studio was busy
_ANSWERED = (
    "(document.querySelectorAll('#turns .turn').length >= count && !document.querySelector('.coming')"
    " && !document.querySelector('#send').hidden)"
)
_GIVEN_BACK = "(document.querySelector('#message').value !== '' && !document.querySelector('.coming'))"


def _send(page: Any, line: str) -> None:
    """Send a line as a person does. Until the page knows its own state it takes none and leaves it in the box."""
    for _ in range(20):
        page.locator("#message").fill(line)
        page.locator("#send").click()
        try:
            page.wait_for_function("() => document.querySelector('#message').value === ''", timeout=3_000)
            return
        except Exception as error:
            if type(error).__name__ != "TimeoutError":
                raise
    raise RuntimeError("the page does not take the message")


def on_the_page(turns: list[str], language: str, address: str, browser: Any) -> Replies:
    """What a person sees on the page after each line."""
    locale = {"en": "en-US", "zh": "zh-CN"}[language]
    context = browser.new_context(locale=locale, viewport={"width": 1100, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{address}/talk", timeout=60_000)
        page.locator("#message").wait_for(timeout=60_000)
        replies: Replies = []
        for number, line in enumerate(turns, start=1):
            for _ in range(10):
                _send(page, line)
                page.wait_for_function(f"count => {_ANSWERED} || {_GIVEN_BACK}", arg=number, timeout=240_000)
                if page.evaluate(f"count => {_ANSWERED}", number):
                    break
            replies.append(str(page.evaluate(_SEEN)))
        return replies
    finally:
        context.close()


@contextmanager
def served(*words: str) -> Iterator[str]:
    """A real process that listens; its address. What it prints goes to a file: a pipe that nobody reads fills up, and
    the process stands still."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w", encoding="utf-8") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "compeer.cli", *words],
                stdout=printed,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        try:
            yield _address(process, log, 120.0)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], log: Path, seconds: float) -> str:
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        found = re.search(r"http://127\.0\.0\.1:\d+[^\s/]*", log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[0].rstrip(".,")
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError(f"it did not say where it listens:\n{log.read_text(encoding='utf-8')[-2000:]}")


def wait_ready(address: str) -> None:
    """Until the model is loaded."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(1)
    raise RuntimeError("the server did not become ready")


def run(
    scripts: list[dict[str, Any]], out: Path, model: str, doors: tuple[str, ...] = DOORS, minutes: float = 0
) -> None:
    """Play every script that is not finished, each through the next door in turn; of all doors only `doors`. After so
    many `minutes` nothing new begins. A script that fails is named and left out, and the others go on."""
    begun = time.monotonic()
    finished = {json.loads(line)["id"] for line in out.read_text("utf-8").splitlines()} if out.exists() else set()
    left = [(DOORS[place % len(DOORS)], script) for place, script in enumerate(scripts)]
    left = [(door, script) for door, script in left if door in doors and script["id"] not in finished]
    out.parent.mkdir(parents=True, exist_ok=True)

    def keep(door: str, script: dict[str, Any], play: Callable[[list[str], str], Replies]) -> None:
        if minutes and time.monotonic() - begun > minutes * 60:
            return
        try:
            shown = play(script["turns"], script["language"])
        except Exception as error:
            print(f"{script['id']} {door}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return
        turns = [{"said": said, "shown": text} for said, text in zip(script["turns"], shown, strict=True)]
        row = {"id": script["id"], "language": script["language"], "door": door, "model": model, "turns": turns}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        print(script["id"], door, len(turns), flush=True)

    for door, script in left:
        if door == "terminal":
            keep(door, script, lambda turns, language: in_terminal(turns, language, model))
    if any(door == "server" for door, _ in left):
        with served("serve", "--model", model, "--port", "0", "--no-log") as address:
            wait_ready(address)
            for door, script in left:
                if door == "server":
                    keep(door, script, lambda turns, language: over_http(turns, language, address))
    if any(door == "page" for door, _ in left):
        from playwright.sync_api import sync_playwright

        with served("studio", "--model", model, "--port", "0") as address, sync_playwright() as playwright:
            # as root it needs --no-sandbox, with little shared memory (in containers) the other, or pages stand still
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            for door, script in left:
                if door == "page":
                    keep(door, script, lambda turns, language: on_the_page(turns, language, address, browser))
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="embedded:small")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--door", choices=DOORS, action="append", help="only these doors")
    parser.add_argument("--minutes", type=float, default=0, help="begin nothing new after so many minutes")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.scripts.read_text("utf-8").splitlines() if line.strip()]
    run(rows[: given.limit], given.out, given.model, tuple(given.door or DOORS), given.minutes)


if __name__ == "__main__":
    main()
