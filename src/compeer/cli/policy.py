"""compeer policy: train the model that thinks before it answers."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
