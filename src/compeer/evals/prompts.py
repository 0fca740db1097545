"""Prompts of a benchmark: text files of our own, each replaceable from a folder.

A file is `NAME.LANGUAGE.txt`. In it `{word}` stands for what is filled in; other braces are left alone, so that
prompts from elsewhere need no escaping. A folder given with `--prompts` may hold any of the files; those it does not
hold stay ours. What a simulator and a judge are told decides what a score means, so its hash goes into every result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import Language

_PLACE = re.compile(r"\{([a-z_]+)\}")


class Prompts(msgspec.Struct, frozen=True):
    """All prompts of one benchmark, by file name without the suffix: "plan.zh"."""

    texts: dict[str, str]

    def text(self, name: str, language: Language, **given: str) -> str:
        """One prompt, filled in. What is filled in is not looked at again."""
        return _PLACE.sub(lambda place: given.get(place.group(1), place.group()), self.texts[f"{name}.{language}"])

    def digest(self, *, without: str = "") -> str:
        """The hash of the prompts, those called `without` (the supporter's, which belong to the model) left out."""
        kept = {name: text for name, text in sorted(self.texts.items()) if name.partition(".")[0] != without}
        return hashlib.sha256(repr(kept).encode()).hexdigest()[:12]


def load_prompts(benchmark: str, folder: Path | None = None) -> Prompts:
    """The prompts of "sage" or "esc_eval"; UserError for a folder that replaces nothing, or something unknown."""
    shipped = files("compeer.evals") / benchmark / "prompts"
    texts = {
        file.name.removesuffix(".txt"): _plain(file.read_text("utf-8"))
        for file in shipped.iterdir()
        if file.name.endswith(".txt")
    }
    return Prompts(texts | _replaced(folder, texts)) if folder else Prompts(texts)


def _replaced(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    found = {file.name.removesuffix(".txt"): file for file in sorted(folder.glob("*.txt"))} if folder.is_dir() else {}
    names = ", ".join(f"{name}.txt" for name in sorted(known))
    if not found:
        raise UserError(f"{folder} holds no prompts. It may have any of {names}.")
    if strange := [file.name for name, file in found.items() if name not in known]:
        raise UserError(f"{folder} has {', '.join(strange)}, which nobody asks for. It may have any of {names}.")
    return {name: _plain(file.read_text("utf-8")) for name, file in found.items()}


def _plain(text: str) -> str:
    return text.strip("\n")
