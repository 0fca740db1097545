"""Options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Model to ask: embedded (default), hf:DIR_OR_NAME[+ADAPTER] or openai:MODEL. Or set $COMPEER_MODEL.",
    ),
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server. Default: $OPENAI_BASE_URL.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of records to use.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Maximum number of requests in flight.")]
Temperature = Annotated[float, typer.Option(min=0.0, max=2.0, help="Sampling temperature.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Maximum tokens per answer, reasoning included.")]
Language = Annotated[str | None, typer.Option(help="Language: en or zh. Default: both.")]
Country = Annotated[
    str | None,
    typer.Option(
        help="Country whose helplines are shown, for example GB. Default: $COMPEER_COUNTRY, the locale, the language."
    ),
]
Guard = Annotated[
    str | None,
    typer.Option(
        envvar="COMPEER_GUARD", help="Model that screens messages in addition to the built-in screening, as --model."
    ),
]


def check_choice(option: str, value: str | None, *allowed: str) -> None:
    """Refuse a value that is not one of the allowed ones; None is the default."""
    from compeer.errors import UserError

    if value is not None and value not in allowed:
        raise UserError(f"{option} is {' or '.join(allowed)}, not {value!r}.")


def print_json(value: Any) -> None:
    """A result as indented JSON on standard output."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())


def leave_cores_to_the_model() -> None:
    """Keep numpy, which screens messages, to one thread. Call it before numpy is imported.

    More threads would save milliseconds on idle cores. On cores that the model keeps busy they wait for one another
    while spinning, and a message takes many times as long.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
