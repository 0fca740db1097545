"""Reading an output while it is being written, so that a chat can show a step as it grows.

Feed chunks of any size; events come back as soon as they are certain. Text that may still become a tag
or a labelled line is held until it is decided, so a tag never reaches a person. The deltas of a complete
output join to exactly what `parse` finds in the whole.

`MarkupFilter` and `StopStrings` are for what a person is shown of it: fed pieces, they return what is certain and hold
back what is not decided yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from compeer.reasoning.parse import Parsed, parse
from compeer.reasoning.schema import (
    LONGEST_TAG,
    STEPS,
    TAG,
    TAG_BEGINNING,
    could_become_label_line,
    match_label_line,
    read_value,
)

Kind = Literal["step", "text", "label", "close", "reply"]


class Event(msgspec.Struct, frozen=True):
    """`step` opens and `close` ends a step; `text` and `reply` carry deltas; `label` a finished labelled line."""

    kind: Kind
    step: str | None = None
    text: str = ""
    label: str | None = None
    value: str | int | None = None


class StreamParser:
    """Incremental reader. `feed` chunks, then `finish`; `parsed` judges the whole at any time."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._pending = ""  # may still become a tag
        self._where: str = "before"  # before | between | reply | a step's name
        self._thought = False  # a <think> was opened
        self._held: list[str] = []  # the beginning of a line inside a step that is or may become a labelled one
        self._line: Literal["new", "free", "label"] = "new"  # what the current line inside a step has turned out to be
        self._space: list[str] = []  # white space held back until text follows it
        self._started = False  # something was shown in the current step or reply
        self._concluded = False  # the current step has reached its labelled lines
        self._replied = False  # some reply was shown
        self._last_step: str | None = None

    @property
    def raw(self) -> str:
        return "".join(self._pieces)

    @property
    def parsed(self) -> Parsed:
        return parse(self.raw)

    def feed(self, chunk: str) -> list[Event]:
        self._pieces.append(chunk)
        return self._consume(self._pending + chunk, final=False)

    def finish(self) -> list[Event]:
        """The end of the output: whatever was held is decided now."""
        events = self._consume(self._pending, final=True)
        if self._where in STEPS:
            events += self._end_step()
        return events

    def _consume(self, text: str, *, final: bool) -> list[Event]:
        events: list[Event] = []
        position = 0
        for tag in TAG.finditer(text):
            events += self._text(text[position : tag.start()])
            events += self._tag(tag.group(1) + tag.group(2).lower())
            position = tag.end()
        held = None if final else TAG_BEGINNING.search(text, max(position, len(text) - LONGEST_TAG))
        end = held.start() if held else len(text)
        self._pending = text[end:]
        return events + self._text(text[position:end])

    def _tag(self, name: str) -> list[Event]:
        if self._where == "reply" and self._thought:
            # a tag of ours inside the reply: never shown; `parsed` reports it
            return self._shown("reply", None, "\n")
        if name == "/think":
            events = self._end_step() if self._where in STEPS else []
            self._enter("reply")
            return events
        events = self._end_step() if self._where in STEPS else []
        if name == "think":
            self._thought = True
            self._enter("between")
        elif name.startswith("/"):
            self._enter("between")
        else:
            self._last_step = name
            self._enter(name)
            events.append(Event("step", name))
        return events

    def _enter(self, where: str) -> None:
        self._where = where
        self._held, self._line = [], "new"
        self._started = self._concluded = False
        # what was taken for the reply and then turned out to stand before it is kept apart from it
        self._space = ["\n"] if where == "reply" and self._replied else []

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._where in STEPS:
            return self._step_text(text)
        if self._where == "reply":
            return self._shown("reply", None, text)
        if text.strip() and (self._where == "before" or self._last_step == "strategy"):
            # no <think> at all, or one that is never closed: what follows is the reply
            self._enter("reply")
            return self._shown("reply", None, text)
        return []

    def _step_text(self, text: str) -> list[Event]:
        """Free text is passed on as it comes; a line that may become a labelled one is held until it is decided."""
        step = self._where
        events: list[Event] = []
        free: list[str] = []
        *finished, last = text.split("\n")
        for piece in finished:
            label = self._end_line(step, piece, free)
            if label:
                events += self._free(step, "".join(free))
                events.append(label)
                self._concluded = True
                free.clear()
            free.append("\n")
        self._begin_line(step, last, free)
        return events + self._free(step, "".join(free))

    def _begin_line(self, step: str, piece: str, free: list[str]) -> None:
        """More of a line that is not finished yet."""
        if self._line == "free":
            free.append(piece)
        elif self._line == "label":
            self._held.append(piece)
        else:
            line = "".join(self._held) + piece
            begun = line.lstrip()
            free.append(line[: len(line) - len(begun)])
            self._held = [begun] if begun else []
            if match_label_line(step, begun):
                self._line = "label"
            elif begun and not could_become_label_line(step, begun):
                free.append(begun)
                self._held, self._line = [], "free"

    def _end_line(self, step: str, piece: str, free: list[str]) -> Event | None:
        """The rest of a line: a label, or more free text."""
        line = "".join(self._held) + piece
        match = match_label_line(step, line) if line and self._line != "free" else None
        self._held, self._line = [], "new"
        if match is None:
            free.append(line)
            return None
        label, language, written = match
        return Event("label", step, written, label=label, value=read_value(label, written, language))

    def _free(self, step: str, text: str) -> list[Event]:
        return [] if self._concluded else self._shown("text", step, text)

    def _end_step(self) -> list[Event]:
        step = self._where
        free: list[str] = []
        label = self._end_line(step, "", free)
        return [*([label] if label else self._free(step, "".join(free))), Event("close", step)]

    def _shown(self, kind: Kind, step: str | None, text: str) -> list[Event]:
        """A delta, without white space at the beginning or the end of the whole."""
        if not self._started:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            if self._started:
                self._space.append(text)
            return []
        delta = "".join(self._space) + body
        self._space = [text[len(body) :]]
        self._started = True
        self._replied = self._replied or kind == "reply"
        return [Event(kind, step, delta)]


