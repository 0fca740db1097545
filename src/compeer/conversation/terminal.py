"""Text from a model on its way to a terminal: made harmless, and wrapped while it is still being written.

A server can send anything. Escape sequences that would move the cursor, change the title or hide text are
removed, so what a person sees is only ever text. Wrapping holds the last word back until it is finished:
a word is broken only when it is longer than a line. Chinese breaks between any two characters, but not
before a closing mark nor after an opening one.

How a turn looks in a terminal: quiet chips, the reasoning on request, problems in words.

`compeer chat`: a conversation in the terminal.

The reply is what a person sees; the reasoning is one quiet line under it, and `/why` opens it. While the
model thinks, the line says which step it is at. Everything stays in memory unless `/save`. Ctrl-C stops
an answer, at the prompt it leaves; whatever a server sends or fails to send, the conversation goes on.

Reading the keyboard is plain `input` in the main thread, between answers: a thread that waits for a line
could not be stopped by Ctrl-C, and line editing belongs to the terminal.

Safety stands around each turn (`compeer.safety`): where someone may be in danger, the banner with the helpline comes
before the model is even asked, and a reply that must not be shown is replaced, which is said.

One message, one answer: `compeer chat --once`.

The message is screened and the answer reviewed as in a conversation. Where someone may be in danger the helpline is
printed first, or stands in the JSON under `safety`, which is there only when there is something to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from compeer.conversation.session import Conversation, Settings, Turn, withheld
from compeer.errors import UserError
from compeer.models import Model, Reasoned, reason, run
from compeer.reasoning import LABELS, STEPS, Control, Event, Parsed, Pins, Problem, StreamParser, fields
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import KEYS, write_value
from compeer.safety import Before, Guarded
from compeer.safety.screen import ready

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequence: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # title, clipboard, device strings
    r"|\x1b[ -/]*[0-~]?"
)
# control characters except the line break and the tab, and the marks that reverse or hide the order of writing
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_WIDE = "\u2e80-\u2fff\u3040-\ua4cf\uac00-\ud7af\uf900-\ufaff"
_OPENING = "（《〈「『【〔“‘"
_CLOSING = "，。！？、；：）》〉」』】〕”’…—"
_UNIT = re.compile(  # a line break, white space, one wide character with its marks, or a word
    rf"\n|[^\S\n\u00a0]+|[{_OPENING}]*[{_WIDE}][{_CLOSING}]*|[{_OPENING}]*(?:[^\s{_WIDE}{_OPENING}]|\u00a0)+|[{_OPENING}]+"
)


def plain(text: str) -> str:
    r"""The text without anything that a terminal would obey.

    >>> plain("\x1b]0;title\x07be \x1b[31mcalm\x1b[0m\r\n\x9b2Jnow")
    'be calm\n2Jnow'
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", _ESCAPE.sub("", text)))


class Wrapped:
    """Writes text that arrives in pieces, at most `width` cells a line, each further line after `indent` spaces."""

    def __init__(self, write: Callable[[str], None], width: int, indent: int = 0) -> None:
        self._write, self._width, self._indent = write, max(10, width - indent), indent
        self._held = ""  # the last word, which may not be finished
        self._column = 0
        self._space = ""
        self._breaks = 0  # line breaks since the last word
        self._torn = False  # what comes next continues a word without end

    def feed(self, text: str) -> None:
        units = _UNIT.findall(self._held + text)
        *finished, self._held = units or [""]
        for unit in finished:
            self._put(unit)
        if len(self._held) > self._width:  # a word without end: what is certain to break is written now
            self._put(self._held)
            self._held, self._torn = "", True

    def finish(self) -> None:
        if self._held:
            self._put(self._held)
        self._held = ""

    def _put(self, unit: str) -> None:
        if unit == "\n":
            if self._breaks < 2 and (self._column or self._breaks):  # one empty line at most
                self._write("\n")
                self._breaks += 1
            self._column, self._space = 0, ""
        elif unit.isspace():
            self._space = " "
        elif word := plain(unit):
            self._word(word)
        self._torn = False

    def _word(self, word: str) -> None:
        if self._column and not self._torn and self._column + len(self._space) + cell_len(word) > self._width:
            self._write("\n")
            self._breaks, self._column = 1, 0
        if self._breaks:
            self._write(" " * self._indent)
        if self._column and self._space:
            self._write(self._space)
            self._column += 1
        self._space, self._breaks = "", 0
        while word:
            room = self._width - self._column
            piece = _fitting(word, room)
            self._write(piece)
            self._column += cell_len(piece)
            word = word[len(piece) :]
            if word:
                self._write("\n" + " " * self._indent)
                self._column = 0


