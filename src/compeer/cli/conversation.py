"""`compeer chat`, `parse`, `demo`, `serve`, `studio`: talking with a model in a terminal, over HTTP, in a browser."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.options import BaseUrl, Country, Guard, Json, Model, check_choice, leave_cores_to_the_model

Pin = Annotated[
    list[str] | None,
    typer.Option("--pin", "-p", help="Label to fix, as key=value: stage, sentiment, emotion, intensity or strategy."),
]
Prompt = Annotated[
    str | None, typer.Option(help="Instructions: full or brief. Default: brief for models trained on them.")
]
Think = Annotated[
    str | None,
    typer.Option(
        help="Thinking before a reply: full, brief (one short sentence per step) or off. Default: off for the 1.5B "
        "model, unless something other than the strategy is pinned; full for others."
    ),
]


def chat(
    once: Annotated[str | None, typer.Option(help="Answer this one message and exit.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    pin: Pin = None,
    language: Annotated[str | None, typer.Option(help="Language: en or zh. Default: the one you write in.")] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, max=2.0, help="Sampling temperature. Default: 0.3 for the 1.5B model, 0.7 for others."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed, for models that take one.")] = None,
    prompt: Prompt = None,
    think: Think = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Maximum time without a word from the server, in seconds.")
    ] = 120,
    country: Country = None,
    guard: Guard = None,
    as_json: Json = False,
) -> None:
    """Talk with a supporter in the terminal. It can think in three steps before it answers."""
    leave_cores_to_the_model()
    import msgspec

    from compeer.conversation import ChatSettings, answer_once, sampling_for, talk
    from compeer.errors import UserError
    from compeer.models import open_model
    from compeer.models.request import Patience
    from compeer.reasoning import Pins
    from compeer.safety import ConversationGuard
    from compeer.safety.guard import Guard as GuardModel
    from compeer.safety.messages import Breaks

    check_choice("--language", language, "en", "zh")
    check_choice("--prompt", prompt, "full", "brief")
    check_choice("--think", think, "full", "brief", "off")
    pins = Pins.parse(pin or [])
    if once is None:
        offer_weights(model)
    # someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
    patience = Patience(attempts=4, longest=10, patience=timeout, timeout=timeout)
    opened = open_model(model, base_url=base_url, patience=patience)
    once_only = Patience(attempts=1, longest=1, patience=timeout, timeout=timeout)
    guard_model = GuardModel(open_model(guard, base_url=base_url, patience=once_only)) if guard else None
    safety = ConversationGuard(country=country, model=guard_model, breaks=Breaks())
    chosen = {"temperature": temperature, "seed": seed, "prompt": prompt, "think": think}
    given = {name: value for name, value in chosen.items() if value is not None}
    settings = ChatSettings(
        pins=pins,
        language=language,  # type: ignore[arg-type]
        sampling=msgspec.structs.replace(sampling_for(opened), **given),
    )
    if once is not None:
        if not once.strip():
            raise UserError("--once needs a message to answer.")
        answer_once(opened, _text(once), settings, as_json=as_json, guard=safety)
    else:
        talk(opened, settings, safety)


def offer_weights(model: str | None) -> None:
    """Ask somebody at a terminal, once, whether the large model's weights shall be fetched."""
    from compeer.models.fetch import fetch
    from compeer.models.weights import BASE, cache_dir, find

    spec = model or os.environ.get("COMPEER_MODEL") or "embedded"
    declined = cache_dir() / f"{BASE.file}.declined"
    if spec != "embedded" or not (sys.stdin.isatty() and sys.stderr.isatty()) or declined.exists() or find(BASE):
        return
    typer.echo(f"The 1.5B supporter needs {BASE.name} ({BASE.about}), which is fetched once.", err=True)
    if typer.confirm("Fetch it now? Otherwise a very small model answers.", default=True, err=True):
        fetch(BASE)
        return
    declined.parent.mkdir(parents=True, exist_ok=True)
    declined.touch()  # not asked again; compeer models get fetches it


