from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compeer.cli.corpus import app
from compeer.corpora import CORPORA
from compeer.dialogue import read
from compeer.errors import UserError

KNOWN = f"nope: there is no such corpus. Known: {', '.join(CORPORA)}"
CHAT = {"messages": [{"role": "user", "content": "I am low."}, {"role": "assistant", "content": "Tell me."}]}


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def corpus(put: Any, tmp_path: Path) -> Path:
    put("in.jsonl", [CHAT, {"messages": []}, {**CHAT, "id": "mine"}])
    done = run("import", "plain", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    assert done.exit_code == 0, done.output
    return tmp_path / "out.jsonl"


def test_import_prints_what_it_came_to(put: Any, tmp_path: Path) -> None:
    put("in.jsonl", [CHAT, {"messages": []}])
    done = run("import", "plain", tmp_path / "in.jsonl", "-o", tmp_path / "o.jsonl", "--rejects", tmp_path / "r.jsonl")
    assert done.exit_code == 0
    for words in ("imported", "rejected", "there is no utterance", "line 2", "unmapped"):
        assert words in done.stdout
    assert (tmp_path / "r.jsonl").read_text().count("\n") == 1


def test_import_as_json_with_a_limit(put: Any, tmp_path: Path) -> None:
    put("in.jsonl", [CHAT] * 9)
    done = run("import", "plain", tmp_path / "in.jsonl", "--out", tmp_path / "o.jsonl.gz", "--limit", 4, "--json")
    assert json.loads(done.stdout)["imported"] == 4
    assert len(list(read(tmp_path / "o.jsonl.gz"))) == 4


def test_import_to_standard_output(put: Any, tmp_path: Path) -> None:
    put("in.jsonl", [CHAT])
    done = run("import", "plain", tmp_path / "in.jsonl", "--out", "-", "--licence", "CC0", "--json")
    assert json.loads(done.stdout)["licence"] == "CC0"  # only the record
    assert json.loads(done.stderr)["imported"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "plain", "absent.jsonl", "--out", "o.jsonl"), "absent.jsonl: there is no such file or folder"),
        (("import", "nope", "x", "--out", "o.jsonl"), KNOWN),
        (("import", "nope", "--out", "o.jsonl"), KNOWN),
        (("import", "nope"), KNOWN),
        (("import", "esconv", "x", "--out", "o.jsonl", "--media", "m"), "has no option media"),
        (("stats", "absent.jsonl"), "absent.jsonl"),
        (("show", "absent.jsonl"), "absent.jsonl"),
    ],
)
def test_mistakes_are_said_in_a_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 1
    assert isinstance(done.exception, UserError) and message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_stats(corpus: Path, tmp_path: Path) -> None:
    done = run("stats", corpus, "--plot", tmp_path / "figure.svg")
    assert done.exit_code == 0 and "mean 1.0, 1 to 1" in done.stdout and "not given 2" in done.stdout
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    assert json.loads(run("stats", corpus, "--json").stdout)["dialogues"] == 2


def test_stats_of_a_broken_file_names_the_line(put: Any) -> None:
    done = run("stats", put("broken.jsonl", '{"id": "a"}\n'))
    assert done.exit_code == 1 and "broken.jsonl, line 1 (record a)" in str(done.exception)


@pytest.mark.parametrize("which", ["mine", "1"])
def test_show_by_id_or_index(corpus: Path, which: str) -> None:
    done = run("show", corpus, which)
    assert done.exit_code == 0 and "mine" in done.stdout and "I am low." in done.stdout
    assert json.loads(run("show", corpus, which, "--json").stdout)["id"] == "mine"


def test_show_what_is_not_there(corpus: Path) -> None:
    done = run("show", corpus, "7")
    assert done.exit_code == 1 and "there is no dialogue '7'" in str(done.exception)


def test_a_real_corpus_from_end_to_end(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "mesc.jsonl"
    done = run("import", "mesc", data / "mesc", "--split", "val", "--out", out, "--json")
    summary = json.loads(done.stdout)
    assert (summary["imported"], summary["rejected"], summary["strategies_mapped"]) == (102, 0, 1001)
    assert summary["strategies_unmapped"] == {}
    assert json.loads(run("stats", out, "--json").stdout)["described"] == 2714