def _fitting(word: str, room: int) -> str:
    """The beginning of a word that fits into so many cells: at least one character."""
    if cell_len(word) <= room:
        return word
    end = 1
    while cell_len(word[: end + 1]) <= room:
        end += 1
    return word[:end]


#: cells of a line that is pleasant to read, where the terminal is wider
WIDTH = 88

TITLES: dict[Language, dict[str, str]] = {
    "en": {"history": "What they face", "emotion": "What they feel", "strategy": "What would help"},
    "zh": {"history": "面对什么", "emotion": "感受如何", "strategy": "怎样有帮助"},
}


def chips(parsed: Parsed) -> str:
    """The conclusions in one quiet line, in the language of the thinking.

    >>> from compeer.reasoning import parse
    >>> chips(parse("<think>"))
    'no reasoning'
    """
    named = _named(parsed)
    if "emotion" in named and "intensity" in named:
        named["emotion"] += f" {named['intensity']}/5"
    return " · ".join(named[label] for label in ("stage", "emotion", "strategy") if label in named) or "no reasoning"


def steps_view(parsed: Parsed) -> RenderableType:
    """The three steps, read as thinking: title, text, conclusions."""
    named, titles = _named(parsed), TITLES[parsed.language or "en"]
    rows: list[RenderableType] = []
    for number, step in enumerate(STEPS, start=1):
        title = Text(f"{number} {titles[step]}", style="bold")
        title.append("   " + " · ".join(named[label] for label in LABELS[step] if label in named), style="cyan")
        rows.append(title)
        rows.append(_paragraph(parsed.texts.get(step, "")))
        rows.append(Text())
    rows.pop()
    return Group(*rows)


def reasoning_panel(parsed: Parsed, problems: Sequence[Problem] | None = None) -> RenderableType:
    """Everything about one output: the steps, the reply, and what is wrong with it."""
    found = parsed.problems if problems is None else problems
    parts: list[RenderableType] = [
        steps_view(parsed),
        Text(),
        Text("Reply", style="bold"),
        _paragraph(parsed.response),
        Text(),
    ]
    if found:
        parts.append(Text("Not complete:", style="bold red"))
        parts += [Padding(Text(f"- {plain(problem)}"), (0, 0, 0, 2)) for problem in found]
    else:
        parts.append(Text("complete", style="green"))
    return Group(*parts)


def _paragraph(text: str) -> RenderableType:
    return Padding(Text(plain(text) or "(nothing)"), (0, 0, 0, 2))


def _named(parsed: Parsed) -> dict[str, str]:
    """The conclusions as a person of this language names them."""
    language = parsed.language or "en"
    return {label: write_value(label, value, language) for label, value in parsed.labels.items()}


HELP = """/why                  the thinking behind the last reply
/again [key=value …]  another answer to your last message, with these conclusions fixed
/edit STEP TEXT       rewrite a step (history, emotion, strategy) and continue from there
/pin key=value …      fix stage, sentiment, emotion, intensity or strategy from now on
/unpin [key …]        release them
/save FILE            write the conversation to a file
/new                  forget everything and begin again
/quit                 leave (Ctrl-D does too); Ctrl-C stops an answer"""

THINKING = {
    "history": "reading what was said",
    "emotion": "listening for the feeling",
    "strategy": "choosing how to help",
}
NAME = "Supporter"


def talk(model: Model, settings: Settings, guarded: Guarded | None = None) -> None:
    """The loop: read, answer, until the person leaves."""
    console = Console(highlight=False)
    conversation = Conversation(model, settings, guarded)
    conversation.on_before = lambda before: _say_before(console, before)
    _greet(console, conversation)
    threading.Thread(target=ready, daemon=True).start()  # the lexicon is read while the person writes
    with asyncio.Runner() as runner:  # one loop for the whole conversation: connections belong to it
        try:
            while (line := _read(console)) is not None:
                try:
                    runner.run(_respond(console, conversation, line))
                except UserError as error:
                    _say_error(console, conversation, error)
                except KeyboardInterrupt:
                    console.print(Text("Stopped. /again answers your message after all.", style="dim"))
        finally:
            runner.run(model.close())
            if conversation.guarded.guard is not None:
                runner.run(conversation.guarded.guard.close())
    console.print(Text("\nTake care.", style="dim"))