def parse(
    file: Annotated[str, typer.Argument(help="File with a model's raw output; - for standard input.")] = "-",
    as_json: Json = False,
) -> None:
    """Check whether a model's raw output is complete. The exit status is 0 when it is, 1 when not."""
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

        from compeer.conversation.display import reasoning_panel

        Console().print(reasoning_panel(parsed))
    raise typer.Exit(0 if parsed.complete else 1)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the demo. Run again to continue.")] = Path("demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of continuing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="One turn of a conversation only; needs no torch.")] = False,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
) -> None:
    """The whole paper in miniature, in minutes on two cores. Data, judge, policy, evaluation, report."""
    if quick:
        from compeer.demo.turn import show_turn

        show_turn()
        return
    from compeer.demo.folder import check
    from compeer.demo.story import tell

    check()
    before = dict(os.environ)
    try:
        tell(out, fresh=fresh, browser=browser)
    except KeyboardInterrupt:
        typer.echo("\nStopped. Run compeer demo again to continue.", err=True)
        raise typer.Exit(130) from None
    if sys.stdin.isatty() and sys.stdout.isatty():  # a new process: nothing of the trainings stays in memory
        typer.echo("\nNow talk with the supporter; /quit leaves.")
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "compeer.cli", "chat"], before)


def serve(
    model: Model = None,
    base_url: BaseUrl = None,
    host: Annotated[str, typer.Option(help="Address to listen on. Other machines need a key.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one and prints it.")
    ] = 8000,
    name: Annotated[str | None, typer.Option(help="Model name shown to clients. Default: its own.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(envvar="COMPEER_API_KEY", help="Key that clients must send. Repeatable.", show_default=False),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with one key per line.")] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of web pages that may send requests, for example https://chat.example.org. Repeatable."
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Number of answers written in parallel. Default: 8; for an endpoint: 64.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=512, help="Context shared by the embedded model's slots, in tokens. Default: 4,096 per slot."),
    ] = None,
    max_requests: Annotated[
        int, typer.Option(min=0, help="Maximum number of waiting requests; more get status 429.")
    ] = 64,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per answer, reasoning included.")] = 2000,
    history: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum length of the history, in words. Default: 1,500; embedded:small: 600."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Maximum time per request, waiting included, in seconds.")
    ] = 600.0,
    first_token: Annotated[float, typer.Option(min=0.1, help="Maximum time to the first token, in seconds.")] = 60.0,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Time for running requests to finish after a stop, in seconds.")
    ] = 30.0,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=2.0,
            help="Sampling temperature unless a request sets one. Default: 0.3 for the 1.5B model, 0.7 for others.",
        ),
    ] = None,
    prompt: Prompt = None,
    think: Think = None,
    country: Annotated[
        str | None,
        typer.Option(
            envvar="COMPEER_COUNTRY",
            help="Country whose helplines are shown unless a request names one, for example GB. Default: by language.",
        ),
    ] = None,
    guard: Guard = None,
    no_notice_because: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Leave out the opening notice in first replies. The reason is logged."),
    ] = None,
    log: Annotated[bool, typer.Option(help="Log one line per request, never its text.")] = True,
) -> None:
    """Serve a supporter to OpenAI clients, with reasoning and control. More: docs/conversation.md."""
    leave_cores_to_the_model()
    import asyncio

    from compeer.conversation import sampling_for
    from compeer.conversation.requests import ServerSettings
    from compeer.conversation.server import serve as run_server
    from compeer.errors import UserError
    from compeer.http_service import read_keys
    from compeer.models import open_model
    from compeer.models.endpoint import Endpoint
    from compeer.models.local import Local
    from compeer.models.request import Patience
    from compeer.safety.guard import Guard as GuardModel

    check_choice("--prompt", prompt, "full", "brief")
    check_choice("--think", think, "full", "brief", "off")
    if no_notice_because is not None and not no_notice_because.strip():
        raise UserError("--no-notice-because needs a reason, for example: the page around it shows the notice.")
    # someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
    patience = Patience(attempts=3, longest=5, patience=first_token, timeout=first_token)
    side_by_side = slots or 8
    opened = open_model(
        model,
        base_url=base_url,
        concurrency=slots or 64,
        patience=patience,
        slots=side_by_side,
        context=context or 4096 * side_by_side,
    )
    if isinstance(opened, Endpoint):
        places = opened.concurrency
    else:  # a transformers model takes its next batch from those that wait
        places = 2 * side_by_side if isinstance(opened, Local) else side_by_side
    usual = sampling_for(opened)
    once_only = Patience(attempts=1, longest=1, patience=first_token, timeout=first_token)
    guard_model = GuardModel(open_model(guard, base_url=base_url, patience=once_only)) if guard else None
    settings = ServerSettings(
        host=host,
        port=port,
        keys=read_keys(key or (), key_file),
        origins=tuple(origin or ()),
        name=name or _public(opened.name),
        places=places,
        queue=max_requests,
        timeout=timeout,
        first_token=first_token,
        grace=grace,
        max_tokens=max_tokens,
        prompt=prompt or usual.prompt,  # type: ignore[arg-type]
        think=think or usual.think,  # type: ignore[arg-type]
        history_words=history or usual.history_words,  # so that one conversation per slot fits
        temperature=usual.temperature if temperature is None else temperature,
        country=country,
        no_notice_because=no_notice_because,
        log=log,
    )
    asyncio.run(run_server(opened, settings, guard_model))


