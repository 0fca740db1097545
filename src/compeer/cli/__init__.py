"""The commands. Heavy packages are imported inside the functions that use them.

lazy          groups whose files are imported only when they are called; `compeer --help` is written from a table
options       options that several commands share
conversation  chat, parse, demo, serve, studio
installation  doctor, models, config
corpus        corpus
cer           cer
people        annotate and arena
reward        reward
policy        policy
evaluation    eval
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import typer

from compeer import __version__
from compeer.cli.lazy import LazyGroup, Place
from compeer.errors import UserError

#: Every command and group, in the order of the listing: where it lies, and its line. The line of a command is the first
#: paragraph of its docstring, word for word.
COMMANDS = {
    name: Place(**place)
    for name, place in json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8")).items()
}


class _Root(LazyGroup):
    places = COMMANDS


app = typer.Typer(
    name="compeer",
    cls=_Root,
    help="Controllable empathetic reasoning for emotional support conversation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"compeer {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point: an error meant for people is printed as one message, without a traceback.

    So is a file that cannot be read or written, in any command. Ctrl-C (status 130) and a closed pipe are typer's: it
    ends quietly on both.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show, or bytes that are no text, end nothing
            stream.reconfigure(errors="replace")
    try:
        app()
    except (UserError, OSError) as error:
        said = str(error)
        if not isinstance(error, UserError):
            if error.filename is None or error.strerror is None:
                raise  # not about a file
            said = f"{error.filename2 or error.filename}: {error.strerror}. Check the path."
        from compeer.conversation.display import plain

        typer.secho(plain(said), err=True, fg=typer.colors.RED)  # it may quote what a server sent
        sys.exit(1)
