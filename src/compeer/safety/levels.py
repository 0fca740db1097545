"""Levels of danger, and the risk that is kept in mind over a conversation.

    none        nothing found
    watch       a listener would keep it in mind: a hint, a past attempt, worry about someone
    high        someone may be in danger: a wish to die, self-harm, means asked for, abuse
    emergency   means in hand, something taken, a weapon, a wound, a plan for now

What kind of danger is a second question (`Danger`): suicide and self-harm, a child who is hurt, violence of a partner,
violence against others. Each has words and helplines of its own.

Risk is sticky. How it moves with each message of the person:

    up      at once, to the level that was read
    down    one level, when the person has been asked about their safety and said no, and some messages in a row
            after that gave no cause for worry (`CALM`, by level); then as many again for the next level
    denial  "just kidding", "I'm fine now" without having been asked: neither lowers the level nor counts as calm

Without a question and an answer it never comes down: silence about a subject is not safety.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec

Level = Literal["none", "watch", "high", "emergency"]
Danger = Literal["suicide", "child_abuse", "partner_violence", "violence_to_others"]
LEVELS: tuple[Level, ...] = get_args(Level)
DANGERS: tuple[Danger, ...] = get_args(Danger)

#: word lists, replies, helplines and weights of this package
DATA = Path(__file__).with_name("data")
#: messages in a row without cause for worry, after the person was asked and said no
CALM: dict[Level, int] = {"none": 0, "watch": 2, "high": 4, "emergency": 4}
#: hints that together are read as high; a finding of level watch counts one, a weak hint half
HINTS_ARE_HIGH = 2.5
HINTS_ARE_WATCH = 1.0

#: kinds of findings that only suspect danger. `vague`: it sounds heavy and no more. `intake`: something was taken, and
#: not what. `bare`: means or a farewell in a message of a few words. `unanswered`: a question about safety was not
#: answered; that is kept in mind, and does not add up
SUSPECTED = frozenset({"hint", "mention", "third", "vague", "intake", "bare", "unanswered"})

#: kinds of findings, and the danger that each belongs to; every other kind belongs to suicide
DANGER_OF: dict[str, Danger] = {
    "child_abuse": "child_abuse",
    "partner_violence": "partner_violence",
    "violence": "violence_to_others",
}


def worst(*levels: Level) -> Level:
    """The highest of some levels.

    >>> worst("none", "high", "watch")
    'high'
    """
    return max(levels, key=LEVELS.index, default="none")


def at_least(level: Level, bar: Level) -> bool:
    """Whether a level reaches another.

    >>> at_least("emergency", "high"), at_least("watch", "high")
    (True, False)
    """
    return LEVELS.index(level) >= LEVELS.index(bar)


def lower(level: Level) -> Level:
    """One level down."""
    return LEVELS[max(0, LEVELS.index(level) - 1)]


class Span(msgspec.Struct, frozen=True):
    """A part of a message that says something. `start` and `end` count characters as it was written."""

    start: int
    end: int
    kind: str
    level: Level


class Finding(msgspec.Struct, frozen=True):
    """What one message tells.

    `hint`: how much it adds to the hints of the conversation. `denied`: it says that there is no danger. `other`: it
    tells of someone else. `past`: of a time that is over.
    """

    level: Level = "none"
    kinds: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    denied: bool = False
    other: bool = False
    past: bool = False
    hint: float = 0.0

    def __or__(self, further: Finding) -> Finding:
        """Both findings as one; the higher level counts, and whose danger it is goes with it."""
        first, second = sorted((self, further), key=lambda one: -LEVELS.index(one.level))
        return Finding(
            first.level,
            tuple(dict.fromkeys((*first.kinds, *second.kinds))),
            first.spans + second.spans,
            self.denied or further.denied,
            first.other if first.level != "none" else first.other or second.other,
            first.past if first.level != "none" else first.past or second.past,
            max(self.hint, further.hint),
        )


def _taken_back(risk: Risk) -> Level:
    return "none" if risk.level in ("none", "watch") or set(risk.kinds) <= SUSPECTED else "watch"


class Risk(msgspec.Struct, frozen=True):
    """What is known of the danger so far.

    `dangers`: kinds of danger, the latest first. `kinds`: kinds of findings so far. `about_other`: only someone else is
    in danger. `hints`: their sum. `asked`: the person was asked about safety since the last cause for worry, and said
    no. `calm`: messages in a row since then without cause for worry.
    """

    level: Level = "none"
    kinds: tuple[str, ...] = ()
    dangers: tuple[Danger, ...] = ()
    about_other: bool = False
    hints: float = 0.0
    asked: bool = False
    calm: int = 0

    @property
    def danger(self) -> Danger:
        return self.dangers[0] if self.dangers else "suicide"

    def after(self, finding: Finding, *, said_no: bool = False, explained: bool = False) -> Risk:
        """The risk once another message has been read. `said_no`: it answers a question about safety with no.
        `explained`: with a harmless reason, which takes back what was only suspected and nothing that was told.

        >>> risk = Risk().after(Finding("high", ("wish",)))
        >>> risk.after(Finding(denied=True)).level
        'high'
        """
        hints = self.hints + (finding.hint if finding.level == "none" else max(finding.hint, 1.0))
        level = finding.level
        if finding.kinds == ("unanswered",) and level == "watch":
            hints = self.hints
        elif level in ("none", "watch"):
            added = "high" if hints >= HINTS_ARE_HIGH else "watch" if hints >= HINTS_ARE_WATCH else "none"
            if finding.hint or finding.level == "watch":
                level = worst(level, added)  # type: ignore[arg-type]
        if level != "none":
            return self._raised(finding, level, hints)
        if explained and not {"selfharm", "plan", "means"} & set(self.kinds):
            return msgspec.structs.replace(
                Risk() if self.level == "watch" else self, level=_taken_back(self), asked=True
            )
        if said_no:
            return msgspec.structs.replace(self, asked=True, calm=0, hints=0.0)
        if self.level == "none" or finding.denied or not self.asked:
            return self if hints == self.hints else msgspec.structs.replace(self, hints=hints)
        if self.calm + 1 < CALM[self.level]:
            return msgspec.structs.replace(self, calm=self.calm + 1)
        down = lower(self.level)
        return Risk() if down == "none" else msgspec.structs.replace(self, level=down, calm=0, hints=0.0)

    def _raised(self, finding: Finding, level: Level, hints: float) -> Risk:
        kinds = finding.kinds or ("hint",)
        named = [DANGER_OF.get(kind, "suicide") for kind in kinds if kind not in ("denial", "bereaved")]
        if level == "watch" and self.dangers and at_least(self.level, "high"):
            dangers = tuple(dict.fromkeys((*self.dangers, *named)))  # a hint does not change the subject
        else:
            dangers = tuple(dict.fromkeys((*named, *self.dangers)))
        return Risk(
            worst(self.level, level),
            tuple(dict.fromkeys((*self.kinds, *kinds))),
            dangers,
            (finding.other and (self.about_other or self.level == "none"))
            or (self.about_other and set(kinds) <= {"unanswered"}),  # no answer says nothing of whom it is about
            hints,
        )