def studio(
    host: Annotated[str, typer.Option(help="Address to listen on. Other machines need --public.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one and prints it.")
    ] = 8030,
    db: Annotated[
        str | None,
        typer.Option(
            help="Database of labels and votes: a SQLite file or a postgresql:// address. Default: no labelling."
        ),
    ] = None,
    items: Annotated[
        list[Path] | None,
        typer.Option("--items", help="Folder with items and pictures for labelling projects. Repeatable."),
    ] = None,
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", help="Folder with runs and evaluations. Repeatable.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Model to talk with, as for chat. Repeatable."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address of the server for openai: models. Default: $OPENAI_BASE_URL.")
    ] = None,
    guard: Guard = None,
    country: Annotated[
        str | None,
        typer.Option(
            envvar="COMPEER_COUNTRY", help="Country whose helplines come first, for example GB. Default: the browser's."
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            help="Public address, for example https://studio.example.org. Everybody needs a personal link then."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder for the studio's own secret. Default: the user's data folder.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="COMPEER_STUDIO_TOKEN",
            help="Token of the coordinator's link. Default: a new one.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Open the studio in the browser: talk, label, compare, see runs. More: docs/studio.md."""
    leave_cores_to_the_model()
    import msgspec

    from compeer.errors import UserError

    try:
        from compeer.studio.serve import serve
        from compeer.studio.settings import StudioSettings
    except ModuleNotFoundError as error:
        raise UserError(f"The studio needs {error.name}: pip install 'compeer-esc[studio]'") from None
    for name, holds, folders in (("--runs", "runs", runs), ("--items", "items", items)):
        for folder in folders or []:
            if not folder.is_dir():
                raise UserError(
                    f"{name} {folder} is not a folder. Give one that holds {holds}, or leave the option out."
                )
    settings = StudioSettings(
        host=host,
        port=port,
        db=db,
        items=tuple(items or ()),
        runs=tuple(runs or ()),
        models=tuple(model or ()),
        base_url=base_url,
        guard=guard,
        country=country,
        public=public,
        token=token,
    )
    serve(msgspec.structs.replace(settings, data=data) if data is not None else settings)


def _text(argument: str) -> str:
    """A word of the command line as text; bytes that are no UTF-8 become replacement characters."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _public(name: str) -> str:
    """A model's name without where it lies.

    >>> _public("openai:qwen-7b@http://10.0.0.5:8000/v1"), _public("hf:runs/policy+runs/a"), _public("embedded:small")
    ('qwen-7b', 'policy+a', 'embedded:small')
    """
    home, _, rest = name.partition(":")
    if home == "openai":
        return rest.rpartition("@")[0]
    shown = rest if home in ("hf", "gguf") else name
    return "+".join(part.rstrip("/").rpartition("/")[2] for part in shown.split("+"))
