"""`compeer annotate` as a person uses it, from items to labels, and what it says when something is wrong."""

from __future__ import annotations

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
    assert "cer or label-studio or potato" in refused(
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