def _greet(console: Console, conversation: Conversation) -> None:
    name = conversation.model.name
    _, at, address = name.partition("@")
    place = f"goes to {plain(address)}" if at else "stays on this machine"
    console.print(Text(conversation.guarded.notice(conversation.settings.language or "en")))
    console.print(Text(f"What you write {place}; it is forgotten here unless you /save it.", style="dim"))
    if name.startswith(("embedded", "hf:embedded")):
        said = "The model that comes along is tiny: it shows how such a model thinks, and it often makes no sense."
        console.print(Text(said, style="dim"))
    console.print()
    console.print(Text("/why shows its thinking, /pin strategy=question steers it, /help lists the rest.", style="dim"))
    if conversation.settings.pins.items():
        _say_pins(console, conversation.settings.pins)


def _read(console: Console) -> str | None:
    """What the person writes; None when they leave."""
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  arrow keys and history; the marks tell it that the style takes no room
            bold, normal = ("\001\033[1m\002", "\001\033[0m\002") if console.color_system else ("", "")
            print()
            line = input(f"{bold}You{normal}  ").strip()
        else:
            line = input().strip()
            console.print(Text(f"\nYou  {plain(line)}"))
    except (EOFError, KeyboardInterrupt):
        return None
    return None if line in ("/quit", "/exit", "/q") else line


async def _respond(console: Console, conversation: Conversation, line: str) -> None:
    await asyncio.sleep(0.001)  # the loop stood still at the prompt: notice which connections were closed meanwhile
    if line.startswith("/"):
        await _command(console, conversation, line)
    elif line:
        await _show(console, conversation, conversation.say(line))


def _say_before(console: Console, before: Before) -> None:
    """What must be seen whatever the model does: the helpline, or a word about a break."""
    if before.banner is not None:
        console.print()
        console.print(Text(before.banner.words, style="bold"), width=min(console.width, WIDTH))
        for line in before.banner.lines:
            console.print(Text(f"  {line}", style="bold"))
    if before.reminder is not None:
        console.print(Text(before.reminder, style="dim"), width=min(console.width, WIDTH))


def _say_after(console: Console, conversation: Conversation, left: int) -> None:
    """What became of the answer: held back, or followed by a question of ours."""
    safety, width = conversation.turns[-1].safety, min(console.width, WIDTH)
    if safety.note is not None:
        console.print(Padding(Text(safety.note, style="dim"), (0, 0, 0, left)), width=width)
    if safety.error is not None:
        console.print(Text(plain(safety.error), style="red"), width=width)
    if safety.banner is not None:
        console.print(Padding(Text("\n".join(safety.banner.lines)), (0, 0, 0, left)), width=width)
    if safety.check_in is not None:
        console.print(Padding(Text(safety.check_in), (0, 0, 0, left)), width=width)


async def _show(console: Console, conversation: Conversation, events: AsyncIterator[Event]) -> None:
    """Stream one answer: the step being thought as a status, then the reply word by word."""
    status = console.status("[dim]thinking[/dim]", spinner_style="dim")
    reply = Wrapped(lambda text: console.out(text, end="", highlight=False), min(console.width, WIDTH), len(NAME) + 2)
    speaking = False
    status.start()
    try:
        async for event in events:
            if event.kind == "step" and event.step and not speaking:
                status.update(f"[dim]{THINKING[event.step]}[/dim]")
            elif event.kind == "reply":
                if not speaking:
                    status.stop()
                    console.print(Text(f"\n{NAME}  ", style="bold cyan"), end="")
                    speaking = True
                reply.feed(event.text)
        reply.finish()
    finally:
        status.stop()
        if speaking:
            console.print()
    turn = conversation.turns[-1]
    if not speaking:
        missing = "It thought, but said nothing." if turn.raw.strip() else "The model sent nothing at all."
        console.print(Text(f"{missing} /again asks once more.", style="dim"))
    left = len(NAME) + 2 if speaking else 0
    _say_after(console, conversation, left)
    if turn.safety.replaced:
        return
    line = f"{chips(turn.parsed)}   /why"
    if turn.problems:
        line += f"   (not complete: {plain(turn.problems[0])})"
    console.print(Padding(Text(line, style="dim"), (0, 0, 0, left)), width=min(console.width, WIDTH))


