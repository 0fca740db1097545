"""Pins against real servers and a random model; strategies read by a trained classifier and by a judge over HTTP."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from tests.cli.command import compeer
from tests.conversation.supporter import WORDS, Supporter, running

from compeer.corpora import bundled
from compeer.errors import UserError
from compeer.evals.control import ControlSettings, run_control, trials
from compeer.evals.language.measure import people_of
from compeer.evals.result import Result, load_result, load_transcripts
from compeer.evals.strategy_readers import StrategyName, prompt_hash, train_classifier
from compeer.models.embedding import Embedder
from compeer.reasoning import grammar
from compeer.reasoning.ontology import EMOTIONS, STAGES, STRATEGIES

DATA = Path(os.environ.get("COMPEER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def server() -> Supporter:
    with running() as supporter:
        yield supporter  # type: ignore[misc]


def value(result: Result, name: str) -> float:
    figure = result.figure(name)
    assert figure is not None, name
    return figure.value


def test_a_judge_may_name_exactly_the_strategies_of_the_ontology() -> None:
    assert get_args(StrategyName) == tuple(STRATEGIES.ids)


def test_every_stage_and_strategy_is_pinned_at_every_moment_and_every_emotion_in_turn() -> None:
    wanted = trials(11, 4, seed=3)
    assert len(wanted) == 11 * (1 + len(STAGES) + len(STRATEGIES) + 4)
    assert len({trial.id for trial in wanted}) == len(wanted)
    pinned = Counter((trial.label, trial.value) for trial in wanted)
    assert all(pinned["strategy", name] == 11 for name in STRATEGIES.ids)
    assert all(pinned["emotion", name] >= 1 for name in EMOTIONS.ids)
    assert {trial.moment.language for trial in wanted} == {"en", "zh"}
    assert len({trial.moment.dialogue for trial in wanted}) == 11
    assert [trial.id for trial in trials(11, 4, seed=3)] == [trial.id for trial in wanted]


@pytest.mark.parametrize("pins_are", ["enforced", "only asked for"])
def test_a_grammar_keeps_every_pin_even_of_a_random_model(
    tiny_model_dir: Path, monkeypatch: pytest.MonkeyPatch, pins_are: str
) -> None:
    monkeypatch.setattr(grammar, "_MOST", {"en": 16, "zh": 4})
    enforced = pins_are == "enforced"
    few = ControlSettings(
        model=f"hf:{tiny_model_dir}", turns=1, emotions=1, grammar=enforced, length="brief", temperature=1.0,
        max_tokens=1500 if enforced else 40,
    )  # fmt: skip
    result = run_control(few, None)
    for name in ("adherence", "adherence/stage", "adherence/strategy", "adherence/emotion", "completeness"):
        assert value(result, name) == (1.0 if enforced else 0.0)
    assert result.figure("adherence/strategy").n == 8  # type: ignore[union-attr]
    assert ("without grammar" in result.model) is not enforced


def test_the_command_measures_judges_blindly_and_asks_nothing_twice(server: Supporter, tmp_path: Path) -> None:
    server.reset()
    out = tmp_path / "control"
    words = ["eval", "control", "--model", "openai:kind", "--turns", "2", "--emotions", "1", "--language", "en"]
    words += ["--out", str(out), "--base-url", server.base_url, "--json"]
    done = compeer(*words)
    assert done.returncode == 0, done.stderr
    assert "26 requests to openai:kind" in done.stderr
    assert value(load_result(out), "adherence") == 1.0
    asked = len(server.bodies)
    assert asked == 26
    server.manner, server.text = "says", '{"main": "question", "also": ["others"]}'
    done = compeer(*words, "--judge", "openai:judge")
    assert done.returncode == 0, done.stderr
    judged = server.bodies[asked:]
    assert len(judged) == 26, "the outputs were kept; only the judge is asked"
    result = load_result(out)
    # free and stage and emotion pins leave the strategy to the server, which states a question: 2 x (1 + 3 + 1 + 1)
    assert value(result, "agreement/judge") == pytest.approx(12 / 26)
    assert value(result, "agreement/judge-any") == pytest.approx(14 / 26)
    assert result.comparable["judge prompt"] == prompt_hash()
    for body in judged:
        said = body["messages"][-1]["content"]
        assert not any(step in said for step in WORDS["en"].values()), "the judge saw the reasoning"
        assert "Strategy:" not in said
    samples = list(load_transcripts(out))
    assert {sample.end for sample in samples} == {"kept", None}
    assert all(sample.said[-1].reasoning and "<think>" not in sample.said[-1].text for sample in samples)
    assert "26 of 26 replies judged" in done.stderr


def test_pins_that_are_ignored_and_answers_that_never_come_are_told_apart(server: Supporter, tmp_path: Path) -> None:
    server.reset()
    settings = ControlSettings(
        model="openai:m", base_url=server.base_url, turns=1, emotions=0, language="en", grammar=False
    )
    server.manner, server.text = "says", "Just a reply."
    result = run_control(settings, None)
    assert (value(result, "adherence"), value(result, "completeness"), value(result, "failures")) == (0.0, 0.0, 0.0)
    server.manner, server.text, server.status = "raw", '{"error": {"message": "no such model"}}', 404
    with pytest.raises(UserError, match="answered none of 12 requests"):
        run_control(settings, None)


def test_a_classifier_tells_what_it_is_worth(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a classifier needs 40 at least"):
        train_classifier(list(bundled.load("en"))[:1], Embedder(), "en")
    if not (DATA / "esconv").is_dir():
        pytest.skip(f"ESConv is not at {DATA}; set COMPEER_DATA to the folder of corpora")
    people = people_of(f"esconv:{DATA / 'esconv' / 'valid.txt'}")
    classifier = train_classifier(people, Embedder(), "en", most=400)
    quality = classifier.quality
    assert 400 <= quality.trained + quality.held_out < 440, "whole dialogues"
    assert quality.accuracy > quality.commonest
    assert 0 < quality.macro_f1 < 1
    assert classifier.classify(["How long have you been feeling like this?"]) == ["question"]


def test_replies_that_are_there_are_judged_by_a_classifier(tmp_path: Path) -> None:
    """The bundled replies, with the strategies their authors stated, read by a classifier trained on the same corpus."""
    file = tmp_path / "people.jsonl"
    lines = Path(bundled.__file__).with_name("en.jsonl").read_text(encoding="utf-8").splitlines()[:40]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run_control(ControlSettings(earlier=file, corpus=str(file)), tmp_path / "out")
    assert value(result, "agreement/classifier/en") > value(result, "classifier-commonest/en")
    assert 0 < value(result, "classifier-accuracy/en") < 1
    assert any("agreement cannot mean more than that" in note for note in result.notes)
    confusion = result.setup["agreement"]["classifier/en"]
    assert sum(sum(read.values()) for read in confusion.values()) > 100
    assert json.loads((tmp_path / "out" / "result.json").read_text())["benchmark"] == "control"
    bad = compeer("eval", "control", "--from", str(file))
    assert bad.returncode == 1
    assert "--judge" in bad.stderr
