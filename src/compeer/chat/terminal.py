"""`compeer chat`: a conversation in the terminal.

The reply is what a person sees; the reasoning is one quiet line under it, and `/why` opens it. While the
model thinks, the line says which step it is at. Everything stays in memory unless `/save`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from compeer.chat.session import Conversation, Settings
from compeer.chat.view import chips, steps_view
from compeer.errors import UserError
from compeer.models import Model
from compeer.reasoning import Control, Event, Pins

NOTICE = """This is a research program, not a person and not a therapist. Nothing you write is kept.
If you are in danger or thinking of ending your life, please reach a person now:
US and Canada 988 · China 12356 · elsewhere findahelpline.com

/why shows its thinking, /pin strategy=question steers it, /help lists the rest."""

HELP = """/why                 the thinking behind the last reply
/again [key=value …] another answer to your last message, with these conclusions fixed
/edit STEP TEXT      rewrite a step (history, emotion, strategy) and continue from there
/pin key=value …     fix stage, sentiment, emotion, intensity or strategy from now on
/unpin [key …]       release them
/save FILE           write the conversation to a file
/new                 forget everything and begin again
/quit                leave"""

THINKING = {"history": "reading what was said", "emotion": "listening for the feeling", "strategy": "choosing how to help"}


def talk(model: Model, settings: Settings) -> None:
    """The loop: read, answer, until the person leaves."""
    asyncio.run(_talk(model, settings))


async def _talk(model: Model, settings: Settings) -> None:
    console = Console()
    conversation = Conversation(model, settings)
    console.print(Text(NOTICE, style="dim"))
    console.print()
    try:
        while True:
            try:
                line = (await asyncio.to_thread(console.input, "[bold]You[/bold]  ")).strip()
            except (EOFError, KeyboardInterrupt):
                break
            if line in ("/quit", "/exit", "/q"):
                break
            if not line:
                continue
            try:
                if line.startswith("/"):
                    await _command(console, conversation, line)
                else:
                    await _show(console, conversation, conversation.say(line))
            except UserError as error:
                console.print(Text(str(error), style="red"))
    finally:
        await model.close()
    console.print("\n[dim]Take care.[/dim]")


async def _show(console: Console, conversation: Conversation, events: AsyncIterator[Event]) -> None:
    """Stream one answer: the step being thought as a status, then the reply word by word."""
    status = console.status("[dim]thinking[/dim]")
    status.start()
    speaking = False
    try:
        async for event in events:
            if event.kind == "step" and event.step:
                status.update(f"[dim]{THINKING[event.step]}[/dim]")
            elif event.kind == "reply":
                if not speaking:
                    status.stop()
                    console.print("\n[bold cyan]Supporter[/bold cyan]  ", end="")
                    speaking = True
                console.print(Text(event.text), end="", soft_wrap=True)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("\n[dim]Stopped.[/dim]")
        return
    finally:
        status.stop()
    turn = conversation.turns[-1]
    if not speaking:
        console.print("[dim]It gave no reply. Try /again.[/dim]")
    line = f"{chips(turn.parsed)}   /why"
    if turn.problems:
        line += f"   (not complete: {turn.problems[0]})"
    console.print(Padding(Text(line, style="dim"), (0, 0, 1, 0)) if not speaking else Text("\n" + line + "\n", style="dim"))


async def _command(console: Console, conversation: Conversation, line: str) -> None:
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    settings = conversation.settings
    if name == "/why":
        if not conversation.turns:
            raise UserError("Nothing has been said yet.")
        console.print(steps_view(conversation.turns[-1].parsed))
    elif name == "/again":
        pins = _merged(settings.pins, rest.split()) if rest else settings.pins
        await _show(console, conversation, conversation.again(Control(pins)))
    elif name == "/edit":
        step, _, text = rest.partition(" ")
        if not text.strip():
            raise UserError("Write /edit STEP TEXT, for example: /edit emotion She is ashamed rather than angry.")
        await _show(console, conversation, conversation.edit(step, text.strip()))
    elif name == "/pin":
        if rest:
            settings.pins = _merged(settings.pins, _pairs(rest))
        _say_pins(console, settings.pins)
    elif name == "/unpin":
        kept = {key: value for key, value in settings.pins.items() if rest and key not in rest.split()}
        settings.pins = Pins.of(kept)
        _say_pins(console, settings.pins)
    elif name == "/save":
        if not rest:
            raise UserError("Write /save FILE.")
        console.print(f"[dim]Saved to {conversation.save(rest)}.[/dim]")
    elif name == "/new":
        conversation.turns.clear()
        console.print("[dim]Forgotten.[/dim]")
    elif name == "/help":
        console.print(Text(HELP))
    else:
        raise UserError(f"There is no command {name}. /help lists them.")


def _pairs(text: str) -> list[str]:
    """`strategy=reflection of feelings emotion=fear` as pairs: a value reaches to the next key."""
    pairs: list[str] = []
    for word in text.split():
        if "=" in word or not pairs:
            pairs.append(word)
        else:
            pairs[-1] += " " + word
    return pairs


def _merged(pins: Pins, pairs: list[str]) -> Pins:
    new = Pins.parse(_pairs(" ".join(pairs)))
    # a new emotion brings its own sentiment
    kept = {key: value for key, value in pins.items() if not (new.emotion and key == "sentiment")}
    return Pins.of(kept | dict(new.items()))


def _say_pins(console: Console, pins: Pins) -> None:
    shown = ", ".join(f"{key}={value}" for key, value in pins.items()) or "nothing"
    console.print(f"[dim]Pinned: {shown}.[/dim]")
