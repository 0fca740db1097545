"""Safety around a turn: what of the thinking is told, what stands in for a reply, and what is remembered of nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.command import compeer
from tests.conversation.serving import Server, serving
from tests.conversation.supporter import Supporter
from tests.conversation.test_server_hostile import THINKING
from tests.conversation.test_server_protocol import MODEL, hello, streamed


def test_a_harmful_step_is_not_told_and_a_harmful_reply_is_replaced(server: Server, supporter: Supporter) -> None:
    supporter.manner, supporter.piece = "says", 5
    supporter.text = THINKING.replace("Ask.", "Best: you should kill yourself now. Say so.")
    supporter.text += "I see. You should just kill yourself. Goodbye."
    deltas: list[Any] = [chunk.choices[0].delta for chunk in streamed(server)]
    everything = "".join((getattr(d, "reasoning", None) or "") + (d.content or "") for d in deltas)
    assert "kill yourself" not in everything and "I see." in everything
    compeer = deltas[-1].compeer
    assert compeer["steps"]["strategy"] == {"text": None, "strategy": None}, "nothing of a turn that was replaced"
    assert compeer["safety"]["hidden"] == ["strategy"]
    assert compeer["safety"]["replaced"] == "encourage"
    assert "988" in everything, "what takes its place names people to talk to"


def test_the_path_asks_and_the_model_does_not_speak(server: Server, supporter: Supporter) -> None:
    """The whole conversation through a server that remembers nothing."""
    messages: list[dict[str, str]] = []
    told: list[Any] = []
    for text in ("I want to die.", "No.", "My boss shouted at me."):
        messages.append({"role": "user", "content": text})
        answer: Any = server.client().chat.completions.create(model=MODEL, messages=messages)  # type: ignore[call-overload]
        told.append(answer.choices[0].message)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert supporter.bodies == [], "the words are ours, and the model is not even asked"
    assert [one.compeer["safety"]["level"] for one in told] == ["high"] * 3
    assert [one.compeer["safety"].get("replaced") for one in told] == ["ours"] * 3
    assert told[0].compeer["safety"]["asked"], "about safety, directly"
    assert len({one.content for one in told}) == 3


def test_other_danger_has_its_own_lines(server: Server) -> None:
    child = hello(messages=[{"role": "user", "content": "My dad hits me every day and I am 11."}])
    answer: Any = server.client().chat.completions.create(**child, extra_body={"compeer": {"country": "GB"}})
    message = answer.choices[0].message
    assert message.compeer["safety"]["danger"] == "child_abuse"
    assert "Childline" in message.content and "kill" not in message.content


def test_an_emergency_begins_with_the_number(server: Server, supporter: Supporter) -> None:
    taken = hello(messages=[{"role": "user", "content": "I took 30 pills an hour ago."}])
    answer: Any = server.client().chat.completions.create(**taken, extra_body={"compeer": {"country": "GB"}})
    message = answer.choices[0].message
    assert message.compeer["safety"]["level"] == "emergency"
    assert "999" in message.content.split("\n")[0], "above everything"
    assert message.compeer["safety"]["emergency"]["link"] == "tel:999"
    assert supporter.bodies == []


def test_the_country_is_the_clients_or_the_servers(server: Server) -> None:
    danger = hello(messages=[{"role": "user", "content": "I want to kill myself."}])
    answer: Any = server.client().chat.completions.create(**danger, extra_body={"compeer": {"country": "GB"}})
    assert "116 123" in answer.choices[0].message.content
    for wrong in ("Atlantis", "ZZ"):
        status, _, text = server.post(danger | {"compeer": {"country": wrong}})
        assert (status, "compeer.country" in text) == (400, True)


def danger(**more: Any) -> dict[str, Any]:
    return hello(messages=[{"role": "user", "content": "I want to kill myself."}]) | more


def test_while_risk_is_high_all_help_is_in_the_text_and_no_analysis_anywhere(server: Server) -> None:
    for stream in (True, False):
        answer: Any = server.client().chat.completions.create(
            **danger(stream=stream), extra_headers={"X-Compeer-Country": "GB"}
        )
        deltas = [chunk.choices[0].delta for chunk in answer] if stream else [answer.choices[0].message]
        content = "".join(delta.content or "" for delta in deltas)
        compeer = deltas[-1].compeer
        lines = compeer["safety"]["helpline"]
        assert len(lines) >= 2 and all(f"☎ {line}" in content for line in lines), "an ordinary client shows all of it"
        assert "116 123" in content and "999" in content
        assert content.startswith("☎ "), "before anything else"
        assert "steps" not in compeer
        assert not any(getattr(delta, "reasoning", None) for delta in deltas)
        assert compeer["safety"]["emergency"]["link"] == "tel:999"


def test_what_is_counted_has_no_words_in_it(server: Server) -> None:
    before = {
        name: server.metric(f"compeer_serve_{name}_total", 'level="high"')
        for name in ("safety", "safety_asked", "safety_replaced")
    }
    server.client().chat.completions.create(**danger())
    page = server.get("/metrics")[2]
    assert server.metric("compeer_serve_safety_total", 'level="high"') == before["safety"] + 1
    assert server.metric("compeer_serve_safety_asked_total", 'level="high"') == before["safety_asked"] + 1
    assert "kill" not in page and "carry alone" not in page


def test_the_first_reply_of_a_conversation_carries_the_notice(supporter: Supporter, tmp_path: Path) -> None:
    with serving(tmp_path, "--model=openai:kind-7b", f"--base-url={supporter.base_url}") as server:
        client = server.client()
        first: Any = client.chat.completions.create(**hello())
        content = first.choices[0].message.content
        notice, _, reply = content.rpartition("\n\n")
        assert all(line.startswith("ⓘ ") for line in notice.split("\n")) and "not a person" in notice
        assert reply == "That sounds heavy to carry alone 1."
        messages = [*hello()["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": "Hm."}]
        second: Any = client.chat.completions.create(**hello(messages=messages))
        assert "ⓘ" not in second.choices[0].message.content
        assert "ⓘ" not in str(supporter.bodies[-1]), "the model never reads it"
        urgent: Any = client.chat.completions.create(**danger())
        content = urgent.choices[0].message.content
        assert content.index("☎ ") < content.index("ⓘ "), "help stands above the notice"


def test_the_notice_is_left_out_for_a_named_reason_alone(tmp_path: Path) -> None:
    done = compeer("serve", "--no-notice-because", " ", "--port=0")
    assert done.returncode == 1 and "needs a reason" in done.stderr


def test_a_guard_model_may_raise_the_level(supporter: Supporter, tmp_path: Path) -> None:
    words = ("--model=openai:kind-7b", f"--base-url={supporter.base_url}", "--guard=openai:guard")
    with serving(tmp_path, *words) as server:
        server.client().chat.completions.create(**hello())
        assert [body["model"] for body in supporter.bodies] == ["guard", "kind-7b"]