async def _command(console: Console, conversation: Conversation, line: str) -> None:
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    settings = conversation.settings
    if name == "/why":
        if not conversation.turns:
            raise UserError("Nothing has been answered yet.")
        console.print(steps_view(conversation.turns[-1].parsed), width=min(console.width, WIDTH))
    elif name == "/again":
        await _show(console, conversation, conversation.again(Control(_merged(settings.pins, rest))))
    elif name == "/edit":
        step, _, text = rest.partition(" ")
        if not text.strip():
            raise UserError("Write /edit STEP TEXT, for example: /edit emotion She is ashamed rather than angry.")
        await _show(console, conversation, conversation.edit(step.lower(), text.strip()))
    elif name == "/pin":
        settings.pins = _merged(settings.pins, rest)
        _say_pins(console, settings.pins)
    elif name == "/unpin":
        released = {_known(word) for word in rest.replace(",", " ").split()} or set(KEYS)
        settings.pins = Pins.of({key: value for key, value in settings.pins.items() if key not in released})
        _say_pins(console, settings.pins)
    elif name == "/save":
        if not rest:
            raise UserError("Write /save FILE.")
        console.print(Text(f"Saved to {plain(str(conversation.save(rest)))}.", style="dim"))
    elif name == "/new":
        conversation.forget()
        console.print(Text("Forgotten.", style="dim"))
    elif name == "/help":
        console.print(Text(HELP))
    else:
        raise UserError(f"There is no command {name}. /help lists them.")


def _say_error(console: Console, conversation: Conversation, error: UserError) -> None:
    console.print(Text(plain(str(error)), style="red"))
    if conversation.unanswered is not None:
        console.print(Text("Your message is kept: /again sends it once more.", style="dim"))


def _pairs(text: str) -> list[str]:
    """`strategy=reflection of feelings emotion=fear` as pairs: a value reaches to the next key."""
    pairs: list[str] = []
    for word in text.split():
        if "=" in word or not pairs:
            pairs.append(word)
        else:
            pairs[-1] += " " + word
    return pairs


def _merged(pins: Pins, text: str) -> Pins:
    new = Pins.parse(_pairs(text))
    # a new emotion brings its own sentiment
    kept = {key: value for key, value in pins.items() if not (new.emotion and key == "sentiment")}
    return Pins.of(kept | dict(new.items()))


def _known(word: str) -> str:
    """The label that a person means by a word, in either language."""
    for label, names in KEYS.items():
        if word.casefold() in (label, *names.values()):
            return label
    raise UserError(f"There is no pin {word!r}. What can be pinned: {', '.join(KEYS)}.")


def _say_pins(console: Console, pins: Pins) -> None:
    shown = ", ".join(f"{key}={value}" for key, value in pins.items()) or "nothing"
    console.print(Text(f"Pinned: {shown}.", style="dim"))


def answer_once(model: Model, text: str, settings: Settings, *, as_json: bool, guarded: Guarded | None = None) -> None:
    """Print the answer; with JSON, every field of the contract and what is wrong with it, if anything."""
    conversation = Conversation(model, settings, guarded)
    before, turn = run(_ask(conversation, text))
    problems = [str(problem) for problem in turn.problems]
    if as_json:
        answer = fields(turn.parsed, turn.raw) | {"complete": not problems, "problems": problems}
        print(json.dumps(answer | _safety(before, turn), ensure_ascii=False, indent=2))
        return
    console = Console()
    for banner in filter(None, (before.banner, turn.safety.banner)):
        console.print(Text(f"{banner}\n", style="bold"))
    console.print(reasoning_panel(turn.parsed, turn.problems))
    for line in filter(None, (turn.safety.error, turn.safety.check_in)):
        console.print(Text(line))


async def _ask(conversation: Conversation, text: str) -> tuple[Before, Turn]:
    model, guarded = conversation.model, conversation.guarded
    control = Control(conversation.settings.pins)
    results: list[Reasoned] = []

    async def events() -> AsyncIterator[Event]:
        result = await reason(model, request, control)
        results.append(result)
        parser = StreamParser()
        for event in (*parser.feed(result.raw), *parser.finish()):
            yield event

    try:
        before = await guarded.before(text, conversation.language(text))
        request = conversation.request(text, control, [], before.guidance)
        async for _ in guarded.stream(events()):
            pass
    finally:
        await model.close()
        if guarded.guard is not None:
            await guarded.guard.close()
    raw, problems = (results[0].raw, results[0].problems) if results else ("", ())
    parser = StreamParser()
    parser.feed(raw)
    return before, withheld(Turn(text, raw, parser.parsed, problems, control, safety=guarded.after()))


def _safety(before: Before, turn: Turn) -> dict[str, Any]:
    safety = turn.safety
    if before.risk.level == "none" and not safety.replaced and not safety.hidden:
        return {}
    banner = before.banner or safety.banner
    said = {
        "level": before.risk.level,
        "kinds": before.risk.kinds,
        "banner": str(banner) if banner else None,
        "replaced": safety.replaced,
        "note": safety.note,
        "error": safety.error,
        "check_in": safety.check_in,
    }
    return {"safety": said}
