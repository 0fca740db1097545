"""Where somebody who labels finds a person to talk to, on every page of theirs: they read painful things."""

from __future__ import annotations

import msgspec

from compeer.reasoning.ontology import Language
from compeer.studio.words import Say


class Line(msgspec.Struct, frozen=True):
    """Who, a number or a name to show, and the address behind it."""

    where: str
    shown: str
    address: str


def lines(say: Say) -> list[Line]:
    """Helplines in the order of the interface's language, then a directory for everywhere else."""
    known = {
        "en": Line(say("label.help.us"), "988", "tel:988"),
        "zh": Line(say("label.help.china"), "12356", "tel:12356"),
    }
    first: Language = say.language
    near = [known[first], *(line for language, line in known.items() if language != first)]
    return [*near, Line(say("label.help.elsewhere"), "findahelpline.com", "https://findahelpline.com")]
