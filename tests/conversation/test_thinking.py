"""How much a model thinks: off, brief and full, from the command line, in the terminal and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.cli.command import compeer
from tests.conversation.pseudo_terminal import PROMPT, Chat
from tests.conversation.serving import Server, serving
from tests.conversation.supporter import Supporter

from compeer.models import request_for
from compeer.reasoning import Control, Pins
from compeer.reasoning.grammar import Prose, forced_end, reply_plan, strategy_in_words
from compeer.reasoning.schema import write_value

DIRECTLY = "Reply directly, without writing down your thinking."


def once(supporter: Supporter, *words: str) -> dict[str, Any]:
    where = ("--model", "openai:kind-7b", "--base-url", supporter.base_url)
    done = compeer("chat", "--once", "I lost my job.", *where, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def system(supporter: Supporter) -> str:
    return str(supporter.bodies[-1]["messages"][0]["content"])


class TestRequest:
    def test_off_says_pins_in_words(self) -> None:
        request = request_for([], "en", Control(Pins(stage="action")), think="off")
        assert request.plan is None
        told = request.messages[0]["content"]
        assert DIRECTLY in told and "Stage: action" in told and "<think>" not in told

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_off_keeps_a_pinned_strategy_by_the_replys_own_grammar(self, language: Any) -> None:
        control, said = (
            Control(Pins(stage="action", strategy="question")),
            {"role": "user", "content": "I lost my job."},
        )
        request = request_for([said], language, control, think="off")
        assert request.plan == reply_plan(language, control)
        system, last = (str(message["content"]) for message in request.messages)
        assert strategy_in_words("question", language).how in last and last.startswith("I lost my job.")
        assert write_value("stage", "action", language) in system, "other pins are said in words"
        pictured = {"role": "user", "content": [{"type": "image", "path": "a.png"}]}
        parts = request_for([pictured], language, control, think="off").messages[1]["content"]
        assert parts[0] == pictured["content"][0] and strategy_in_words("question", language).how in parts[1]["text"]  # type: ignore[index]

    def test_brief_bounds_the_steps_and_not_the_reply(self) -> None:
        def bounds(think: Any) -> list[int]:
            return [part.most for part in request_for([], "en", think=think).plan or () if isinstance(part, Prose)]

        full, brief = bounds("full"), bounds("brief")
        assert len(full) == len(brief) == 4 and full[3] == brief[3]
        assert all(short < long / 2 for short, long in zip(brief[:3], full[:3], strict=True))

    @pytest.mark.parametrize("brief", [True, False])
    def test_an_end_that_the_grammar_forces_is_known(self, brief: bool) -> None:
        plan = request_for([], "en", think="brief" if brief else "full").plan or ()
        prose = next(part for part in plan if isinstance(part, Prose))
        longest = "a" * (1 + prose.opening + prose.most) + "."
        assert forced_end(longest, "en", step=True, brief=brief)
        assert not forced_end(longest[1:], "en", step=True, brief=brief)


class TestOff:
    def test_once_a_reply_is_all_that_is_wanted(self, supporter: Supporter) -> None:
        supporter.manner, supporter.text = "says", "That is hard. Who knows of it?"
        answer = once(supporter, "--think", "off", "--pin", "strategy=question")
        assert len(supporter.bodies) == 1, "nothing is missing, so it is not asked again"
        assert answer["complete"] and answer["problems"] == [] and answer["response"] == supporter.text
        assert answer["strategy"] is None and set(answer["reasoning"].values()) == {None}
        last = str(supporter.bodies[-1]["messages"][-1]["content"])
        assert strategy_in_words("question", "en").how in last, "what is asked for stands at the end"

    def test_thinking_that_comes_all_the_same_is_not_shown(self, supporter: Supporter) -> None:
        answer = once(supporter, "--think", "off")
        assert answer["response"].startswith("That sounds heavy") and answer["emotion"] is None

    def test_in_the_terminal(self, chat: Chat, supporter: Supporter) -> None:
        with chat("--think", "off") as terminal:
            terminal.until(PROMPT)
            supporter.manner, supporter.text = "says", "That is hard."
            shown = terminal.ask("I lost my job.")
            assert "Supporter  That is hard." in shown and "/why" not in shown and "not complete" not in shown
            assert "It did not think before this reply." in terminal.ask("/why")
            assert "Write /think full, /think brief, /think off. Now it is off." in terminal.ask("/think much")
            assert "Thinking: full." in terminal.ask("/think full")
            supporter.manner = "contract"
            assert "shame 4/5" in terminal.ask("I have told nobody.")
            assert DIRECTLY not in system(supporter)

    def test_over_http_a_request_says_it_and_the_server_has_a_default(
        self, supporter: Supporter, tmp_path: Path
    ) -> None:
        supporter.manner, supporter.text = "says", "That is hard."
        where = ("--model=openai:kind-7b", f"--base-url={supporter.base_url}", "--no-notice-because=tests")
        with serving(tmp_path, *where, "--think=off") as server:
            told: Any = _ask(server)
            assert (told.content, getattr(told, "reasoning", None) or "") == ("That is hard.", "")
            assert told.compeer["complete"]
            supporter.manner = "contract"
            full: Any = _ask(server, think="full")
            assert "What they feel" in full.reasoning and full.compeer["steps"]["emotion"]["emotion"] == "shame"
            with pytest.raises(openai.BadRequestError, match=r"compeer\.think"):
                _ask(server, think="much")


def _ask(server: Server, **wishes: Any) -> Any:
    messages: Any = [{"role": "user", "content": "I lost my job."}]
    made = server.client().chat.completions.create(
        model="kind-7b", messages=messages, extra_body={"compeer": wishes} if wishes else None
    )
    return made.choices[0].message


def test_brief_is_asked_for_in_words(supporter: Supporter) -> None:
    once(supporter, "--think", "brief", "--prompt", "brief")
    assert "one short sentence each" in system(supporter)
    done = compeer("chat", "--once", "Hi", "--think", "much")
    assert done.returncode == 1 and "--think is full, brief or off, not 'much'" in done.stderr
