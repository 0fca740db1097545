"""The options of all commands: a command is a typed function, and options.json says how each of its options is shown.

options.json has help texts, flags other than the parameter's name, ranges and environment variables: of one command, of
a group of commands, or `shared` by all, so that one name means one thing. The values that a `Literal` type allows are
checked here.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from compeer.errors import UserError

OPTION_TEXTS: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("options.json").read_text(encoding="utf-8")
)
#: instructions for a model; None: those that it was trained on
Length = Literal["full", "brief"] | None
Language = Literal["en", "zh"] | None


@dataclass
class TrainingOptions:
    """Options shared by the commands that train by a file of settings."""

    out: Path | None = None
    settings: list[str] | None = None
    force: bool = False
    fresh: bool = False
    as_json: bool = False

    @property
    def overrides(self) -> list[str]:
        """What is said beside the file: --set and --out."""
        return [*(self.settings or []), *([f"out={json.dumps(str(self.out))}"] if self.out else [])]


@dataclass
class AnswerOptions:
    """How models are asked for answers."""

    grammar: bool = True
    length: Length = None
    base_url: str | None = None
    temperature: float = 0.7
    max_tokens: int = 2000
    concurrency: int = 16
    seed: int = 0
    as_json: bool = False

    def length_for(self, model: str) -> Literal["full", "brief"]:
        """The instructions for a model: those that were asked for, or those that it was trained on."""
        from compeer.models.spec import default_prompt

        return self.length or default_prompt(model)


class CommandGroup(typer.Typer):
    """A group of commands; `name` is what stands before theirs."""

    def __init__(self, name: str) -> None:
        super().__init__(no_args_is_help=True, rich_markup_mode=None)
        self.name = name

    def add(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Make a function a command of this group."""
        return lambda function: self.command(name)(with_options(f"{self.name} {name}")(function))


def with_options(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function the options of a command; `words` are how it is called, such as "cer build".

    A parameter whose type is a dataclass stands for the options in its fields.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
        shown: list[inspect.Parameter] = []
        allowed: dict[str, tuple[str, ...]] = {}
        for one in inspect.signature(function).parameters.values():
            group = groups.get(one.name)
            inside = hints if group is None else get_type_hints(group, include_extras=True)
            for option in (one,) if group is None else fields(group):
                hint, values = _without_literal(inside[option.name])
                allowed |= {option.name: values} if values else {}
                annotation, kind = _described(words, option.name, hint), inspect.Parameter.KEYWORD_ONLY
                shown.append(inspect.Parameter(option.name, kind, default=option.default, annotation=annotation))

        @wraps(function)
        def command(**given: Any) -> None:
            for name, values in allowed.items():
                flag = _spec(words, name).get("flags", [f"--{name}"])[0]
                for value in given[name] if isinstance(given[name], list) else [given[name]]:
                    check_choice(flag, value, *values)
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            function(**given)

        command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in shown}
        return command

    return decorate


def _without_literal(hint: Any) -> tuple[Any, tuple[str, ...]]:
    """A type without its Literal, for typer, and the values that the Literal allows, which are checked here."""
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    values = next((found for one in get_args(hint) if (found := _without_literal(one)[1])), ())
    if not values:
        return hint, ()
    inner = _without_literal(get_args(hint)[0])[0]
    return list[str] if get_origin(hint) is list else inner | None, values


def _described(words: str, name: str, hint: Any) -> Any:
    """The type with what typer has to know about the option."""
    if get_origin(hint) is Annotated:
        return hint
    spec = dict(_spec(words, name))
    make = typer.Argument if spec.pop("argument", False) else typer.Option
    return Annotated[hint, make(*spec.pop("flags", ()), **spec)]


def _spec(words: str, name: str) -> dict[str, Any]:
    """What options.json says: of the command, else of the nearest group around it, else of all commands."""
    parts = words.split()
    places = [" ".join(parts[:end]) for end in range(len(parts), 0, -1)]
    for place in (*places, "shared"):
        if name in OPTION_TEXTS.get(place, {}):
            return OPTION_TEXTS[place][name]
    raise KeyError(f"options.json says nothing about {name} of {words}")


def check_choice(option: str, value: str | None, *allowed: str) -> None:
    """Refuse a value that is not one of the allowed ones; None is the default."""
    if value is not None and value not in allowed:
        *others, last = allowed
        raise UserError(f"{option} is {', '.join(others)} or {last}, not {value!r}.")


def print_json(value: Any, *, err: bool = False) -> None:
    """A result as indented JSON on standard output, or on standard error."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode(), err=err)


def print_result(result: Any, as_json: bool, text: str | Iterable[str] | None = None) -> None:
    """What a command has done, as JSON or in words; without words, the entries of a dictionary."""
    if as_json:
        print_json(result)
    else:
        words = (f"{name}: {value}" for name, value in result.items()) if text is None else text
        typer.echo(words if isinstance(words, str) else "\n".join(words))


def print_table(
    rows: Iterable[Sequence[str]], heads: Sequence[str] = (), numbers: Sequence[int] = (), *, err: bool = False
) -> None:
    """Rows as a table without lines; `numbers`: the columns that stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads, show_header=bool(heads), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    for column in numbers:
        table.columns[column].justify = "right"
    Console(stderr=err, highlight=False).print(table)


def leave_cores_to_the_model() -> None:
    """Keep numpy, which screens messages, to one thread. Call it before numpy is imported.

    More threads would save milliseconds on idle cores. On cores that the model keeps busy they wait for one another
    while spinning, and a message takes many times as long.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
