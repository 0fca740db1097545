"""`compeer serve`: the conversation over HTTP, for every program that speaks OpenAI's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.conversation import BaseUrl, Model
from compeer.cli.cores import left_to_the_model


def serve(
    model: Model = None,
    base_url: BaseUrl = None,
    host: Annotated[str, typer.Option(help="Other machines can reach it only with a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one; it is printed.")] = 8000,
    name: Annotated[str | None, typer.Option(help="The model's name for clients. Default: its own.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(envvar="COMPEER_API_KEY", help="A key that clients must send. Repeatable.", show_default=False),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="A file with one key a line.")] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A web page that may ask, like https://chat.example.org. Repeatable.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Answers written side by side. Default: 8, or 64 for an endpoint.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=512, help="Tokens that the embedded model's slots share. Default: 4,096 a slot.")
    ] = None,
    max_requests: Annotated[int, typer.Option(min=0, help="Requests that may wait; beyond that 429.")] = 64,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of one answer, thinking included.")] = 2000,
    history: Annotated[
        int | None, typer.Option(min=1, help="Words of a conversation that it reads. Default: 1,500, embedded 600.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request, waiting included.")] = 600.0,
    first_token: Annotated[float, typer.Option(min=0.1, help="Seconds for the first token.")] = 60.0,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds for what is under way when it is stopped.")] = 30.0,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0, help="Where a request does not say.")] = 0.7,
    prompt: Annotated[str | None, typer.Option(help="full or brief instructions. Default: brief for embedded.")] = None,
    country: Annotated[
        str | None, typer.Option(help="Whose helplines are shown, like US. Default: by language.")
    ] = None,
    log: Annotated[bool, typer.Option(help="A line a request, without what was said.")] = True,
) -> None:
    """Serve the conversation to any OpenAI client, with reasoning and control. docs/serve.md has the protocol."""
    left_to_the_model()
    import asyncio

    from compeer.conversation.access import read_keys
    from compeer.conversation.server import serve as run_server
    from compeer.conversation.wire import Settings
    from compeer.errors import UserError
    from compeer.models import open_model
    from compeer.models.endpoint import Endpoint
    from compeer.models.local import Local
    from compeer.models.request import Patience

    if prompt not in (None, "full", "brief"):
        raise UserError(f"--prompt is full or brief, not {prompt!r}.")
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
    small = opened.name.startswith(("embedded", "hf:embedded"))
    settings = Settings(
        host=host,
        port=port,
        keys=read_keys(key or (), key_file),
        origins=tuple(origin or ()),
        name=name or _public(opened.name),
        places=places,
        queue=max_requests,
        timeout=timeout,
        first=first_token,
        grace=grace,
        most_tokens=max_tokens,
        prompt=prompt or ("brief" if small else "full"),  # type: ignore[arg-type]
        history=history or (600 if small else 1500),  # so that as many conversations as there are slots fit in
        temperature=temperature,
        country=country,
        log=log,
    )
    asyncio.run(run_server(opened, settings))  # type: ignore[arg-type]


def _public(name: str) -> str:
    """A model's name without where it lies.

    >>> _public("openai:qwen-7b@http://10.0.0.5:8000/v1"), _public("hf:runs/policy+runs/adapter"), _public("embedded")
    ('qwen-7b', 'policy+adapter', 'embedded')
    """
    home, _, rest = name.partition(":")
    if home == "openai":
        return rest.rpartition("@")[0]
    return "+".join(part.rstrip("/").rpartition("/")[2] for part in (rest or name).split("+"))