#: longer than any tag that a reply could hold by mistake; beyond it a "<" is not waited for any more
LONGEST_MARKUP = 300
_OPENS = re.compile(r"<(?=[A-Za-z/!?<]|\Z)")  # "<<" too: taking out "<b>" must not close up "<<b>script>"
_MARKUP = re.compile(rf"<[A-Za-z/!?][^<>]{{0,{LONGEST_MARKUP - 3}}}>")
_CONTRACT_TAG = re.compile(r"(</?(?:think|history|emotion|strategy)>)")


class MarkupFilter:
    """Removes markup, because a reply is plain words. Whatever looks like a tag (`<script>`, `</div>`, `<!--`) is
    removed, and a `<` that might still open one gets a blank behind it, so that no client that shows the text as a page
    can be made to run something. `<3` and `a < b` stay."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        """What is certain now. With `final` nothing is held back any more."""
        text, self._held = self._held + piece, ""
        if "<" not in text:
            return text
        out: list[str] = []
        place = 0
        while (opened := _OPENS.search(text, place)) is not None:
            start = opened.start()
            out.append(text[place:start])
            tag = _MARKUP.match(text, start)
            if tag is not None:
                place = tag.end()
            elif not final and len(text) - start < LONGEST_MARKUP and "<" not in text[start + 1 :]:
                self._held = text[start:]
                return "".join(out)
            else:  # no tag, or none that ends: shown, but not as one
                out.append("< " if start + 1 < len(text) else "<")
                place = start + 1
        return "".join(out) + text[place:]


def without_markup(text: str) -> str:
    """A whole text without markup."""
    return MarkupFilter().feed(text, final=True)


def without_foreign_markup(text: str) -> str:
    """A text about an output: the contract's own tags stay, because the text names them.

    >>> without_foreign_markup("there is no <history> step<script>")
    'there is no <history> step'
    """
    parts = _CONTRACT_TAG.split(text)
    return "".join(part if place % 2 else without_markup(part) for place, part in enumerate(parts))


class StopStrings:
    """Passes text on up to the first of some stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stop for stop in stops if stop)
        self.reached = False
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        if self.reached:
            return ""
        text, self.reached = before_stop(self._held + piece, self.stops)
        certain = len(text) if final or self.reached else certain_length(text, self.stops)
        self._held = text[certain:]
        return text[:certain]


def before_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text up to the first stop string, and whether there was one."""
    cuts = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(cuts, default=len(text))], bool(cuts)


def certain_length(text: str, stops: Sequence[str]) -> int:
    """How many characters of a growing text cannot be the beginning of a stop string.

    >>> certain_length("and so\\nUs", ["\\nUser:"]), certain_length("and so", ["\\nUser:"])
    (6, 6)
    """
    open_ends = [size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
    return len(text) - max(open_ends, default=0)
