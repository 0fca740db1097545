"""The small bilingual corpus that ships inside: the project's own conversations, with reasoning.

65 English and 26 Chinese conversations; every supporter turn carries stage, emotion, intensity and
strategy, and 330 of them the full three-step reasoning. Licence CC BY 4.0 (LICENSE.md beside this file). They are
written in a literary voice and marked so (`extra["voice"]`): a voice to read. A model that learned from it answered
worse in blind reading, so training leaves it out by default; `open_cer` is what models learn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compeer.dialogue import Dialogue, read
from compeer.reasoning.ontology import LANGUAGES, Language

LICENCE = "CC BY 4.0"


def load(language: Language | None = None) -> Iterator[Dialogue]:
    """The bundled dialogues, in one language or in both."""
    for one in LANGUAGES if language is None else (language,):
        yield from read(Path(__file__).with_name(f"{one}.jsonl"))


def load_corpus(path: Path, language: Language | None = None) -> Iterator[Dialogue]:
    """The importer. `path` is unused: the files lie beside this one."""
    return load(language)
