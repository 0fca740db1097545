"""A model's replies are asked for, judged and kept, over a real HTTP endpoint; nothing is asked twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import compeer
from tests.evals.crisis_endpoint import CAREFUL, SECRET, CrisisEndpoint, running

from compeer.errors import UserError
from compeer.evals.launch import evaluate
from compeer.evals.report.tables import result_markdown
from compeer.evals.result import Result, load_result, load_transcripts
from compeer.evals.roles import RoleSettings, open_role
from compeer.evals.safety.replies import benchmark
from compeer.evals.safety.screening import load_cases

MANY = 400  # cases of the development half; it has thousands


@pytest.fixture
def endpoint() -> Iterator[CrisisEndpoint]:
    with running() as server:
        yield server


def run(endpoint: CrisisEndpoint, model: str, out: Path, judge: str | None = "judge") -> Result:
    supporter, rater = (
        open_role(f"openai:{name}", base_url=endpoint.base_url) if name else None for name in (model, judge)
    )
    made = benchmark(RoleSettings(log_calls=False), judged=rater is not None, split="dev", limit=MANY)
    return evaluate(made, out, supporter, {"judge": [rater]} if rater else {}, quiet=True)


def test_a_careful_and_a_careless_model_are_told_apart(endpoint: CrisisEndpoint, tmp_path: Path) -> None:
    good = run(endpoint, "careful", tmp_path / "good")
    bad = run(endpoint, "careless", tmp_path / "bad")
    risky = sum(case.risky for case in load_cases("dev")[:MANY])

    def values(result: object, *names: str) -> list[float]:
        return [result.figure(name).value for name in names]  # type: ignore[attr-defined]

    names = ("replies/undamaging", "replies/all_best", "replies/guides", "replies/guides/damaging")
    rules = ("checks/help_named", "checks/helpline", "checks/goes_on", "checks/no_method", "checks/helpline_unneeded")
    assert values(good, *names) == [1, 1, 1, 0] and values(bad, *names) == [0, 0, 0, 1]
    assert values(good, *rules) == [1, 1, 1, 1, 1] and values(bad, *rules) == [0, 0, 0, 0, 0]
    assert good.figure("replies/proportion").value == 0  # type: ignore[union-attr]  # a helpline for every idiom
    assert good.figure("replies/detects").n == risky  # type: ignore[union-attr]
    assert good.comparable == bad.comparable and good.model != bad.model
    assert load_result(tmp_path / "good") == good
    kept = {one.id: one for one in load_transcripts(tmp_path / "bad")}
    assert len(kept) == len(load_cases("dev")[:MANY]) and kept["en-explicit-01"].scores["replies/guides"] == 0
    told = result_markdown(bad)
    assert re.search(r"\| replies/guides +\| 0\.000 \[0\.000, 0\.0\d+\] +\| ", told)
    assert re.search(r"\| replies/guides/damaging +\| 1\.000 \[0\.9\d+, 1\.000\] +\| ", told)


def test_a_later_turn_is_answered_with_the_own_replies_before_it_and_no_reasoning(
    endpoint: CrisisEndpoint, tmp_path: Path
) -> None:
    run(endpoint, "careful", tmp_path)
    case = next(one for one in load_cases("dev")[:MANY] if one.id == "en-denial-07")
    asked = [
        body["messages"] for body in endpoint.asked("careful") if body["messages"][-1]["content"] == case.turns[-1]
    ]
    assert len(asked) == 1
    assert [message["content"] for message in asked[0][1:]] == [
        case.turns[0],
        CAREFUL["en"],
        case.turns[1],
        CAREFUL["en"],
        case.turns[2],
    ]
    assert SECRET not in json.dumps(endpoint.asked("judge")) and SECRET not in json.dumps(asked)
    spoken = next(one for one in load_transcripts(tmp_path) if one.id == case.id).said
    assert [one.speaker for one in spoken] == ["seeker", "supporter"] * 3
    assert SECRET in str(spoken[1].reasoning)


def test_started_again_a_run_asks_only_what_was_not_answered(endpoint: CrisisEndpoint, tmp_path: Path) -> None:
    missing = [case for case in load_cases("dev")[:MANY] if any("kill" in turn for turn in case.turns)]
    endpoint.refuse = ("kill",)
    first = run(endpoint, "careful", tmp_path)
    whole = len(load_cases("dev")[:MANY])
    assert missing and first.setup["samples"] == whole - len(missing)
    assert f"{len(missing)} samples failed" in first.notes[0] and "not today" in first.notes[0]
    endpoint.refuse = ()
    second = run(endpoint, "careful", tmp_path)
    assert second.setup["samples"] == whole and not second.notes
    assert second.figure("checks/no_method").n == whole  # type: ignore[union-attr]
    before = len(endpoint.bodies)
    assert run(endpoint, "careful", tmp_path).figures == second.figures
    assert len(endpoint.bodies) == before
    repeated = [body for body, count in Counter(json.dumps(body) for body in endpoint.bodies).items() if count > 1]
    broken = {turn for case in missing for turn in case.turns}  # a dialogue that broke off is held again from its start
    assert all(json.loads(body)["messages"][-1]["content"] in broken for body in repeated)


def test_a_judge_that_babbles_gives_no_figures_and_is_said_so(endpoint: CrisisEndpoint, tmp_path: Path) -> None:
    endpoint.babble = True
    result = run(endpoint, "careful", tmp_path)
    assert result.figure("replies/detects") is None and result.figure("replies/undamaging") is None
    assert result.figure("checks/goes_on") is not None
    assert any(f"{MANY} answers got no verdict" in note for note in result.notes)


def test_a_folder_of_another_model_is_refused(endpoint: CrisisEndpoint, tmp_path: Path) -> None:
    run(endpoint, "careful", tmp_path, judge=None)
    with pytest.raises(UserError, match="model was 'openai:careful', is 'openai:careless'"):
        run(endpoint, "careless", tmp_path, judge=None)


def test_the_command_measures_replies_and_says_what_it_cannot_do(endpoint: CrisisEndpoint, tmp_path: Path) -> None:
    words = ["eval", "safety", "--model", "openai:careful", "--base-url", endpoint.base_url, "--split", "dev"]
    done = compeer(*words, "--language", "zh", "--limit", "9", "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["setup"]["samples"] == 9 and told["comparable"]["judge"] == "none"
    assert (tmp_path / "run" / "result.json").exists()
    refused = compeer("eval", "safety")
    assert refused.returncode == 1 and "--screening" in refused.stderr
