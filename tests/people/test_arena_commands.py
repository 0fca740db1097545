"""`compeer arena` from conversations to a figure: cases, replies of models and of other programs, votes, results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tests.endpoints.process import ScriptedEndpoint
from tests.people.arena_material import cases, replies
from tests.studio.material import thinking

from compeer.cli.people import arena_app
from compeer.corpora.bundled import load
from compeer.dialogue import Dialogue, Utterance, messages, read_rows, write_rows
from compeer.errors import UserError
from compeer.people.arena import ArenaQueue
from compeer.people.arena_cases import Case, Reply, cases_of, read_cases
from compeer.people.invitations import sign_in
from compeer.people.store import open_store


@pytest.fixture
def app() -> typer.Typer:
    return arena_app


def test_from_conversations_to_the_figure(tmp_path: Path, told: Callable[..., str]) -> None:
    write_rows(tmp_path / "dialogues.jsonl", list(load())[:8])
    source, db = str(tmp_path / "cases.jsonl"), str(tmp_path / "a.db")
    assert "5 cases" in told("cases", str(tmp_path / "dialogues.jsonl"), "--out", source, "--count", "5")
    names = [case.id for case in read_cases(source)]
    out = tmp_path / "replies"
    with ScriptedEndpoint(answer="contract", log=tmp_path / "log.jsonl") as endpoint:
        words = ("generate", source, "--model", "ours=openai:a", "--model", "base=openai:b", "--out", str(out),
                 "--base-url", endpoint.base_url, "--json")  # fmt: skip
        made = json.loads(told(*words))
        assert [(row["model"], row["replies"]) for row in made] == [("ours", 5), ("base", 5)]
        asked = len(endpoint.answered())
        assert json.loads(told(*words)) == made and len(endpoint.answered()) == asked, "nothing is asked twice"
    found = list(read_rows(out / "ours.jsonl", Reply))
    assert [reply.case for reply in found] == names and all(reply.reasoning for reply in found)

    write_rows(tmp_path / "other.jsonl", [{"case": name, "raw": thinking(f"I hear you, {name}.")} for name in names])
    words = (
        "import",
        str(tmp_path / "other.jsonl"),
        "--cases",
        source,
        "--as",
        "gpt-4o",
        "--out",
        str(out / "gpt.jsonl"),
    )
    assert "5 replies" in told(*words)
    assert next(one.response for one in read_rows(out / "gpt.jsonl", Reply)) == f"I hear you, {names[0]}."

    files = [str(out / f"{name}.jsonl") for name in ("ours", "base", "gpt")]
    once = ("--focus", "ours", "--seed", "1", "--votes", "1")
    said = told("create", source, *files, "--name", "pilot", "--db", db, *once)
    assert "10 comparisons of 3 models on 5 cases" in said
    assert "no votes" in told("results", "--db", db)
    links = json.loads(told("invite", "Anna", "--db", db, "--json"))
    store = open_store(db)
    anna = sign_in(store, links[0]["link"].rpartition("/")[2]).people[0]
    while (work := ArenaQueue(store).next(anna)) is not None:
        ArenaQueue(store).submit(anna, work.name, "second" if "I hear you" in work.first else "first", seconds=2)
    assert "Anna: paused" in told("pause", "Anna", "--db", db) and "paused" in told("status", "--db", db)
    table = told("results", "--db", db, "--figure", str(tmp_path / "f.svg"))
    assert "ours" in table and "gpt-4o" in table and "Bradley-Terry" in table
    figure = (tmp_path / "f.svg").read_text()
    assert all(name in figure for name in ("ours", "gpt-4o", "base")) and "10 votes on 5 cases" in figure
    told("results", "--db", db, "--figure", str(tmp_path / "f.png"))
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    told("export", "--db", db, "--out", str(tmp_path / "votes.jsonl"), "--anonymous")
    votes = [json.loads(line) for line in (tmp_path / "votes.jsonl").read_text().splitlines()]
    assert len(votes) == 10 and {vote["annotator"] for vote in votes} == {"person 1"}
    assert all("ours" in (vote["left"], vote["right"]) for vote in votes)
    assert "closed" in told("close", "--db", db)


def test_a_case_is_cut_before_a_supporters_turn_with_the_pictures_so_far() -> None:
    said = [Utterance(speaker="supporter", text="Hello.")]
    for number in range(4):
        said += [
            Utterance(speaker="seeker", text=f"S{number}", images=(f"{number}.png",)),
            Utterance(speaker="supporter", text="R"),
        ]
    dialogue = Dialogue(id="d", source="t", licence="MIT", language="en", utterances=tuple(said))
    text_only = Dialogue(
        id="e",
        source="t",
        licence="MIT",
        language="en",
        utterances=(said[0], Utterance(speaker="seeker", text="S"), said[0]),
    )
    moments = set()
    for seed in range(30):
        (case,) = cases_of([dialogue, text_only], pictures=True, seed=seed)
        assert case.history[-1].speaker == "seeker" and case.images == [f"{n}.png" for n in range(len(case.images))]
        assert case.id == f"d#{len(case.images) + 1}"
        moments.add(case.id)
    assert len(moments) == 4
    assert [case.id for case in cases_of([dialogue, text_only])][1] == "e#2"


def test_a_model_that_cannot_see_is_asked_without_pictures(tmp_path: Path) -> None:
    (case, *_) = cases(1, tmp_path)
    seen = messages(case.history, folder=tmp_path)[0]["content"]
    assert [part["type"] for part in seen] == ["image", "image", "text"] and Path(seen[0]["path"]).is_file()
    assert messages(case.history, images=False, folder=tmp_path)[0]["content"] == case.history[0].text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"case": "case/0", "response": "x"}, "which model"),
        ({"case": "nowhere", "model": "m", "response": "x"}, "no such case"),
        ({"case": "case/0", "model": "m"}, "whole output as `raw`"),
        ({"case": "case/0", "model": "m", "response": "x", "raw": "y"}, "whole output as `raw`"),
        ({"case": "case/0", "model": "m", "response": " … "}, "no reply to compare"),
    ],
)
def test_replies_that_cannot_be_used_are_said_with_their_place(
    tmp_path: Path, told: Callable[..., str], row: dict[str, str], message: str
) -> None:
    write_rows(tmp_path / "cases.jsonl", cases(1))
    write_rows(tmp_path / "r.jsonl", [row])
    with pytest.raises(UserError, match=message) as error:
        told(
            "import",
            str(tmp_path / "r.jsonl"),
            "--cases",
            str(tmp_path / "cases.jsonl"),
            "--out",
            str(tmp_path / "o.jsonl"),
        )
    assert "r.jsonl, reply 1" in str(error.value)
    assert not (tmp_path / "o.jsonl").exists()


def test_a_case_ends_with_the_seeker(tmp_path: Path) -> None:
    write_rows(tmp_path / "c.jsonl", [{"id": "a", "history": [{"speaker": "supporter", "text": "Hello"}]}])
    with pytest.raises(UserError, match="last turn must be the seeker's"):
        read_cases(tmp_path / "c.jsonl")
    given = cases(2)
    write_rows(tmp_path / "c.jsonl", [given[0], given[0]])
    with pytest.raises(UserError, match="case/0 stands twice"):
        read_cases(tmp_path / "c.jsonl")
    assert isinstance(given[0], Case) and replies(given)
