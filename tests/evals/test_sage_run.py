"""SAGE from the command line against a real endpoint: results, faults, kill -9, and Inspect's own command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import COMPEER, compeer, environment
from tests.evals.cast import profile, write_profiles
from tests.evals.played_roles import PeopleServer

from compeer.errors import UserError
from compeer.evals.launch import evaluate
from compeer.evals.result import Result, load_result, load_transcripts
from compeer.evals.roles import RoleSettings, load_prompts, open_role
from compeer.evals.sage import benchmark
from compeer.reasoning.ontology import detect


@pytest.fixture
def people(tmp_path: Path) -> Any:
    with PeopleServer(log=tmp_path / "bodies.jsonl") as server:
        yield server


def words(people: PeopleServer, profiles: Path, out: Path, *more: str) -> list[str]:
    roles = ["--model", "openai:listener", "--seeker", "openai:seeker", "--base-url", people.base_url]
    return ["eval", "sage", *roles, "--profiles", str(profiles), "--out", str(out), *more]


def test_a_run_leaves_a_result_transcripts_and_logs(people: PeopleServer, tmp_path: Path) -> None:
    cast = [profile("a"), profile("b", player="farewell"), profile("c", player="mumbles"), profile("d")]
    profiles = write_profiles(tmp_path / "p.jsonl", cast)
    done = compeer(*words(people, profiles, tmp_path / "run", "--plain", "--name", "Mine", "--json"))
    assert done.returncode == 0, done.stderr
    assert "4 dialogues, up to 112 calls" in done.stderr
    result, told = load_result(tmp_path / "run"), json.loads(done.stdout)
    assert told["model"] == result.model == "Mine" and result.benchmark == "sage"
    assert result.comparable["simulator"] == "openai:seeker" and result.comparable["language"] == "zh"
    transcripts = {one.id: one for one in load_transcripts(tmp_path / "run")}
    assert list(transcripts) == ["a", "b", "c", "d"]
    assert transcripts["b"].end == "goodbye" and len(transcripts["b"].said) == 3
    assert transcripts["c"].end == "turns" and set(transcripts["c"].curve) == {40} and len(transcripts["c"].said) == 20
    for one in transcripts.values():
        assert one.curve[0] == 40 and [said.emotion for said in one.said[::2]] == list(one.curve)
    final = [one.curve[-1] for one in transcripts.values()]
    figures = {figure.name: figure.value for figure in result.figures}
    assert figures["Sentient"] == sum(final) / 4
    assert figures["Success"] == sum(value >= 100 for value in final)
    assert figures["Failure"] == sum(value < 10 for value in final)
    assert result.setup["counts"]["unread_changes"] == 9  # each asked for three times
    assert any("9 plans named no change" in note for note in result.notes)
    assert list((tmp_path / "run" / "logs").glob("*.eval"))


def test_killed_it_goes_on_and_repeats_no_finished_dialogue(tmp_path: Path) -> None:
    names = [f"p{number:02d}" for number in range(6)]
    cast = [profile(name, **({"player": "farewell"} if name < "p03" else {})) for name in names]  # short ones first
    profiles = write_profiles(tmp_path / "p.jsonl", cast)
    run = tmp_path / "run"
    with PeopleServer(log=tmp_path / "bodies.jsonl", latency=0.01, change=0) as people:
        command = words(people, profiles, run)
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
        with journal.open("ab") as file:
            file.write(b'{"transcript": {"id": "p05", "langu')  # as a kill within a write leaves it
        before = len(people.bodies())
        again = compeer(*command)
        assert again.returncode == 0, again.stderr
        assert 2 <= len(finished) < 6 and f"{len(finished)} of 6 dialogues are done already" in again.stderr
        after = [json.dumps(body) for body in people.bodies()[before:]]
        asked = Counter(name for body in after for name in names if name in body)
        assert asked == {name: 28 if name >= "p03" else 3 for name in names if name not in finished}
        result, count = load_result(run), len(people.bodies())
        assert result.setup["samples"] == 6 and result.setup["resumed"] == len(finished)
        assert [one.id for one in load_transcripts(run)] == names
        assert play(people, profiles, run).setup["resumed"] == 6  # nothing is left to do
        assert len(people.bodies()) == count
        with pytest.raises(UserError, match=r"temperature was 0\.7, is 0\.1"):
            play(people, profiles, run, RoleSettings(temperature=0.1))


def play(
    people: PeopleServer, profiles: Path, out: Path, settings: RoleSettings = RoleSettings(), **more: Any
) -> Result:
    """The same in this process, where starting costs nothing."""
    supporter, seeker = (open_role(f"openai:{name}", base_url=people.base_url) for name in ("listener", "seeker"))
    made = benchmark(settings, profiles=profiles, **more)
    return evaluate(made, out, supporter, {"seeker": [seeker]}, quiet=True)


def test_a_failed_dialogue_is_told_and_tried_again(people: PeopleServer, tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "p.jsonl", [profile("a"), profile("b", first_talk="unspeakable 昨晚没睡")])
    assert play(people, profiles, tmp_path / "run", limit=1).setup["samples"] == 1
    first = play(people, profiles, tmp_path / "run")  # goes on without the limit
    assert first.setup["samples"] == first.setup["resumed"] == 1 and first.setup["failed"] == 1
    assert "1 samples failed" in first.notes[0] and "scripted refusal" in first.notes[0]
    before = len(people.bodies())
    again = play(people, profiles, tmp_path / "run")
    assert (again.setup["resumed"], len(people.bodies()) - before) == (1, 1)


def test_when_nothing_works_there_is_no_result(people: PeopleServer, tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "p.jsonl", [profile("b", first_talk="unspeakable 昨晚没睡")])
    with pytest.raises(UserError, match=r"Not one dialogue was finished.*scripted refusal"):
        play(people, profiles, tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_prompts_from_a_folder_replace_ours_and_change_the_hash(people: PeopleServer, tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "p.jsonl", [profile("a", player="farewell")])
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "reply.zh.txt").write_text("只写你接下来要说的话 {persona} {unknown} {emotion}", "utf-8")
    ours = play(people, profiles, tmp_path / "ours")
    theirs = play(people, profiles, tmp_path / "theirs", prompts=own)
    assert people.bodies("seeker")[-1]["messages"][0]["content"].startswith("只写你接下来要说的话 farewell {unknown} ")
    assert ours.comparable["prompts"] != theirs.comparable["prompts"]
    (own / "reply.fr.txt").write_text("?", "utf-8")
    with pytest.raises(UserError, match=r"reply\.fr\.txt"):
        play(people, profiles, tmp_path / "x", prompts=own)


def inspect(people: PeopleServer, folder: Path, *command: str) -> None:
    program = str(Path(sys.executable).parent / "inspect")
    surroundings = environment() | {"OPENAI_BASE_URL": people.base_url, "INSPECT_DISPLAY": "plain"}
    done = subprocess.run(
        [program, *command], env=surroundings, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def viewed(people: PeopleServer, folder: Path, log: Path) -> None:
    """`inspect view` makes its page of our log."""
    inspect(people, folder, "view", "bundle", "--log-dir", str(log.parent), "--output-dir", str(folder / "view"))
    assert (folder / "view" / "index.html").is_file()
    assert log.name in (folder / "view" / "logs" / "listing.json").read_text()


def test_inspects_own_commands_play_two_epochs_and_score_the_log_again(people: PeopleServer, tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "p.jsonl", [profile("a", player="farewell")])
    roles = ["--model", "compeer/openai:listener", "--model-role", "seeker=compeer/openai:seeker"]
    where = ["--log-dir", str(tmp_path / "logs"), "--log-format", "json", "--epochs", "2"]
    inspect(people, tmp_path, "eval", "compeer/sage", *roles, "-T", f"profiles={profiles}", *where)
    (file,) = (tmp_path / "logs").glob("*.json")
    log = json.loads(file.read_text())
    assert log["status"] == "success"
    values = {name: one["value"] for name, one in log["results"]["scores"][0]["metrics"].items()}
    moods = [sample["scores"]["sage"]["value"] for sample in log["samples"]]
    assert values["mean"] == sum(moods) / 2 and values["success"] == 0 and values["failure"] == 0
    told = [sample["metadata"]["finished"]["transcript"] for sample in log["samples"]]
    assert [one["id"] for one in told] == ["a", "a (epoch 2)"] and {one["end"] for one in told} == {"goodbye"}
    seeds = [body["seed"] for body in people.bodies("listener")]
    assert len(seeds) == len(set(seeds)) == 2, "each epoch is drawn anew"
    before = len(people.bodies())
    again = tmp_path / "again.json"
    how = ["--scorer", "compeer/sage", "--action", "overwrite", "--output-file", str(again)]
    inspect(people, tmp_path, "score", str(file), *how)
    scored = json.loads(again.read_text())
    assert [sample["scores"]["sage"]["value"] for sample in scored["samples"]] == moods
    assert len(people.bodies()) == before, "the mood is in the log"
    viewed(people, tmp_path, file)


def test_without_profiles_it_says_where_to_get_them(tmp_path: Path) -> None:
    done = compeer(
        "eval", "sage", "--model", "embedded:small", "--seeker", "embedded:small", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 1 and "--profiles" in done.stderr and "COMPEER_DATA" in done.stderr


def test_the_shipped_prompts_are_in_their_language() -> None:
    for name in ("sage", "esc_eval"):
        texts = load_prompts(name).texts
        assert {file.rpartition(".")[2] for file in texts} == {"en", "zh"}
        assert all(detect(text) == file.rpartition(".")[2] for file, text in texts.items()), name
