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


def on_the_page(turns: list[str], language: str, address: str, browser: Any) -> Replies:
    """What a person sees on the page after each line."""
    locale = {"en": "en-US", "zh": "zh-CN"}[language]
    context = browser.new_context(locale=locale, viewport={"width": 1100, "height": 900})
    try:
        page = context.new_page()
        page.goto(address)
        page.goto(address.split("?")[0].rstrip("/") + "/talk/" if "/talk" not in page.url else page.url)
        page.locator("#message").wait_for(timeout=30_000)
        replies: Replies = []
        for number, line in enumerate(turns, start=1):
            page.locator("#message").fill(line)
            page.locator("#send").click()
            page.wait_for_function(
                "count => document.querySelectorAll('#turns .turn').length >= count"
                " && !document.querySelector('.coming') && !document.querySelector('#send').hidden",
                arg=number,
                timeout=300_000,
            )
            replies.append(str(page.evaluate(_SEEN)))
        return replies
    finally:
        context.close()


@contextmanager
def served(*words: str) -> Iterator[str]:
    """A real process that listens; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "compeer.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+\S*", line)
            if found:
                yield found[0].rstrip(".,").removesuffix("/v1")
                return
        raise RuntimeError(f"compeer {' '.join(words)} did not say where it listens")
    finally:
        process.terminate()
        process.wait(60)


def wait_ready(address: str) -> None:
    """Until the model is loaded."""
    import time

    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(1)
    raise RuntimeError("the server did not become ready")


def run(scripts: list[dict[str, Any]], out: Path, model: str, doors: tuple[str, ...] = DOORS) -> None:
    """Play every script that is not finished, each through the next door in turn."""
    finished = {json.loads(line)["id"] for line in out.read_text("utf-8").splitlines()} if out.exists() else set()
    left = [(doors[place % len(doors)], script) for place, script in enumerate(scripts)]
    left = [(door, script) for door, script in left if script["id"] not in finished]
    out.parent.mkdir(parents=True, exist_ok=True)

    def keep(door: str, script: dict[str, Any], play: Callable[[list[str], str], Replies]) -> None:
        shown = play(script["turns"], script["language"])
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
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
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
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.scripts.read_text("utf-8").splitlines() if line.strip()]
    run(rows[: given.limit], given.out, given.model, tuple(given.door or DOORS))


if __name__ == "__main__":
    main()
