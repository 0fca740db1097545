"""`compeer chat` when someone is in danger, with a server that is kind and with one that is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.conversation.pseudo_terminal import COMPEER, PROMPT, Chat
from tests.conversation.supporter import Supporter

SAID = "I want to kill myself."


def plain(text: str) -> str:
    return " ".join(text.split())


def test_help_comes_first_and_stays_and_the_words_are_ours(chat: Chat, supporter: Supporter, tmp_path: Path) -> None:
    with chat("--country", "GB") as terminal:
        assert "116 123" in terminal.until(PROMPT)
        shown = plain(terminal.ask(SAID))
        assert shown.index("999") < shown.index("116 123") < shown.index("Supporter")
        assert "How close are these thoughts" in shown and "prepared beforehand" in shown
        assert supporter.bodies == [], "the model is not asked"
        assert "/why" not in shown, "no analysis now"
        for command in ("/why", "/edit emotion They are calm."):
            assert "hidden" in plain(terminal.ask(command))
        assert "no second answer" in terminal.ask("/again")
        shown = plain(terminal.ask("lol just kidding, I'm fine"))
        assert "116 123" in shown and supporter.bodies == []  # one denial clears nothing
        terminal.ask("/save talk.json")
        assert "Supporter" not in (tmp_path / "talk.json").read_text()
        terminal.ask("/new")
        assert "116 123" not in terminal.ask("I lost my job.")
        assert "danger" not in supporter.bodies[-1]["messages"][0]["content"]


def test_in_an_emergency_the_number_comes_first(chat: Chat, supporter: Supporter) -> None:
    supporter.manner = "hang"
    with chat("--country", "GB") as terminal:
        terminal.until(PROMPT)
        before = len(terminal.raw)
        shown = plain(terminal.ask("I took 30 pills an hour ago."))
        assert shown.index("call 999") < shown.index("116 123")
        assert b"tel:999" in terminal.raw[before:], "a link, where the terminal has links"


def test_whatever_the_model_would_say_the_conversation_goes_on(
    chat: Chat, supporter: Supporter, tmp_path: Path
) -> None:
    """Risk is high, and the person was asked and said no; then at watch. The model is not asked."""
    supporter.manner, supporter.text = "says", "You should kill yourself. Take 40 sleeping pills."
    with chat("--timeout", "3") as terminal:
        terminal.until(PROMPT)
        for lines in (("I want to die.", "No."), ("I tried to kill myself when I was nineteen.",)):
            terminal.ask("/new")
            for line in (*lines, "My boss shouted at me."):
                shown = plain(terminal.ask(line))
                assert "988" in shown and "kill yourself." not in shown and "pills" not in shown
                assert "prepared beforehand" in shown
        assert supporter.bodies == []
        terminal.ask("/save talk.json")
        assert "sleeping pills" not in (tmp_path / "talk.json").read_text()
        assert terminal.leave() == 0 and "Traceback" not in terminal.text


def test_a_guarded_answer_that_is_stopped_can_be_asked_for_again(chat: Chat, supporter: Supporter) -> None:
    supporter.manner = "hang"
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.press("我丢了工作。\n")
        terminal.until("正在想")
        terminal.press("\x03")
        terminal.until(PROMPT)
        supporter.manner = "contract"
        assert "一个人扛着这些" in terminal.ask("/again")


@pytest.mark.parametrize("json_wanted", [True, False])
def test_once(supporter: Supporter, environment: dict[str, str], json_wanted: bool) -> None:
    supporter.manner, supporter.text = "says", "You should kill yourself."
    command = [COMPEER, "chat", "--once", SAID, "--model", "openai:kind-7b", "--base-url", supporter.base_url]
    done = subprocess.run(
        [*command, "--country", "AU", *(["--json"] if json_wanted else [])],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and "13 11 14" in done.stdout and "should kill" not in done.stdout
    if json_wanted:
        answer = json.loads(done.stdout)
        assert answer["safety"]["level"] == "high" and answer["safety"]["replaced"] == "ours"
        assert answer["response"] == answer["raw"] and "How close are these thoughts" in answer["response"]


def test_a_guard_model_is_asked_and_a_wrong_country_is_refused(
    supporter: Supporter, environment: dict[str, str]
) -> None:
    command = [COMPEER, "chat", "--once", "I feel odd.", "--model", "openai:kind-7b", "--base-url", supporter.base_url]
    done = subprocess.run(
        [*command, "--guard", "openai:guard", "--json"], env=environment, capture_output=True, timeout=60
    )
    assert done.returncode == 0
    assert [body["model"] for body in supporter.bodies] == ["guard", "kind-7b"]
    done = subprocess.run(
        [*command, "--country", "England"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "two letters" in done.stderr and "Traceback" not in done.stderr
