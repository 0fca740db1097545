"""Role cards: JSON lists of people with a problem, one file a language.

The seven dimensions: the key in ESC-Eval's code and files, and the paper's column.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import Language
from compeer.typed import from_json

DIMENSIONS: dict[str, str] = {
    "fluency": "Fluency",
    "diversity": "Expression",
    "empathic": "Empathy",
    "suggestion": "Information",
    "tech": "Skillful",
    "human": "Humanoid",
    "overall": "Overall",
}
AVERAGE = "Average"
SCALE = 25.0  # 0 to 4 is published as 0 to 100


FILES = ("card_high_en.json", "card_high_zh.json")
_LANGUAGES: dict[str, Language] = {"english": "en", "chinese": "zh", "en": "en", "zh": "zh"}


class Card(msgspec.Struct, frozen=True):
    """One person, in the fields of the released files."""

    id: int | str
    base: str  # age, gender, occupation, problem
    language: Literal["english", "chinese", "en", "zh"]
    source: str = ""
    res: str = ""  # the topic

    @property
    def tongue(self) -> Language:
        return _LANGUAGES[self.language]


def load_cards(
    paths: Sequence[Path] = (), *, exclude: Sequence[str] = (), language: Language | None = None
) -> list[Card]:
    """The cards of some files; by default both released ones below $COMPEER_DATA. `exclude` names sources."""
    if not paths:
        data = os.environ.get("COMPEER_DATA")
        if not data:
            raise UserError(
                "ESC-Eval's role cards do not come with this program. Give --cards FILE (once a language, JSON of the "
                f"ESC-Eval repository), or set COMPEER_DATA to a folder that has esc_eval/{FILES[0]} and {FILES[1]}."
            )
        paths = [Path(data) / "esc_eval" / name for name in FILES]
    cards = [card for path in paths for card in _read(path)]
    sources = {card.source.casefold(): card.source for card in cards}
    if strange := [name for name in exclude if name.casefold() not in sources]:
        raise UserError(f"No card comes from {', '.join(strange)}. Sources: {', '.join(sorted(sources.values()))}.")
    left_out = {name.casefold() for name in exclude}
    kept = [card for card in cards if card.source.casefold() not in left_out and language in (None, card.tongue)]
    names = [case_id(card) for card in kept]
    if len(set(names)) < len(names):
        raise UserError(f"The card {max(names, key=names.count)} is there twice; give each file once.")
    if not kept:
        raise UserError("No card is left. Look at --exclude-source and --language.")
    return kept


def case_id(card: Card) -> str:
    """The name of a card in a run.

    >>> case_id(Card(id=7, base="", language="english"))
    'en-7'
    """
    return f"{card.tongue}-{card.id}"


def alternating(cards: Sequence[Card], limit: int | None = None) -> list[Card]:
    """The cards with the languages taking turns, so that a short run meets both; the first `limit` of them."""
    queues = [[card for card in cards if card.tongue == language] for language in ("en", "zh")]
    turns = [card for pair in zip_longest(*queues) for card in pair if card is not None]
    return turns[:limit]


def _read(path: Path) -> list[Card]:
    try:
        return from_json(path.read_bytes(), list[Card])
    except FileNotFoundError:
        raise UserError(f"{path} is not there. --cards takes a JSON list of ESC-Eval's role cards.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no list of role cards: {error}.") from None
