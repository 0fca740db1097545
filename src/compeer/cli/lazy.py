"""Commands that are read only when they are called.

Typer makes every command with all its options before it looks at the first word that was typed, so `compeer --help`
would import every group and build some hundreds of options only to show one line of each. Here the root group knows of
a command just its place: the module, the name in it, and the line of the listing. The module is imported and the
command made when somebody asks for that command: by calling it, by asking for its help, or by looking it up in
`.commands`, which holds all of them as in any group of typer. The listing, and the suggestion for a mistyped name,
read none of them.
"""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup


class Place(NamedTuple):
    """Where a command or a group lies, and its line in the listing."""

    module: str
    attribute: str  # a function, which becomes a command, or a `typer.Typer`, which becomes a group
    help: str  # of a function: the first paragraph of its docstring


def read(name: str, place: Place) -> Any:
    """The real command or group."""
    found = getattr(import_module(place.module), place.attribute)
    parent = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        for group in (found, *(one.typer_instance for one in found.registered_groups)):
            if group is not None:
                group.info.cls = NamingGroup
        parent.add_typer(found, name=name, help=place.help)
    else:
        parent.command(name)(found)
    return with_whole_sentences(typer.main.get_group(parent).commands[name])


def with_whole_sentences(command: Any) -> Any:
    """The command, listed by its whole first sentence, and so are those below it: typer would cut at the margin."""
    command.short_help = command.short_help or command.get_short_help_str(sys.maxsize)
    for below in getattr(command, "commands", {}).values():
        with_whole_sentences(below)
    return command


class Commands(UserDict[str, Any]):
    """Name to command, in the order of the table. A command is read when its name is first looked up."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        super().__init__(dict.fromkeys(places))
        self.places = places

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = read(name, self.places[name])
        return self.data[name]


class NamingGroup(TyperGroup):
    """A group that answers an unknown command with the commands it has."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = "".join(f" Did you mean {name}?" for name in get_close_matches(args[0], self.commands, 1))
            ctx.fail(f"No such command {args[0]!r}.{near} The commands are {', '.join(self.list_commands(ctx))}.")
        return super().resolve_command(ctx, args)


class LazyGroup(NamingGroup):
    """A group whose commands stand in a table of places. A subclass names the table."""

    places: ClassVar[Mapping[str, Place]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands(self.places)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:  # `.get` would also take a KeyError inside a module for an unknown name
            return None
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The listing, written by typer from commands that have a name and a line, and nothing else."""
        lines = {name: with_whole_sentences(TyperCommand(name, help=place.help)) for name, place in self.places.items()}
        TyperGroup(name=self.name, commands=dict(lines)).format_commands(ctx, formatter)
