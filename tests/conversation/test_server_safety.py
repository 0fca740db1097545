"""Safety around a turn: what of the thinking is told, what stands in for a reply, and what is remembered of nobody."""

from __future__ import annotations

from typing import Any

from tests.conversation.serving import Server
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


def test_what_we_added_to_old_replies_does_not_reach_the_model(server: Server, supporter: Supporter) -> None:
    messages: list[dict[str, str]] = [{"role": "user", "content": "I want to die."}]
    first: Any = server.client().chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "Yes."},
    ]
    second: Any = server.client().chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]
    system, _, reply, _ = supporter.bodies[-1]["messages"]
    assert "988" not in reply["content"]
    assert "may be in danger" in system["content"], "the supporter is told what matters now"
    assert second.choices[0].message.compeer["safety"]["level"] == "high"
    asked = ["always asks" in answer.choices[0].message.content for answer in (first, second)]
    assert asked == [True, False], "the question about safety is asked once"


def test_the_country_is_the_clients_or_the_servers(server: Server) -> None:
    danger = hello(messages=[{"role": "user", "content": "I want to kill myself."}])
    answer: Any = server.client().chat.completions.create(**danger, extra_body={"compeer": {"country": "GB"}})
    assert "116 123" in answer.choices[0].message.content
    status, _, text = server.post(danger | {"compeer": {"country": "Atlantis"}})
    assert (status, "compeer.country" in text) == (400, True)
