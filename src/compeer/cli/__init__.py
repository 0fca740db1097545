"""The commands. Heavy packages are imported inside the functions that use them.

lazy          groups whose files are imported only when they are called; `compeer --help` is written from a table
options       options that several commands share
conversation  chat, parse, demo, serve, studio
doctor        doctor
models        models
config        config
corpus        corpus
cer           cer
people        annotate and arena
reward        reward
policy        policy
evaluation    eval
"""

from __future__ import annotations

import io
import sys

import typer

from compeer import __version__
from compeer.cli.lazy import LazyGroup, Place
from compeer.errors import UserError

#: Every command and group, in the order of the listing: where it lies, and its line. The line of a command is the first
#: paragraph of its docstring, word for word.
COMMANDS = {
    "demo": Place(
        "compeer.cli.conversation",
        "demo",
        "The whole paper in miniature, in minutes on two cores. Data, judge, policy, evaluation, report.",
    ),
    "chat": Place(
        "compeer.cli.conversation",
        "chat",
        "Talk with a supporter in the terminal. It can think in three steps before it answers.",
    ),
    "parse": Place(
        "compeer.cli.conversation",
        "parse",
        "Check whether a model's raw output is complete. The exit status is 0 when it is, 1 when not.",
    ),
    "serve": Place(
        "compeer.cli.conversation",
        "serve",
        "Serve a supporter to OpenAI clients, with reasoning and control. More: docs/conversation.md.",
    ),
    "studio": Place(
        "compeer.cli.conversation",
        "studio",
        "Open the studio in the browser: talk, label, compare, see runs. More: docs/studio.md.",
    ),
    "doctor": Place(
        "compeer.cli.doctor", "doctor", "Check this installation. The exit status is 1 when no model can be asked."
    ),
    "models": Place("compeer.cli.models", "app", "Weights of the embedded models: list, get, path, remove."),
    "config": Place("compeer.cli.config", "app", "Configurations that come with COMPEER: list, show, copy."),
    "corpus": Place("compeer.cli.corpus", "app", "Import, count and read conversations."),
    "cer": Place("compeer.cli.cer", "app", "Build the labelled reasoning dataset."),
    "annotate": Place(
        "compeer.cli.people", "annotate_app", "Labelling by people: projects, invitations, agreement, export."
    ),
    "reward": Place("compeer.cli.reward", "app", "Train the judge, score with it, serve it, measure it."),
    "policy": Place("compeer.cli.policy", "app", "Train the model that thinks before it answers."),
    "eval": Place(
        "compeer.cli.evaluation",
        "eval_app",
        "Measure a supporter: benchmarks, language, control, safety.",
    ),
    "arena": Place(
        "compeer.cli.people", "arena_app", "Blind comparison of models by people: replies, invitations, results."
    ),
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
