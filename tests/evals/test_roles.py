"""Who sees what, on the messages that reach a real endpoint: no reasoning for the seeker, no secrets for the supporter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evals.cast import CARD, CARD_ZH, GOAL, PERSONA, profile, write_cards, write_profiles
from tests.evals.played_roles import SECRET, PeopleServer

from compeer.evals import esc_eval, sage
from compeer.evals.launch import evaluate
from compeer.evals.result import load_transcripts
from compeer.evals.roles import RoleSettings, load_prompts, open_role


def text(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.fixture
def people(tmp_path: Path) -> Any:
    with PeopleServer(log=tmp_path / "bodies.jsonl", change=1) as server:
        yield server


@pytest.mark.parametrize("plain", [False, True])
def test_sage_shows_each_role_its_own_side(people: PeopleServer, tmp_path: Path, plain: bool) -> None:
    profiles = write_profiles(tmp_path / "profiles.jsonl", [profile("one")])
    supporter, seeker = (open_role(f"openai:{name}", base_url=people.base_url) for name in ("listener", "seeker"))
    benchmark = sage.benchmark(RoleSettings(plain=plain), profiles=profiles)
    evaluate(benchmark, tmp_path / "run", supporter, {"seeker": [seeker]}, quiet=True)
    to_supporter, to_seeker = people.bodies("listener"), people.bodies("seeker")
    assert (len(to_supporter), len(to_seeker)) == (10, 18)  # ten turns, nine of them planned and replied to
    for number, body in enumerate(to_supporter, start=1):
        assert roles(body) == ["system", *["user", "assistant"] * (number - 1), "user"]
        assert body["messages"][1]["content"] == "昨晚我一夜没睡，one。"
        for secret in (PERSONA, GOAL, "SCENE-7c1", "变化", SECRET):
            assert secret not in text(body)
    for body in to_seeker:
        assert roles(body) == ["user"]
        assert PERSONA in text(body) and GOAL in text(body) and "> 昨晚我一夜没睡" in text(body)
        assert SECRET not in text(body) and "think" not in text(body)
        assert "> 我听见了" in text(body)
    moods = [line for body in to_seeker for line in text(body).split("\\n") if " 分（满分 100" in line]
    assert moods[0].startswith("40 分") and moods[1].startswith("41 分") and moods[2].startswith("41 分")
    (transcript,) = load_transcripts(tmp_path / "run")
    thought = [one.reasoning for one in transcript.said if one.speaker == "supporter"]
    assert all(SECRET in (one or "") for one in thought) if not plain else thought == [None] * 10
    assert not any(SECRET in one.text for one in transcript.said)


def test_esc_eval_shows_each_role_its_own_side(people: PeopleServer, tmp_path: Path) -> None:
    names = ("listener", "seeker", "judge")
    supporter, seeker, judge = (open_role(f"openai:{name}", base_url=people.base_url) for name in names)
    benchmark = esc_eval.benchmark(cards=write_cards(tmp_path))
    evaluate(benchmark, tmp_path / "run", supporter, {"seeker": [seeker], "judge": [judge]}, quiet=True)
    prompts = load_prompts("esc_eval")
    greetings = {prompts.text("greeting", language) for language in ("en", "zh")}  # type: ignore[arg-type]
    to_supporter, to_seeker, to_judge = (people.bodies(name) for name in names)
    assert (len(to_supporter), len(to_seeker), len(to_judge)) == (10, 10, 14)
    for body in to_supporter:
        assert roles(body)[:2] == ["system", "user"] and len(body["messages"]) % 2 == 0
        for secret in (*greetings, CARD.partition("\n")[0], CARD_ZH.partition("\n")[0], SECRET):
            assert secret not in text(body)
    for body in to_seeker:
        assert "7c1" in body["messages"][0]["content"] or "卡片七" in body["messages"][0]["content"]
        assert roles(body)[:2] == ["system", "user"] and body["messages"][1]["content"] in greetings
        assert roles(body)[2:] == ["assistant", "user"] * (len(body["messages"]) // 2 - 1)  # its own words: assistant
        assert SECRET not in text(body) and "think" not in text(body)
        heard = [one["content"] for one in body["messages"][3::2]]
        assert all(one.startswith(("I hear you", "我听见了")) for one in heard)
    for body in to_judge:
        assert roles(body) == ["user"] and body["temperature"] == 0.0
        assert SECRET not in text(body) and "7c1" not in text(body)
        assert text(body).count("> I hear you") + text(body).count("> 我听见了") == 5
    assert {len(one.said) for one in load_transcripts(tmp_path / "run")} == {11}  # the greeting and ten utterances


def test_inspects_own_provider_plays_the_roles_as_well(
    people: PeopleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The openai provider takes the thinking apart; the contract is put together again and found complete."""
    monkeypatch.setenv("TESTS_API_KEY", "none")
    profiles = write_profiles(tmp_path / "profiles.jsonl", [profile("one", player="farewell")])
    supporter, seeker = (
        open_role(f"openai-api/tests/{name}", base_url=people.base_url) for name in ("listener", "seeker")
    )
    result = evaluate(sage.benchmark(profiles=profiles), tmp_path / "run", supporter, {"seeker": [seeker]}, quiet=True)
    assert result.comparable["simulator"] == "openai-api/tests/seeker"
    assert result.setup["counts"]["replies"] == 1 and result.setup["counts"]["incomplete"] == 0
    (transcript,) = load_transcripts(tmp_path / "run")
    assert transcript.end == "goodbye" and SECRET in (transcript.said[1].reasoning or "")
    assert all(SECRET not in text(body) for body in people.bodies("seeker"))
