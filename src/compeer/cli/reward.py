"""compeer reward: train the judge, score with it, serve it, measure it."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
