"""Options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

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


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a parameter whose type is a dataclass becomes the options in its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    shown: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        if one.name not in groups:
            shown.append(one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        inside = get_type_hints(groups[one.name], include_extras=True)
        for field in fields(groups[one.name]):
            option = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            shown.append(option.replace(annotation=inside[field.name]))

    @wraps(command)
    def grouped(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    grouped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    grouped.__annotations__ = {one.name: one.annotation for one in shown}
    return grouped


def check_choice(option: str, value: str | None, *allowed: str) -> None:
    """Refuse a value that is not one of the allowed ones; None is the default."""
    from compeer.errors import UserError

    if value is not None and value not in allowed:
        *others, last = allowed
        raise UserError(f"{option} is {', '.join(others)} or {last}, not {value!r}.")


def print_json(value: Any, *, err: bool = False) -> None:
    """A result as indented JSON on standard output, or on standard error."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode(), err=err)


def leave_cores_to_the_model() -> None:
    """Keep numpy, which screens messages, to one thread. Call it before numpy is imported.

    More threads would save milliseconds on idle cores. On cores that the model keeps busy they wait for one another
    while spinning, and a message takes many times as long.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
