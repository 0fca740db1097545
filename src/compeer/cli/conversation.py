"""`compeer chat`, `compeer parse` and `compeer demo`: talking, and reading what was said."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.cores import left_to_the_model

Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="embedded (default), hf:DIR_OR_NAME[+ADAPTER] or openai:MODEL; or set $COMPEER_MODEL."
    ),
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server. Default: $OPENAI_BASE_URL.")]
Pin = Annotated[
    list[str] | None,
    typer.Option("--pin", "-p", help="key=value: fix the stage, sentiment, emotion, intensity or strategy."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


def chat(
    once: Annotated[str | None, typer.Option(help="Answer this one message and stop.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pin: Pin = None,
    language: Annotated[str | None, typer.Option(help="en or zh. Default: the language you write in.")] = None,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0)] = 0.7,
    seed: Annotated[int | None, typer.Option(help="Same seed, same answer (where the model allows).")] = None,
    prompt: Annotated[str | None, typer.Option(help="full or brief instructions. Default: brief for embedded.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of silence after which a server is given up.")] = 120,
    country: Annotated[
        str | None,
        typer.Option(
            help="Whose helplines are shown, as in GB. Default: $COMPEER_COUNTRY, your locale, your language."
        ),
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(help="A model that screens messages beside the word list, named like --model; or $COMPEER_GUARD."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Talk with a supporter that thinks in three steps before it answers."""
    left_to_the_model()
    from compeer.conversation import Settings, answer_once, talk
    from compeer.errors import UserError
    from compeer.models import open_model
    from compeer.models.request import Patience
    from compeer.reasoning import Pins
    from compeer.safety import Guarded
    from compeer.safety.guard import Guard

    if language not in (None, "en", "zh"):
        raise UserError(f"--language is en or zh, not {language!r}.")
    if prompt not in (None, "full", "brief"):
        raise UserError(f"--prompt is full or brief, not {prompt!r}.")
    pins = Pins.parse(pin or [])
    # someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
    patience = Patience(attempts=4, longest=10, patience=timeout, timeout=timeout)
    opened = open_model(model, base_url=base_url, patience=patience)
    watching = guard or os.environ.get("COMPEER_GUARD")
    asked_once = Patience(attempts=1, longest=1, patience=timeout, timeout=timeout)
    second = Guard(open_model(watching, base_url=base_url, patience=asked_once)) if watching else None
    guarded = Guarded(country=country, guard=second)
    settings = Settings(
        pins=pins,
        language=language,  # type: ignore[arg-type]
        temperature=temperature,
        seed=seed,
        prompt=prompt or ("brief" if opened.name.startswith(("embedded", "hf:embedded")) else "full"),  # type: ignore[arg-type]
    )
    if once is not None:
        if not once.strip():
            raise UserError("--once needs a message to answer.")
        answer_once(opened, _text(once), settings, as_json=as_json, guarded=guarded)
    else:
        talk(opened, settings, guarded)


def parse(
    file: Annotated[str, typer.Argument(help="A model's raw output; - reads standard input.")] = "-",
    as_json: Json = False,
) -> None:
    """Read a model's raw output and say whether it is complete; exit status 0 when it is, 1 when not."""
    from compeer.errors import UserError
    from compeer.reasoning import fields
    from compeer.reasoning import parse as read

    if file == "-" and sys.stdin.isatty():
        typer.echo("Paste a model's output and end it with Ctrl-D on an empty line.", err=True)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
    text = data.decode("utf-8", "replace")
    parsed = read(text)
    if as_json:
        typer.echo(json.dumps(fields(parsed, text), ensure_ascii=False, indent=2))
    else:
        from rich.console import Console

        from compeer.conversation.terminal import reasoning_panel

        Console().print(reasoning_panel(parsed))
    raise typer.Exit(0 if parsed.complete else 1)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the demo; run again to go on in it.")] = Path(
        "demo"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew instead of going on.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Only one turn of a conversation; needs no torch.")] = False,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Show the report where there is a display.")] = True,
) -> None:
    """The whole paper in miniature: data, judge, policy, evaluation, report, in minutes on two cores."""
    if quick:
        from compeer.demo.turn import show_turn

        return show_turn()
    from compeer.demo import folder as needs
    from compeer.demo.story import tell

    needs.check()
    try:
        tell(out, fresh=fresh, browser=browser)
    except KeyboardInterrupt:
        typer.echo("\nStopped. compeer demo goes on where it was.", err=True)
        raise typer.Exit(130) from None


def _text(argument: str) -> str:
    """A word of the command line as text; bytes that are no UTF-8 become replacement characters."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
