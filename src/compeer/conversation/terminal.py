"""`compeer chat`: a conversation in the terminal, and `--once`: one message, one answer.

The reply is what a person sees; the reasoning is one quiet line under it, and `/why` opens it. While the model thinks,
a status line says which step it is at. Everything stays in memory unless `/save`. Ctrl-C stops an answer; at the prompt
it leaves. Whatever a server sends or fails to send, the conversation goes on.

Where someone may be in danger, help is shown before the model is asked, the emergency number first; the reasoning is
hidden until the risk is lower (`/why`, `/again` and `/edit` say so).

Lines are read with plain `input` in the main thread, between answers: a thread that waits for a line could not be
stopped by Ctrl-C. Line editing is readline's. A pasted text of several lines is one message: GNU readline marks a
paste; elsewhere lines that are already waiting belong to the one before.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import get_args

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from compeer.conversation.display import WIDTH, WORDS, Wrapped, chips, plain, reasoning_panel, steps_view
from compeer.conversation.engine import (
    Assessed,
    Done,
    HistoryTurn,
    TurnEvent,
    TurnResult,
    help_shown,
    language_of,
    safety_fields,
    warm_up,
)
from compeer.conversation.session import ChatSession, ChatSettings, answer_fields, with_pins
from compeer.errors import UserError
from compeer.models import Model, run
from compeer.models.embedded import Embedded
from compeer.models.spec import is_small
from compeer.models.weights import BASE
from compeer.reasoning import STEPS, Control, Pins
from compeer.reasoning.control import label_named
from compeer.reasoning.ontology import INTENSITIES, VOCABULARIES, Language
from compeer.reasoning.prompt import Think
from compeer.reasoning.schema import KEYS
from compeer.safety import Assessment, ConversationGuard

HELP = Path(__file__).with_name("help.txt").read_text(encoding="utf-8").rstrip()
#: times that the model is asked for one complete answer, where only one is wanted
ATTEMPTS = 3
AWAY = "The thinking is hidden while you may be in danger. Write what is on your mind; the help above is there."


def talk(model: Model, settings: ChatSettings, guard: ConversationGuard | None = None) -> None:
    """Read a line, answer it, until the person leaves."""
    console = Console(highlight=False)
    session = ChatSession(model, settings, guard)
    _greet(console, session)
    threading.Thread(target=warm_up, daemon=True).start()  # the lexicons are read while the person writes
    with asyncio.Runner() as runner:  # one loop for the whole conversation: connections belong to it
        try:
            while (line := _read(console)) is not None:
                try:
                    runner.run(_respond(console, session, line))
                except UserError as error:
                    _show_error(console, session, error)
                except KeyboardInterrupt:
                    console.print(Text("Stopped. /again answers your message after all.", style="dim"))
        finally:
            runner.run(session.close())
    if session.assessment.urgent:  # no small word of goodbye to who may be in danger
        console.print()
        _show_help(console, session.assessment)
    else:
        console.print(Text("\nTake care.", style="dim"))


def answer_once(
    model: Model,
    text: str,
    settings: ChatSettings,
    *,
    as_json: bool,
    guard: ConversationGuard | None = None,
) -> None:
    """Print one answer; with JSON, every field of the contract and what is wrong with it, if anything."""
    sampling = msgspec.structs.replace(settings.sampling, attempts=ATTEMPTS)
    session = ChatSession(model, msgspec.structs.replace(settings, sampling=sampling), guard)

    async def ask() -> None:
        try:
            async with aclosing(session.say(text)) as events:
                async for _ in events:
                    pass
        finally:
            await session.close()

    run(ask())
    result = session.turns[-1].answer
    if as_json:
        found = answer_fields(result)
        if result.assessment.level != "none" or result.outcome.replaced or result.outcome.hidden:
            found["safety"] = safety_fields(result.assessment, result)
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    _show_help(console, result.assessment)
    if result.assessment.urgent or result.outcome.replaced:
        console.print(Text(f"\n{plain(result.reply)}\n"))
        _show_outcome(console, result, 0)
        return
    if settings.sampling.think == "off":
        console.print(Text(f"\n{plain(result.reply)}\n"))
        return
    console.print(reasoning_panel(result.parsed, result.problems))


def _greet(console: Console, session: ChatSession) -> None:
    name = session.model.name
    _, at, address = name.partition("@")
    place = f"goes to {plain(address)}" if at else "stays on this machine"
    console.print(Text("\n".join(session.guard.notice(session.settings.language or "en"))))
    console.print(Text(f"What you write {place}; it is forgotten here unless you /save it.", style="dim"))
    if is_small(name):
        small = "This model is very small: it shows how such a model thinks, and it often makes no sense."
        console.print(Text(small, style="dim"))
        if isinstance(session.model, Embedded) and session.model.stands_in:
            session.model.stands_in = False  # said here, so not once more when it is loaded
            console.print(Text(f"The larger one: compeer models get {BASE.name} ({BASE.about})", style="dim"))
    console.print()
    console.print(Text("/why shows its thinking, /pin strategy=question steers it, /help lists the rest.", style="dim"))
    if session.settings.pins.items():
        _show_pins(console, session.settings.pins)


def _read(console: Console) -> str | None:
    """What the person writes; None when they leave."""
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            marked = _line_editing()
            # the marks tell readline that the style takes no room
            bold, normal = ("\001\033[1m\002", "\001\033[0m\002") if console.color_system and marked else ("", "")
            print()
            lines = [input(f"{bold}You{normal}  ")]
            while not marked and select.select([sys.stdin], [], [], 0.05)[0]:
                lines.append(input())
            line = "\n".join(lines).strip()
        else:
            line = input().strip()
            console.print(Text(f"\nYou  {plain(line)}"))
    except (EOFError, KeyboardInterrupt):
        return None
    return None if line in ("/quit", "/exit", "/q") else line


def _line_editing() -> bool:
    """Arrow keys, history, Tab; whether a pasted text of several lines is marked as one."""
    try:
        import readline
    except ImportError:
        return sys.platform == "win32"  # whose console cannot be asked for waiting lines
    gnu = "libedit" not in (readline.__doc__ or "")

    def complete(begun: str, number: int) -> str | None:
        return dict(enumerate(completions(readline.get_line_buffer(), begun))).get(number)

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete" if gnu else "bind ^I rl_complete")
    if gnu:
        readline.parse_and_bind("set enable-bracketed-paste on")
    return gnu


def completions(line: str, begun: str) -> list[str]:
    """What Tab offers for `begun`, the last word of a line: commands, then what the command takes.

    >>> completions("/pi", "/pi"), completions("/pin str", "str"), completions("/pin strategy=reflection o", "o")
    (['/pin'], ['strategy='], ['of feelings'])
    """
    command, space, rest = line.partition(" ")
    words: list[str] = []
    if not space:
        words = [one.split()[0] for one in HELP.splitlines()] if begun.startswith("/") else []
    elif command == "/think":
        words = list(get_args(Think))
    elif command == "/unpin":
        words = list(KEYS)
    elif command == "/edit":
        words = list(STEPS) if rest == begun else []
    elif command in ("/pin", "/again"):
        key, equals, value = rest[rest.rfind(" ", 0, max(rest.rfind("="), 0)) + 1 :].partition("=")
        label = next((one for one, names in KEYS.items() if key.casefold() in (one, *names.values())), None)
        if equals and label:
            chinese = key == KEYS[label]["zh"]
            known = [one.zh if chinese else one.id for one in VOCABULARIES.get(label, ())] or map(str, INTENSITIES)
            done = len(f"{key}={value}") - len(begun)  # words of a value before this one
            words = [f"{key}={one}"[done:] for one in known if one.startswith(value)]
        if "=" not in begun:
            words += [f"{name}=" for label, names in KEYS.items() for name in (label, names["zh"])]
    return [word for word in words if word.startswith(begun)]


async def _respond(console: Console, session: ChatSession, line: str) -> None:
    await asyncio.sleep(0.001)  # the loop stood still at the prompt: notice which connections were closed meanwhile
    if line.startswith("/"):
        await _command(console, session, line)
    elif line:
        await _show(console, _language(session, line), session.say(line))


def _language(session: ChatSession, said: str | None = None) -> Language:
    """The language of the answer to come, as the session will choose it."""
    past = session.history(session.turns)
    last = HistoryTurn("seeker", said) if said else session.unanswered
    return session.settings.language or language_of([*past, *([last] if last else [])])


async def _command(console: Console, session: ChatSession, line: str) -> None:
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    settings = session.settings
    if name == "/why":
        if not session.turns:
            raise UserError("Nothing has been answered yet.")
        if session.assessment.urgent:
            raise UserError(AWAY)
        if not session.turns[-1].answer.parsed.texts and session.turns[-1].answer.parsed.complete:
            raise UserError("It did not think before this reply. /think full lets it think again.")
        console.print(steps_view(session.turns[-1].answer.parsed), width=min(console.width, WIDTH))
    elif name == "/again":
        control = Control(with_pins(settings.pins, _pins(rest)))
        await _show(console, _language(session), session.again(control))
    elif name == "/edit":
        step, _, text = rest.partition(" ")
        if not text.strip():
            raise UserError("Write /edit STEP TEXT, for example: /edit emotion She is ashamed rather than angry.")
        if session.assessment.urgent:
            raise UserError(AWAY)
        await _show(console, _language(session), session.edit(step.lower(), text.strip()))
    elif name == "/pin":
        settings.pins = with_pins(settings.pins, _pins(rest))
        _show_pins(console, settings.pins)
    elif name == "/unpin":
        released = {label_named(word) for word in rest.replace(",", " ").split()} or set(KEYS)
        settings.pins = Pins.of({key: value for key, value in settings.pins.items() if key not in released})
        _show_pins(console, settings.pins)
    elif name == "/think":
        if rest not in get_args(Think):
            raise UserError(f"Write /think {', /think '.join(get_args(Think))}. Now it is {settings.sampling.think}.")
        settings.sampling = msgspec.structs.replace(settings.sampling, think=rest)
        console.print(Text(f"Thinking: {rest}.", style="dim"))
    elif name == "/save":
        if not rest:
            raise UserError("Write /save FILE.")
        console.print(Text(f"Saved to {plain(str(session.save(rest)))}.", style="dim"))
    elif name == "/new":
        session.forget()
        console.print(Text("Forgotten.", style="dim"))
    elif name == "/help":
        console.print(Text(HELP))
        console.print(Text("\n".join(("", *session.guard.notice(settings.language or "en")[2:]))))
    else:
        raise UserError(f"There is no command {name}. /help lists them.")


async def _show(console: Console, language: Language, events: AsyncGenerator[TurnEvent, None]) -> None:
    """Stream one answer: help first where it is needed, the step being thought as a status, the reply by the word."""
    shown = WORDS["answer"][language]
    left = cell_len(shown["name"]) + 2
    status = console.status(f"[dim]{shown['thinking']}[/dim]", spinner_style="dim")
    reply = Wrapped(lambda text: console.out(text, end="", highlight=False), min(console.width, WIDTH), left)
    speaking = False
    result: TurnResult | None = None
    try:
        async with aclosing(events) as pieces:
            async for event in pieces:
                if isinstance(event, Assessed):
                    _show_help(console, event.assessment)
                    status.start()
                elif isinstance(event, Done):
                    result = event.result
                elif event.kind == "step" and event.step and not speaking:
                    status.update(f"[dim]{shown[event.step]}[/dim]")
                elif event.kind == "reply":
                    if not speaking:
                        status.stop()
                        console.print(Text(f"\n{shown['name']}  ", style="bold cyan"), end="")
                        speaking = True
                    reply.feed(event.text)
        reply.finish()
    finally:
        status.stop()
        if speaking:
            console.print()
    assert result is not None
    if not speaking:
        console.print(Text(shown["silent" if result.raw.strip() else "nothing"], style="dim"))
        left = 0
    _show_outcome(console, result, left)
    if result.assessment.urgent or result.outcome.replaced:
        return
    line = f"{chips(result.parsed)}   /why" if result.parsed.texts or result.problems else ""
    if result.problems:
        line += "   " + shown["incomplete"].format(plain(result.problems[0]))
    if line:
        console.print(Padding(Text(line, style="dim"), (0, 0, 0, left)), width=min(console.width, WIDTH))


def _show_help(console: Console, assessment: Assessment) -> None:
    """What must be seen whatever the model does: the emergency number, helplines, a word about a break."""
    width = min(console.width, WIDTH)
    lines = help_shown(assessment)
    if lines:
        console.print()
    for line in lines:
        shown = Text(line, style="bold" if assessment.urgent else "dim")
        if assessment.urgent and assessment.help and assessment.help.emergency_href:
            shown.highlight_words([assessment.help.emergency], style=f"link {assessment.help.emergency_href}")
        console.print(shown, width=width)
    if assessment.reminder is not None:
        console.print(Text(assessment.reminder, style="dim"), width=width)


def _show_outcome(console: Console, result: TurnResult, left: int) -> None:
    """What became of the answer where it was withheld."""
    width = min(console.width, WIDTH)
    if result.outcome.note is not None:
        console.print(Padding(Text(result.outcome.note, style="dim"), (0, 0, 0, left)), width=width)
    if result.error is not None:
        console.print(Text(plain(result.error), style="red"), width=width)
    if result.outcome.lines:
        console.print(Padding(Text("\n".join(result.outcome.lines)), (0, 0, 0, left)), width=width)


def _show_error(console: Console, session: ChatSession, error: UserError) -> None:
    console.print(Text(plain(str(error)), style="red"))
    if session.unanswered is not None:
        console.print(Text("Your message is kept: /again sends it once more.", style="dim"))


def _show_pins(console: Console, pins: Pins) -> None:
    shown = ", ".join(f"{key}={value}" for key, value in pins.items()) or "nothing"
    console.print(Text(f"Pinned: {shown}.", style="dim"))


def _pins(text: str) -> dict[str, str | int]:
    """`strategy=reflection of feelings emotion=fear` as pins: a value reaches to the next key."""
    pairs: list[str] = []
    for word in text.split():
        if "=" in word or not pairs:
            pairs.append(word)
        else:
            pairs[-1] += " " + word
    return dict(Pins.parse(pairs).items())
