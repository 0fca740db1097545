"""The house stays as docs/design.md describes it: import order, no cycles, true package docstrings, no private imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "compeer"

#: names that begin with an underscore, or that are documented as internal, and why each is used
PRIVATE_IMPORTS: dict[str, str] = {}


def order() -> list[str]:
    """The import order as docs/design.md lists it, between its two markers."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- import order -->(.*?)<!-- end -->", text, re.DOTALL)
    assert found, "docs/design.md has no import order between its markers"
    return re.findall(r"^\| `([a-z_]+)` \|", found[1], re.MULTILINE)


def modules() -> dict[str, Path]:
    """Dotted names below `compeer` and their files."""
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(("compeer", *parts))] = path
    return found


MODULES = modules()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(node: ast.stmt) -> Iterator[str]:
    """The modules of ours that a statement imports."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "compeer":
        for name in node.names:
            below = f"{node.module}.{name.name}"
            yield below if below in MODULES else node.module
    elif isinstance(node, ast.Import):
        yield from (name.name for name in node.names if name.name.split(".")[0] == "compeer")


def part(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


def test_every_part_has_a_place_in_the_import_order() -> None:
    parts = {part(name) for name in MODULES} - {""}
    assert parts == set(order())


def test_a_part_imports_only_what_stands_before_it() -> None:
    place = {name: index for index, name in enumerate(order())}
    wrong = []
    for name, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom | ast.Import):
                for other in imported(node):
                    if part(name) and part(other) and place[part(other)] > place[part(name)]:
                        wrong.append(f"{name} imports {other} (line {node.lineno})")
    assert not wrong, "\n".join(wrong)


def test_no_cycle_between_modules() -> None:
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        graph[name] = {other for node in tree(path).body for other in imported(node) if other != name}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, "cycle: " + " -> ".join((*way[way.index(name) :], name))
        if name in done:
            return
        for other in graph.get(name, ()):
            # a package that lists its modules and a module that is in it are one chapter and its table of contents
            if other.startswith(name + ".") or name.startswith(other + "."):
                continue
            visit(other, (*way, name))
        done.add(name)

    for name in graph:
        visit(name, ())


PACKAGES = sorted(SRC.rglob("__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.parent.relative_to(SRC)))
def test_a_package_docstring_names_its_modules_and_no_others(path: Path) -> None:
    there = {one.stem for one in path.parent.glob("*.py")} - {"__init__", "__main__"}
    there |= {one.parent.name for one in path.parent.glob("*/__init__.py")}
    text = ast.get_docstring(tree(path)) or ""
    assert text, "a package says what it is for"
    listed = set(re.findall(r"^ {0,4}([a-z][a-z0-9_]*) {2,}\S", text, re.MULTILINE))
    assert there <= listed, f"not in the docstring: {sorted(there - listed)}"
    assert listed <= there, f"in the docstring, but gone: {sorted(listed - there)}"


def test_no_private_names_of_training_and_evaluation_libraries() -> None:
    found = []
    for name, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("trl", "inspect_ai"):
                for one in node.names:
                    dotted = f"{node.module}.{one.name}"
                    private = any(piece.startswith("_") for piece in dotted.split("."))
                    if private and dotted not in PRIVATE_IMPORTS:
                        found.append(f"{name}: {dotted}")
    assert not found, "\n".join(found)


def test_no_file_without_a_subject() -> None:
    vague = {"utils", "helpers", "common", "misc", "shared", "base"}
    assert not [name for name in MODULES if name.rpartition(".")[2] in vague]


def test_size_of_the_house() -> None:
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in MODULES.values())
    # Aimed at: 42,000 lines, 47,000 with what the other open issues add. Not reached: 51,200 before the rooms of labelling,
    # the report's figures, the environments and the Responses API (5,300) came, and seven passes since found little that
    # no user reaches. From here it may only shrink.
    assert len(MODULES) <= 250
    assert lines <= 52_300
