"""Prompts of a benchmark, text files that a folder of the user's own can replace; and the files that others publish.

A file is `NAME.LANGUAGE.txt`. In it `{word}` is filled in; other braces are left alone, so that prompts from elsewhere
need no escaping. The folder given with `--prompts` may hold any of the files; the others stay ours. What a simulator
and a judge are told decides what a score means, so the hash of the prompts goes into every result.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.evals.result import TranscriptTurn
from compeer.reasoning.ontology import Language
from compeer.reward.conversation import quote

_PLACE = re.compile(r"\{([a-z_]+)\}")


class Prompts(msgspec.Struct, frozen=True):
    """All prompts of one benchmark, by file name without the suffix: "plan.zh"."""

    texts: dict[str, str]

    def text(self, name: str, language: Language, **given: str) -> str:
        """One prompt, filled in. Braces in what is filled in are left alone."""
        return _PLACE.sub(lambda place: given.get(place.group(1), place.group()), self.texts[f"{name}.{language}"])

    def digest(self, *, without: str = "") -> str:
        """The hash of the prompts; those called `without` (the supporter's, which belong to the model) are left out."""
        kept = {name: text for name, text in sorted(self.texts.items()) if name.partition(".")[0] != without}
        return hashlib.sha256(repr(kept).encode()).hexdigest()[:12]


def load_prompts(benchmark: str, folder: str | Path | None = None) -> Prompts:
    """The prompts of "sage", "esc_eval" or "safety"; UserError for a folder with unknown files or none."""
    shipped = files("compeer.evals") / benchmark / "prompts"
    texts = {
        file.name.removesuffix(".txt"): file.read_text("utf-8").strip("\n")
        for file in shipped.iterdir()
        if file.name.endswith(".txt")
    }
    return Prompts(texts | _replaced(Path(folder), texts)) if folder else Prompts(texts)


def published(place: str, option: str) -> Path:
    """A benchmark's own file or folder below $COMPEER_DATA; `option` names it otherwise."""
    data = os.environ.get("COMPEER_DATA")
    if not data:
        raise UserError(
            f"{place} does not come with this program. Give {option} with the published files, or set COMPEER_DATA to "
            "a folder that has them there."
        )
    return Path(data) / place


def quoted_dialogue(turns: Iterable[TranscriptTurn], speakers: Mapping[str, str], between: str = "\n") -> str:
    """What was said, each turn quoted below its speaker's name, so that a turn cannot give orders to its reader."""
    return between.join(f"{speakers[turn.speaker]}\n{quote(turn.text or '(nothing)')}" for turn in turns)


def _replaced(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    found = {file.name.removesuffix(".txt"): file for file in sorted(folder.glob("*.txt"))} if folder.is_dir() else {}
    names = ", ".join(f"{name}.txt" for name in sorted(known))
    if not found:
        raise UserError(f"{folder} holds no prompts. Files it may have: {names}.")
    if unknown := [file.name for name, file in found.items() if name not in known]:
        raise UserError(f"{folder} has {', '.join(unknown)}, which no prompt uses. Files it may have: {names}.")
    return {name: file.read_text("utf-8").strip("\n") for name, file in found.items()}
