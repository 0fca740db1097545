"""`compeer chat`, `parse`, `demo`, `serve`, `studio`: talking with a model in a terminal, over HTTP, in a browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from compeer.cli.options import Language, Length, leave_cores_to_the_model, print_json, with_options
from compeer.errors import UserError

if TYPE_CHECKING:
    from compeer.safety.guard import Guard

Thinking = Literal["full", "brief", "off"] | None


@with_options("chat")
def chat(
    once: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    pin: list[str] | None = None,
    language: Language = None,
    temperature: float | None = None,
    seed: int | None = None,
    prompt: Length = None,
    think: Thinking = None,
    timeout: float = 120,
    country: str | None = None,
    guard: str | None = None,
    as_json: bool = False,
) -> None:
    """Talk with a supporter in the terminal. It can think in three steps before it answers."""
    leave_cores_to_the_model()
    from compeer.conversation import ChatSettings, answer_once, sampling_for, talk
    from compeer.models import open_model
    from compeer.models.request import Patience
    from compeer.reasoning import Pins
    from compeer.safety import ConversationGuard
    from compeer.safety.messages import Breaks

    pins = Pins.parse(pin or [])
    if once is None:
        offer_weights(model)
    # someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
    patience = Patience(attempts=4, longest=10, patience=timeout, timeout=timeout)
    opened = open_model(model, base_url=base_url, patience=patience)
    safety = ConversationGuard(country=country, model=_guard(guard, base_url, timeout), breaks=Breaks())
    sampling = sampling_for(opened, temperature=temperature, seed=seed, prompt=prompt, think=think)
    settings = ChatSettings(pins=pins, language=language, sampling=sampling)
    if once is not None:
        if not once.strip():
            raise UserError("--once needs a message to answer.")
        answer_once(opened, _text(once), settings, as_json=as_json, guard=safety)
    else:
        talk(opened, settings, safety)


def _guard(name: str | None, base_url: str | None, seconds: float) -> Guard | None:
    """The guard model, asked once with this time limit; None where none was named."""
    from compeer.models import open_model
    from compeer.models.request import Patience
    from compeer.safety.guard import Guard

    once_only = Patience(attempts=1, longest=1, patience=seconds, timeout=seconds)
    return Guard(open_model(name, base_url=base_url, patience=once_only)) if name else None


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


@with_options("parse")
def parse(file: str = "-", as_json: bool = False) -> None:
    """Check whether a model's raw output is complete. The exit status is 0 if it is, otherwise 1."""
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
        print_json(fields(parsed, text))
    else:
        from rich.console import Console

        from compeer.conversation.display import reasoning_panel

        Console().print(reasoning_panel(parsed))
    raise typer.Exit(0 if parsed.complete else 1)


@with_options("demo")
def demo(out: Path = Path("demo"), fresh: bool = False, quick: bool = False, browser: bool = True) -> None:
    """Run the whole paper in miniature, in minutes on two cores. Stages: data, judge, policy, evaluation, report."""
    if quick:
        from compeer.demo.turn import show_turn

        show_turn()
        return
    from compeer.demo.folder import check
    from compeer.demo.story import run_demo

    check()
    before = dict(os.environ)
    try:
        run_demo(out, fresh=fresh, browser=browser)
    except KeyboardInterrupt:
        typer.echo("\nStopped. Run compeer demo again to continue.", err=True)
        raise typer.Exit(130) from None
    if sys.stdin.isatty() and sys.stdout.isatty():  # a new process: nothing of the trainings stays in memory
        typer.echo("\nNow talk with the supporter; /quit leaves.")
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "compeer.cli", "chat"], before)


@with_options("serve")
def serve(
    model: str | None = None,
    base_url: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: str | None = None,
    key: list[str] | None = None,
    key_file: Path | None = None,
    origin: list[str] | None = None,
    slots: int | None = None,
    context: int | None = None,
    max_requests: int = 64,
    max_tokens: int = 2000,
    history: int | None = None,
    timeout: float = 600.0,
    first_token: float = 60.0,
    grace: float = 30.0,
    temperature: float | None = None,
    prompt: Length = None,
    think: Thinking = None,
    country: str | None = None,
    guard: str | None = None,
    no_notice_because: str | None = None,
    log: bool = True,
) -> None:
    """Serve a supporter to OpenAI clients, with reasoning and control. More: docs/conversation.md."""
    leave_cores_to_the_model()
    import asyncio

    from compeer.conversation import sampling_for
    from compeer.conversation.requests import ServerSettings
    from compeer.conversation.server import serve as run_server
    from compeer.http_service import read_keys
    from compeer.models import open_model
    from compeer.models.endpoint import Endpoint
    from compeer.models.local import Local
    from compeer.models.request import Patience

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
    sampling = sampling_for(
        opened, temperature=temperature, max_tokens=max_tokens, prompt=prompt, think=think, history_words=history
    )
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
        sampling=sampling,
        country=country,
        no_notice_because=no_notice_because,
        log=log,
    )
    asyncio.run(run_server(opened, settings, _guard(guard, base_url, first_token)))


@with_options("studio")
def studio(
    host: str = "127.0.0.1",
    port: int = 8030,
    db: str | None = None,
    items: list[Path] | None = None,
    runs: list[Path] | None = None,
    model: list[str] | None = None,
    base_url: str | None = None,
    guard: str | None = None,
    country: str | None = None,
    public: str | None = None,
    data: Path | None = None,
    token: str | None = None,
) -> None:
    """Start the studio, a web app: talk, label, compare, view runs. More: docs/studio.md."""
    leave_cores_to_the_model()
    import msgspec

    try:
        from compeer.studio.app import serve
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
    """A model's name without its address or folder.

    >>> _public("openai:qwen-7b@http://10.0.0.5:8000/v1"), _public("hf:runs/policy+runs/a"), _public("embedded:small")
    ('qwen-7b', 'policy+a', 'embedded:small')
    """
    home, _, rest = name.partition(":")
    if home == "openai":
        return rest.rpartition("@")[0]
    shown = rest if home in ("hf", "gguf") else name
    return "+".join(part.rstrip("/").rpartition("/")[2] for part in shown.split("+"))
