"""`compeer chat --once`: one message, one answer, for scripts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.cli.command import compeer
from tests.cli.test_parse import FIELDS
from tests.conversation.supporter import REPLY, WORDS, Supporter
from tests.endpoints.process import ScriptedEndpoint

LABELS = ("stage", "sentiment", "emotion", "intensity", "strategy")


def once(text: str, *words: str, env: dict[str, str] | None = None, core: int = -1) -> dict[str, Any]:
    done = compeer("chat", "--once", text, *words, "--json", env=env, core=core)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert list(answer) == FIELDS
    assert list(answer["reasoning"]) == ["history", "emotion", "strategy"]
    return answer


def at(supporter: Supporter) -> tuple[str, ...]:
    return ("--model", "openai:kind-7b", "--base-url", supporter.base_url)


def test_every_field_of_the_contract(supporter: Supporter) -> None:
    answer = once("I lost my job.", *at(supporter))
    assert answer["reasoning"] == WORDS["en"] and answer["history"] == WORDS["en"]["history"]
    assert {label: answer[label] for label in LABELS} == {
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
        "strategy": "question",
    }
    assert answer["response"] == f"{REPLY['en']} 1."
    assert answer["raw"].startswith("<think>\n<history>") and answer["raw"].endswith(answer["response"])
    assert answer["complete"] is True and answer["problems"] == []
    (body,) = supporter.bodies
    assert body["messages"][-1] == {"role": "user", "content": "I lost my job."}
    assert body["model"] == "kind-7b" and "seed" not in body


def test_pins_hold_under_any_name(supporter: Supporter) -> None:
    words = (
        "--pin",
        "strategy=Affirmation and Reassurance",
        "-p",
        "情绪=焦虑",
        "-p",
        "stage=action",
        "-p",
        "intensity=2",
    )
    answer = once("I lost my job.", *at(supporter), *words)
    assert answer["complete"] and answer["problems"] == []
    assert (answer["stage"], answer["emotion"], answer["intensity"]) == ("action", "anxiety", 2)
    assert answer["strategy"] == "affirmation and reassurance"


def test_chinese_text_is_answered_in_chinese_with_canonical_labels(supporter: Supporter) -> None:
    answer = once("我丢了工作，家里人还不知道。", *at(supporter), "--pin", "strategy=providing suggestions")
    assert answer["complete"] and answer["response"] == f"{REPLY['zh']} 1。"
    assert (answer["stage"], answer["emotion"]) == ("exploration", "shame")
    assert answer["strategy"] == "providing suggestions" and "策略：" in answer["raw"]
    assert "providing suggestions" not in answer["raw"]


def test_the_language_can_be_chosen(supporter: Supporter) -> None:
    assert once("I lost my job.", *at(supporter), "--language", "zh")["response"] == f"{REPLY['zh']} 1。"


def test_what_the_options_say_reaches_the_server(supporter: Supporter) -> None:
    more = ("--seed", "11", "--temperature", "0", "--prompt", "brief")
    environment = {
        "COMPEER_MODEL": "openai:kind-7b",
        "OPENAI_BASE_URL": supporter.base_url + "/",
        "OPENAI_API_KEY": "k",
    }
    once("I lost my job.", *more, env=environment)
    (body,) = supporter.bodies
    assert body["seed"] == 11 and body["temperature"] == 0
    assert "labelled lines. Then reply." in body["messages"][0]["content"]
    assert supporter.keys == ["Bearer k"]


def test_bytes_that_are_no_text_are_replaced(supporter: Supporter) -> None:
    once("caf\udce9", *at(supporter))
    assert supporter.bodies[0]["messages"][-1]["content"] == "caf\ufffd"


def test_an_answer_that_falls_short_is_asked_for_again_and_then_shown_with_its_problems(supporter: Supporter) -> None:
    supporter.manner, supporter.text = "says", "Poor you."
    answer = once("I lost my job.", *at(supporter))
    assert len(supporter.bodies) == 3
    assert answer["complete"] is False and "there is no <think> block" in answer["problems"]
    assert answer["response"] == answer["raw"] == "Poor you."
    assert answer["history"] is None and set(answer["reasoning"].values()) == {None}


def test_for_people_the_steps_and_the_reply(supporter: Supporter) -> None:
    done = compeer("chat", "--once", "I lost my job.", *at(supporter))
    assert done.returncode == 0 and done.stdout.rstrip().endswith("a reply are there.")
    assert all(text in done.stdout for text in (*WORDS["en"].values(), REPLY["en"]))
    assert "<think>" not in done.stdout


def test_a_server_that_keeps_no_pins_is_found_out() -> None:
    with ScriptedEndpoint(answer="contract") as endpoint:
        words = ("--model", "openai:scripted", "--base-url", endpoint.base_url)
        free = once("I lost my job.", *words, "--seed", "1")
        assert free["complete"] is True
        pins = [f"{label}={free[label]}" for label in LABELS]
        wrong = f"intensity={free['intensity'] % 5 + 1}"
        bound = once("Lost my job.", *words, *(word for pin in [*pins[:3], wrong, pins[4]] for word in ("--pin", pin)))
    assert bound["complete"] is False
    assert bound["problems"] and all(" was pinned to " in problem for problem in bound["problems"])


# a seed whose answer is short
EMBEDDED = (
    "I lost my job.",
    "--model",
    "embedded:small",
    "--seed",
    "6",
    "--pin",
    "strategy=question",
    "--pin",
    "emotion=joy",
)


@pytest.fixture(scope="module")
def twice() -> list[dict[str, Any]]:
    """The same question to the embedded model in two processes, side by side."""
    with ThreadPoolExecutor(2) as both:
        return list(both.map(lambda core: once(*EMBEDDED, core=core), (0, -1)))


def test_the_embedded_model_needs_nothing_and_keeps_pins(twice: list[dict[str, Any]]) -> None:
    embedded = twice[0]
    assert embedded["complete"] is True and embedded["problems"] == []
    assert (embedded["strategy"], embedded["emotion"], embedded["sentiment"]) == ("question", "joy", "positive")
    assert embedded["response"].strip() and all(embedded["reasoning"].values())


def test_the_same_seed_gives_the_same_answer(twice: list[dict[str, Any]]) -> None:
    assert twice[0] == twice[1]
