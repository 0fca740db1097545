"""Reading an output while it is being written, so that a chat can show a step as it grows.

Feed chunks of any size; events come back as soon as they are certain. Text that may still become a tag
or a labelled line is held until it is decided, so a tag never reaches a person. The deltas of a complete
output join to exactly what `parse` finds in the whole.
"""

from __future__ import annotations

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
