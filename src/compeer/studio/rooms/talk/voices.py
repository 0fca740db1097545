"""The models one can talk with: each opened once, shared by everybody who talks.

Weights load with the first message, so a studio with several models starts at once.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from compeer.models import Model, open_model
from compeer.models.retry import Patience
from compeer.reasoning.prompt import Length
from compeer.studio.settings import Settings

#: someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
PATIENCE = Patience(attempts=4, longest=10, patience=120, timeout=120)


class Voice(msgspec.Struct, frozen=True):
    """One model, as it is shown: its name, and where what is written goes (None: nowhere but here)."""

    name: str
    place: str | None
    model: Model

    @property
    def small(self) -> bool:
        """The model that comes along: it works everywhere, and often makes no sense."""
        return self.model.name.startswith(("embedded", "hf:embedded"))

    @property
    def prompt(self) -> Length:
        return "brief" if self.small else "full"

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "place": self.place, "sees": self.model.sees, "small": self.small}


def voices(settings: Settings) -> list[Voice]:
    """Every model of the settings; ModelError where one cannot be named."""
    opened = [open_model(spec, base_url=settings.base_url, patience=PATIENCE) for spec in settings.models]
    return [_voice(model) for model in opened]


def _voice(model: Model) -> Voice:
    name, _, address = model.name.partition("@")
    _, _, short = name.partition(":")
    return Voice(short or name, urlsplit(address).netloc or None, model)
