"""Names of files, modules, classes and functions that the pages mention exist.

Checked between back quotes: dotted names that begin with `compeer.`, and paths that end in .py or begin with a folder
of the repository. A path may be relative to the repository or to src/compeer, and may hold `*`. Checked in blocks of
code: `from compeer… import …`. Nothing is imported: names are looked up in the source, so that torch is not loaded.
CHANGELOG.md is left out, because it names what is gone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, blocks

SRC = ROOT / "src"
CHECKED = [page for page in PAGES if page.name != "CHANGELOG.md"]
_PATH = re.compile(r"(?:src|tests|configs|runs|benchmarks|docs)/[\w./*-]+|[\w/*-]+\.py")
#: made by a user or by a run, not part of the repository
_MADE = re.compile(r"runs/(?!miniature|safety|readings|sweep)")


def quoted(text: str) -> Iterator[str]:
    """What stands between back quotes in sentences and tables."""
    for block in blocks(text):
        if block.language:
            text = text.replace(block.text, "")
    yield from re.findall(r"`([^`\n]+)`", text)


def path_exists(path: str) -> bool:
    for folder in (ROOT, SRC / "compeer"):
        if any(folder.glob(path.rstrip("/"))):
            return True
    return "/" not in path and any(SRC.rglob(path))


def name_exists(dotted: str) -> bool:
    """A module, or what a module defines or imports, or what one of its classes defines."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        base = SRC.joinpath(*parts[:length])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if file.is_file():
            return _defined(ast.parse(file.read_text(encoding="utf-8")).body, parts[length:])
    return False


def _defined(body: list[ast.stmt], names: list[str]) -> bool:
    if not names:
        return True
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == names[0]:
            return _defined(node.body, names[1:])
        bound: set[str] = set()
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound = {one.asname or one.name for one in node.names}
        elif isinstance(node, ast.Assign):
            bound = {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound = {node.target.id}
        if names[0] in bound:
            return True
    return False


def imports(text: str) -> Iterator[str]:
    """The names that Python in blocks of code imports from us."""
    for block in blocks(text):
        for module, names in re.findall(r"^\s*from (compeer[\w.]*) import (.+)$", block.text, re.MULTILINE):
            yield from (f"{module}.{name.strip()}" for name in names.split(","))


def unknown(text: str) -> list[str]:
    found = [one for one in imports(text) if not name_exists(one)]
    for one in quoted(text):
        if re.fullmatch(r"compeer(?:\.\w+)+", one):
            found += [] if name_exists(one) else [one]
        elif _PATH.fullmatch(one) and not _MADE.match(one):
            found += [] if path_exists(one) else [one]
    return found


#: pages that are being rewritten; take a page out of here once it is done
REWRITTEN: set[str] = set()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.xfail(reason="being rewritten")) if page.name in REWRITTEN else page
        for page in CHECKED
    ],
    ids=lambda page: page.name,
)
def test_every_file_and_name_on_a_page_exists(page: Path) -> None:
    assert not (wrong := unknown(page.read_text(encoding="utf-8"))), f"{page.relative_to(ROOT)}: {', '.join(wrong)}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`compeer.reasoning.parse`, `compeer.reward.case.Case`, `compeer.people.labelling`", []),
        ("`compeer.policy.redundancy.reweight`, `compeer.reward.client.JudgeClient.judge_all`", []),
        ("`compeer.reward.case.Docket`", ["compeer.reward.case.Docket"]),
        ("`compeer.reward.homes`", ["compeer.reward.homes"]),
        ("Code:\n\n    from compeer.reasoning import parse, prase\n", ["compeer.reasoning.prase"]),
        ("`reward/case.py`, `src/compeer/reward`, `tests/docs/test_*.py`, `run.py`, `runs/out/judge`", []),
        ("`reward/homes/trie.py` and `tests/nowhere`", ["reward/homes/trie.py", "tests/nowhere"]),
    ],
)
def test_the_check_can_fail(text: str, wrong: list[str]) -> None:
    assert unknown(text) == wrong
