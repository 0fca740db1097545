"""`compeer annotate` as a person uses it, from items to labels, and what it says when something is wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tests.cli.command import compeer
from tests.cli.hidden import hide
from tests.people.labelling import ALL_TRUE, item, label_all

from compeer.cer.item import Item
from compeer.cli.people import annotate_app
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.people.invitations import sign_in
from compeer.people.store import open_store


@pytest.fixture
def app() -> typer.Typer:
    return annotate_app


def refused(*words: str) -> str:
    with pytest.raises(UserError) as error:
        annotate_app(words, standalone_mode=False)
    return str(error.value)


def test_from_items_to_labels(tmp_path: Path, told: Callable[..., str]) -> None:
    source, db, out = str(tmp_path / "items.jsonl"), str(tmp_path / "a.db"), str(tmp_path / "out.jsonl")
    write_rows(source, [item(n) for n in range(3)])
    assert "has 3 items" in told("create", source, "--name", "pilot", "--db", db, "--audit", "0")
    rows = json.loads(told("invite", "anna", "ben", "--db", db, "--json"))
    store = open_store(db)
    people = [sign_in(store, row["link"].rsplit("/", 1)[1]).people[0] for row in rows]
    assert [person.name for person in people] == ["anna", "ben"]
    for person in people:
        label_all(store, person, lambda work: {**ALL_TRUE, "preference": "both"})
    store.close()
    status = json.loads(told("status", "--db", db, "--json"))
    assert (status["closed"], status["people"][0]["done"]) == (3, 3)
    assert "3 closed" in told("status", "--db", db) and "paused" in told("pause", "ben", "--db", db)
    assert "anna and ben" in told("agreement", "--db", db)
    assert json.loads(told("agreement", "--db", db, "--json"))["questions"]["history"]["percent"] == 1.0
    assert "3 items" in told("export", "--out", out, "--db", db)
    assert {(one.labels.preference, one.label_source) for one in read_rows(out, Item)} == {("both", "human")}
    assert "24 votes on 3 items" in told("create", source, "--name", "second", "--db", db) + told(
        "import", out, "--name", "second", "--db", db
    )
    assert "Which project?" in refused("status", "--db", db)
    assert "There is no project third" in refused("status", "--db", db, "--name", "third")


def test_a_project_is_set_up_by_commands(tmp_path: Path, told: Callable[..., str]) -> None:
    source, db = str(tmp_path / "items.jsonl"), str(tmp_path / "a.db")
    write_rows(source, [item(n, language="zh" if n else "en") for n in range(2)])
    told("create", source, "--db", db, "--audit", "0")
    own = tmp_path / "questions.yaml"
    own.write_text(
        "questions:\n- {id: warmth, text: {en: 'How warm?', zh: 有多温暖？}, answers: [cold, {id: warm, text: Warm}]}\n",
        encoding="utf-8",
    )
    assert "有多温暖" in told("questions", str(own), "--db", db)
    written = tmp_path / "guideline.yaml"
    written.write_text(told("guideline", "--db", db).replace("nobody has asked", "no one has asked"), encoding="utf-8")
    assert "is now version 2" in told("guideline", str(written), "--db", db)
    assert "no one has asked" in told("guideline", "--db", db).replace("\n", " ")
    written.write_text("questions: {nosuch: {en: Text}}")
    assert "There is no question nosuch; there are: history" in refused("guideline", str(written), "--db", db)
    links = tmp_path / "links.csv"
    rows = json.loads(told("invite", "anna", "小雨", "--language", "zh", "--csv", str(links), "--db", db, "--json"))
    assert [row.split(",")[0] for row in links.read_text(encoding="utf-8-sig").splitlines()] == ["name", "anna", "小雨"]
    assert "at most 1" in told("limits", "anna", "--quota", "1", "--db", db)
    assert "name the people" in refused("limits", "--language", "zh", "--db", db)
    store, thinks = open_store(db), {**ALL_TRUE, "preference": "both", "warmth": "warm"}
    for row in rows:
        person = sign_in(store, row["link"].rsplit("/", 1)[1]).people[0]
        assert [one.task.language for one in label_all(store, person, lambda _: thinks)] == ["zh"]
    store.close()
    said = told("remind", "--db", db)
    assert "小雨，你好" in said and "anna" not in said  # who has reached the limit is not reminded
    out = tmp_path / "labels.csv"
    assert "1 items" in told("export", "--out", str(out), "--format", "labels-csv", "--db", db)
    found = list(csv.DictReader(out.read_text(encoding="utf-8-sig").splitlines()))
    assert [(one["warmth"], one["warmth_status"]) for one in found] == [("warm", "agreed")]
    assert "10 answers" in told("export", "--out", str(out), "--format", "votes-csv", "--db", db)


def test_what_a_person_gets_wrong(tmp_path: Path, told: Callable[..., str]) -> None:
    db = str(tmp_path / "a.db")
    source = tmp_path / "items.jsonl"
    assert "compeer annotate create makes one" in refused("status", "--db", db)
    assert "items.jsonl cannot be read" in refused("create", str(source), "--db", db)
    write_rows(source, [item(1, candidate=None)])
    assert "None of the 1 items has a candidate" in refused("create", str(source), "--db", db)
    write_rows(source, [item(1), item(1)])
    assert "d1#1 is there twice" in refused("create", str(source), "--db", db)
    write_rows(source, [item(1)])
    told("create", str(source), "--db", db)
    assert "already; choose another name" in refused("create", str(source), "--db", db)
    assert "annotator or coordinator" in refused("invite", "anna", "--role", "boss", "--db", db)
    assert "There is no zoe in this project" in refused("pause", "zoe", "--db", db)
    assert "cer, labels-csv, votes-csv, label-studio or potato" in refused(
        "export", "--out", str(tmp_path / "x"), "--format", "csv", "--db", db
    )
    (tmp_path / "export.json").write_text('[{"data": {}, "annotations": []}]')
    assert "--format label-studio" in refused("import", str(tmp_path / "export.json"), "--db", db)
    assert "holds no Potato answers" in refused("import", str(tmp_path), "--format", "potato", "--db", db)


def test_without_the_database_packages_the_command_says_what_to_install(tmp_path: Path) -> None:
    nothing = hide(tmp_path, "sqlalchemy")
    assert "Usage:" in compeer("annotate", "create", "--help", env=nothing).stdout
    missing = compeer("annotate", "status", env=nothing)
    assert missing.returncode == 1 and missing.stdout == "" and "Traceback" not in missing.stderr
    assert 'pip install "compeer-esc[studio]"' in missing.stderr
