"""Risk is sticky: what was said once is kept in mind, and one "I'm fine" does not clear it.

How it moves, message by message of the person:

    up      at once, to the level of the finding
    down    one level after `CALM` messages in a row in which nothing is found and nothing is denied:
            high to watch, and after as many again watch to none
    denial  ("I was joking", 当我没说) is no calm message: it neither lowers the level nor counts towards lowering it

So a person who takes it back and asks for a recipe is still answered with care for a while, and a long conversation
about other things is not treated as a crisis for ever. A new conversation starts at none.
"""

from __future__ import annotations

import msgspec

from compeer.safety.screen import Finding, Level, worst

CALM = 8


class Risk(msgspec.Struct, frozen=True):
    """What is known of the danger so far. `calm`: messages in a row without any finding."""

    level: Level = "none"
    kinds: tuple[str, ...] = ()
    calm: int = 0

    def after(self, finding: Finding) -> Risk:
        """The risk once another message has been read.

        >>> from compeer.safety.screen import screen
        >>> risk = Risk().after(screen("I want to kill myself"))
        >>> risk.after(screen("lol just kidding, I'm fine")).level
        'high'
        """
        if finding.level != "none":
            kinds = tuple(dict.fromkeys((*self.kinds, *finding.kinds)))
            return Risk(worst(self.level, finding.level), kinds, 0)
        if self.level == "none" or finding.denied:
            return self
        if self.calm + 1 < CALM:
            return msgspec.structs.replace(self, calm=self.calm + 1)
        return Risk("watch", self.kinds) if self.level == "high" else Risk()
