"""ESC-Eval from the command line against a real endpoint: judges, languages, sources, parsers, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import COMPEER, compeer, environment
from tests.evals.cast import write_cards
from tests.evals.played_roles import PeopleServer
from tests.evals.test_sage_run import inspect, viewed

from compeer.errors import UserError
from compeer.evals.esc_eval import alternating, benchmark, load_cards
from compeer.evals.launch import evaluate
from compeer.evals.result import DIMENSIONS, Result, load_result, load_transcripts
from compeer.evals.roles import RoleSettings, open_role


@pytest.fixture
def people(tmp_path: Path) -> Any:
    with PeopleServer(log=tmp_path / "bodies.jsonl") as server:
        yield server


def words(people: PeopleServer, cards: list[Path], out: Path, *more: str) -> list[str]:
    roles = ["--model", "openai:listener", "--seeker", "openai:seeker", "--base-url", people.base_url]
    files = [word for path in cards for word in ("--cards", str(path))]
    return ["eval", "esc-eval", *roles, *files, "--out", str(out), *more]


def play(people: PeopleServer, out: Path, *judges: str, **cases: Any) -> Result:
    """The same in this process, where starting costs nothing."""
    supporter, seeker, *raters = (
        open_role(f"openai:{name}", base_url=people.base_url) for name in ("listener", "seeker", *judges)
    )
    roles = {"seeker": [seeker], "judge": raters}
    return evaluate(benchmark(RoleSettings(plain=True), **cases), out, supporter, roles, quiet=True)


def test_two_judges_of_one_name_are_refused(people: PeopleServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="role judge have the same name"):
        play(people, tmp_path / "run", "judge", "judge", cards=write_cards(tmp_path))


def test_judges_are_asked_apart_in_both_languages(people: PeopleServer, tmp_path: Path) -> None:
    cards = write_cards(tmp_path, 2)
    judges = ["--judge", "openai:judge-wordy", "--judge", "openai:judge-{dimension}-{language}"]
    done = compeer(*words(people, cards, tmp_path / "run", *judges, "--json"))
    assert done.returncode == 0, done.stderr
    assert "4 dialogues, up to 96 calls" in done.stderr  # ten of the talk and twice seven ratings each
    result = load_result(tmp_path / "run")
    assert result.comparable["language"] == "en+zh"
    assert result.comparable["judge"] == "openai:judge-wordy + openai:judge-{dimension}-{language}"
    asked = {body["model"] for body in people.bodies("judge")}
    assert {"judge-fluency-en", "judge-overall-zh", "judge-wordy"} < asked and len(asked) == 15
    transcripts = list(load_transcripts(tmp_path / "run"))
    assert [one.id for one in transcripts] == ["en-0", "zh-0", "en-1", "zh-1"]
    for one in transcripts:
        assert len(one.scores) == 14 and all(score in range(5) for score in one.scores.values())
    figures = {figure.name: figure.value for figure in result.figures}
    wordy = [one.scores["openai:judge-wordy/fluency"] or 0 for one in transcripts]
    assert figures["openai:judge-wordy/Fluency"] == sum(wordy) / 4 * 25
    assert figures["openai:judge-wordy/en/Fluency"] == (wordy[0] + wordy[2]) / 2 * 25
    both = [one.scores["openai:judge-{dimension}-{language}/fluency"] or 0 for one in transcripts]
    assert figures["Fluency"] == (sum(wordy) + sum(both)) / 8 * 25
    seven = ("Fluency", "Expression", "Empathy", "Information", "Skillful", "Humanoid", "Overall")
    assert figures["Average"] == pytest.approx(sum(figures[name] for name in seven) / 7)


def test_ratings_without_a_number_are_counted_and_the_official_rule_takes_minus_one(
    people: PeopleServer, tmp_path: Path
) -> None:
    cards, runs = write_cards(tmp_path), []
    for official in (False, True):
        runs.append(tmp_path / str(official))
        play(people, runs[-1], "judge-mute", "judge-moody", cards=cards, official=official)
    ours, theirs = (load_result(run) for run in runs)
    (transcripts,) = [list(load_transcripts(run)) for run in runs[:1]]
    unread = sum(score is None for one in transcripts for score in one.scores.values())
    assert ours.setup["counts"]["ratings_without_number"] == unread and 14 < unread < 28
    assert f"{unread} of 28 ratings had no number." in ours.notes
    assert ours.figure("openai:judge-mute/Average") is None
    mute = theirs.figure("openai:judge-mute/Average")
    assert mute is not None and mute.value == -25.0
    assert ours.comparable != theirs.comparable


def test_inspects_own_commands_rate_two_epochs_and_the_log_again(people: PeopleServer, tmp_path: Path) -> None:
    cards = write_cards(tmp_path)
    roles = ["--model", "compeer/openai:listener", "--model-role", "seeker=compeer/openai:seeker"]
    roles += ["--model-role", "judge=compeer/openai:judge"]
    where = ["--log-dir", str(tmp_path / "logs"), "--log-format", "json", "--epochs", "2"]
    inspect(people, tmp_path, "eval", "compeer/esc_eval", *roles, "-T", f"cards={','.join(map(str, cards))}", *where)
    (file,) = (tmp_path / "logs").glob("*.json")
    log = json.loads(file.read_text())
    assert log["status"] == "success" and len(log["samples"]) == 4
    assert len(people.bodies("judge")) == 4 * 7
    scores = [sample["scores"]["esc_eval"]["value"] for sample in log["samples"]]
    assert {name for one in scores for name in one} == {*DIMENSIONS.values()}
    again = tmp_path / "again.json"
    how = ["--scorer", "compeer/esc_eval", "--action", "overwrite", "--output-file", str(again)]
    inspect(people, tmp_path, "score", str(file), *how)
    assert len(people.bodies("judge")) == 8 * 7, "the judge rates the logged dialogues again"
    assert len(people.bodies("seeker")) == 4 * 5, "and nobody talks again"
    rated = json.loads(again.read_text())["samples"]
    assert [sample["scores"]["esc_eval"]["value"] for sample in rated] == scores
    viewed(people, tmp_path, file)


def test_sources_and_languages_can_be_left_out(tmp_path: Path) -> None:
    cards = write_cards(tmp_path, 2)
    assert [card.case for card in load_cards(cards, exclude=["esconv"], language="en")] == ["en-1"]
    assert [card.case for card in alternating(load_cards(cards), 3)] == ["en-0", "zh-0", "en-1"]
    with pytest.raises(UserError, match="Sources: ESconv, PsyQA, elsewhere"):
        load_cards(cards, exclude=["MHP"])


def test_killed_it_goes_on_and_repeats_no_finished_dialogue(tmp_path: Path) -> None:
    cards, run = write_cards(tmp_path, 3), tmp_path / "run"
    with PeopleServer(log=tmp_path / "bodies.jsonl", latency=0.02) as people:
        command = words(people, cards, run, "--judge", "openai:judge")
        begun = subprocess.Popen(
            [COMPEER, *command, "--concurrency", "1"], env=environment(), stderr=subprocess.DEVNULL
        )
        journal, deadline = run / "journal.jsonl", time.monotonic() + 120
        while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
            assert begun.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(begun.pid, signal.SIGKILL)
        begun.wait()
        finished = {json.loads(line)["transcript"]["id"] for line in journal.read_bytes().splitlines()[1:]}
        before = len(people.bodies())
        assert compeer(*command).returncode == 0
        after = people.bodies()[before:]
        assert 2 <= len(finished) < 6 and len(after) == 17 * (6 - len(finished))
        played = {body["messages"][0]["content"] for body in after if body["model"] == "seeker"}
        for card in load_cards(cards):
            assert any(card.base in text for text in played) == (card.case not in finished)
        assert load_result(run).setup["samples"] == 6


def test_a_run_that_left_a_source_out_goes_on_with_it(people: PeopleServer, tmp_path: Path) -> None:
    cards, run = write_cards(tmp_path, 2), tmp_path / "run"
    few = play(people, run, "judge", cards=cards, exclude=["ESconv"])
    whole = play(people, run, "judge", cards=cards)
    assert "Cards made from ESconv are left out." in few.notes and len(whole.notes) == 1
    assert (few.setup["samples"], whole.setup["resumed"], whole.setup["samples"]) == (3, 3, 4)
    assert few.comparable["cases"] != whole.comparable["cases"]
