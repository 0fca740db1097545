"""The commands. Each group is a file; heavy packages are imported inside the functions that use them."""

from __future__ import annotations

import io
import sys

import typer

from compeer import __version__
from compeer.cli import (
    annotate,
    arena,
    cer,
    conversation,
    corpus,
    doctor,
    eval_measures,  # noqa: F401 these three add their commands to evaluation.eval_app
    eval_report,  # noqa: F401
    eval_safety,  # noqa: F401
    evaluation,
    policy,
    reward,
    serve,
    studio,
)
from compeer.errors import UserError

app = typer.Typer(
    name="compeer",
    help="Controllable empathetic reasoning for emotional support conversation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(conversation.demo)
app.command("chat")(conversation.chat)
app.command("parse")(conversation.parse)
app.add_typer(corpus.app, name="corpus", help="Import, count and read conversations.")
app.add_typer(cer.app, name="cer", help="Build the labelled reasoning dataset.")
app.add_typer(annotate.app, name="annotate", help="Labels by people: projects, invitations, agreement, export.")
app.add_typer(reward.app, name="reward", help="Train the judge, score with it, serve it, measure it.")
app.add_typer(policy.app, name="policy", help="Train the model that thinks before it answers.")
app.add_typer(evaluation.eval_app, name="eval", help="Measure a supporter: benchmarks, language, control, safety.")
app.add_typer(arena.app, name="arena", help="Compare models by people, blind: replies, invitations, results.")
app.command("serve")(serve.serve)
app.command("studio")(studio.studio)
app.command("doctor")(doctor.doctor)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"compeer {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Say the version."),
) -> None:
    pass


def main() -> None:
    """Entry point: an error meant for people is printed as one message, without a traceback.

    Ctrl-C (status 130) and a closed pipe are typer's: it ends quietly on both.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show, or bytes that are no text, end nothing
            stream.reconfigure(errors="replace")
    try:
        app()
    except UserError as error:
        from compeer.chat.wrap import plain

        typer.secho(plain(str(error)), err=True, fg=typer.colors.RED)  # it may quote what a server sent
        sys.exit(1)
