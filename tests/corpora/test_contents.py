"""The table of contents: every corpus can be loaded by name, and the documentation says the same as the code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import compeer.corpora
from compeer.corpora import (
    CORPORA,
    CorpusError,
    avamerg,
    bundled,
    chinese,
    esconv,
    escot,
    load,
    mesc,
    open_cer,
    plain,
)

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_corpus_of_the_design_is_there() -> None:
    assert list(CORPORA) == [
        "esconv", "failed_esconv", "escot", "mesc", "avamerg", "soulchat", "smile", "cpsycoun", "emollm",
        "bundled", "open-cer", "plain",
    ]  # fmt: skip


def test_an_unknown_corpus_or_option_is_named() -> None:
    with pytest.raises(CorpusError, match="Known: esconv, failed_esconv"):
        load("escorv", Path("x"))
    with pytest.raises(CorpusError, match=r"no option media\. Its options: split"):
        load("esconv", Path("x"), media=Path("m"))


def test_the_documentation_lists_each_corpus_with_its_licence() -> None:
    licences = {
        "esconv": esconv.LICENCE,
        "failed_esconv": esconv.FAILED_LICENCE,
        "escot": escot.LICENCE,
        "mesc": mesc.LICENCE,
        "avamerg": avamerg.LICENCE,
        "soulchat": chinese.SOULCHAT_LICENCE,
        "smile": chinese.SMILE_LICENCE,
        "cpsycoun": chinese.CPSYCOUN_LICENCE,
        "emollm": chinese.EMOLLM_LICENCE,
        "bundled": bundled.LICENCE,
        "open-cer": open_cer.LICENCE,
        "plain": plain.LICENCE,
    }
    assert list(licences) == list(CORPORA)
    text = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
    for name, licence in licences.items():
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[4] == licence and set(cells[3].split(", ")) <= {"en", "zh"}


def test_every_importer_says_what_it_is_and_where_the_traps_are() -> None:
    for file in Path(compeer.corpora.__file__).parent.glob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), file


def test_the_command_imports_only_light_things_at_the_top() -> None:
    tree = ast.parse((REPOSITORY / "src" / "compeer" / "cli" / "corpus.py").read_text(encoding="utf-8"))
    names = {a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names}
    names |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert names <= {
        "__future__",
        "collections.abc",
        "compeer.cli.options",
        "compeer.errors",
        "contextlib",
        "pathlib",
        "typing",
        "typer",
    }
