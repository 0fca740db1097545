"""`compeer chat`: a conversation in the terminal.

The reply is what a person sees; the reasoning is one quiet line under it, and `/why` opens it. While the
model thinks, the line says which step it is at. Everything stays in memory unless `/save`. Ctrl-C stops
an answer, at the prompt it leaves; whatever a server sends or fails to send, the conversation goes on.

Reading the keyboard is plain `input` in the main thread, between answers: a thread that waits for a line
could not be stopped by Ctrl-C, and line editing belongs to the terminal.

Safety stands around each turn (`compeer.safety`): where someone may be in danger, the banner with the helpline comes
before the model is even asked, and a reply that must not be shown is replaced, which is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from compeer.chat.session import Conversation, Settings
from compeer.chat.view import WIDTH, chips, steps_view
from compeer.chat.wrap import Wrapped, plain
from compeer.errors import UserError
from compeer.models import Model
from compeer.reasoning import Control, Event, Pins
from compeer.reasoning.schema import KEYS
from compeer.safety import Before, Guarded
from compeer.safety.screen import ready

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
