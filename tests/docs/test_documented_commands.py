"""Every command that a page shows exists, has the options shown and takes the words shown.

Nothing is run here: the words go through the real command line's own parser, all in this process. What is cheap is
really run by `test_getting_started`.
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from functools import cache
from typing import Any

import pytest
from tests.docs.pages import ROOT, Command, commands, mentions
from typer.exceptions import TyperException


@cache
def root() -> Any:
    from typer.main import get_command

    from compeer.cli import app

    return get_command(app)


def found(words: list[str]) -> tuple[Any, Any, list[str]]:
    """The command that some words name, a context to parse in, and what is left of the words."""
    command: Any = root()
    context = command.make_context("compeer", [], resilient_parsing=True)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words[0]]
        context, words = command.make_context(words[0], [], parent=context, resilient_parsing=True), words[1:]
    return command, context, words


def check_compeer(words: list[str]) -> None:
    """Through the parser of the command itself: unknown options, missing ones and values of the wrong kind fail."""
    command, context, rest = found(words)
    if hasattr(command, "commands"):
        assert rest in (["--help"], ["--version"]) or not words, f"there is no command {' '.join(words)}"
        return
    command.make_context(context.info_name, list(rest), parent=context.parent)


def check_python(words: list[str]) -> None:
    module, *rest = words
    if module.partition(".")[0] not in ("compeer", "benchmarks", "runs", "tests"):
        return  # another project's
    assert importlib.util.find_spec(module), f"there is no module {module}"
    if module == "benchmarks":
        from benchmarks.__main__ import _parser
        from benchmarks.catalogue import NAMES

        given = _parser().parse_args(rest)
        assert {*given.names, *(given.only or []), *(given.skip or [])} <= {*NAMES, "list", "table"}
    elif (main := ROOT.joinpath(*module.split("."), "__main__.py")).exists():
        known = set(re.findall(r'"(--[a-z-]+)"', main.read_text(encoding="utf-8")))
        assert {word for word in rest if word.startswith("--")} <= known


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in words:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target} is shown but not there"


def check_pip(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        if own := re.fullmatch(r"(?:compeer|\.)\[(.*)\]", word):
            assert set(own[1].split(",")) <= set(extras), f"{word}: the package has the extras {', '.join(extras)}"


def check(command: Command) -> None:
    words = command.words
    if words[0] == "compeer":
        check_compeer(words[1:])
    elif words[:2] == ["python", "-m"]:
        check_python(words[2:])
    elif words[0] == "make":
        check_make(words[1:])
    elif words[:2] == ["pip", "install"]:
        check_pip(words[2:])
    elif words[0] == "accelerate" and "compeer.cli" in words:
        check_compeer(words[words.index("compeer.cli") + 1 :])
    elif words[0] == "inspect":
        assert words[2] in ("compeer/sage", "compeer/esc_eval", "compeer/vera_mh"), "the package has no other tasks"
    for word in words:
        if word.startswith("configs/"):
            assert (ROOT / word).is_file(), f"there is no {word}"


@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_command_that_is_shown_can_be_given_as_it_stands(command: Command) -> None:
    try:
        check(command)
    except Exception as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        pytest.fail(f"{command}\n{type(error).__name__}: {said}")


@pytest.mark.parametrize("command", mentions(), ids=str)
def test_a_command_in_a_sentence_exists_with_its_options(command: Command) -> None:
    text = re.sub(r"\s+#.*|…", "", command.text)
    words = text.split()
    if words[0] != "compeer":
        check(Command(command.page, command.line, text))
        return
    one, context, rest = found([word for word in words[1:] if word != "|"])
    assert context.parent is not None or rest in ([], ["--help"]), f"{command}: there is no such command"
    options = {name for parameter in one.params for name in (*parameter.opts, *parameter.secondary_opts)}
    shown = {word.partition("=")[0] for word in re.findall(r"--[\w-]+", " ".join(rest))}
    assert shown <= options | {"--help"}, f"{command}: there is no {', '.join(shown - options)}"


def test_a_wrong_command_is_noticed() -> None:
    """The check itself can fail, in each of the ways in which a page can be wrong."""
    for text in (
        "compeer cropus import bundled --out x",
        "compeer corpus import bundled --uot x",
        "compeer corpus import bundled",
        "compeer corpus import bundled --out x --limit few",
        "compeer policy grpo configs/policy/none.yaml",
        "python -m benchmarks jugde",
        "python -m benchmarks.none",
        "make tset",
        'pip install ".[everything]"',
        "accelerate launch --num_processes 2 -m compeer.cli policy gpro configs/policy/one-gpu.yaml",
    ):
        with pytest.raises((AssertionError, TyperException)):
            check(Command("page", 1, text))
