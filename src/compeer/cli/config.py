"""compeer config: the configurations that come with COMPEER.

compeer config list
compeer config copy                  # all of them to ./configs, where the pages of the documentation expect them
compeer config copy reward/laptop
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.options import Json, print_json

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="Name as in the list, for example reward/laptop.", show_default=False)]


@app.command("list")
def list_configs(as_json: Json = False) -> None:
    """List the configurations and what each is for."""
    from compeer.config import shipped

    about = {name: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for name, path in shipped().items()}
    if as_json:
        print_json([{"name": name, "about": line} for name, line in about.items()])
        return
    for name, line in about.items():
        typer.echo(f"{name:24} {line}")


@app.command()
def show(name: Name) -> None:
    """Print one configuration."""
    typer.echo(_find(name).read_text(encoding="utf-8"), nl=False)


@app.command()
def copy(
    names: Annotated[list[str] | None, typer.Argument(help="Names as in the list. Default: all.")] = None,
    to: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("configs"),
    force: Annotated[bool, typer.Option("--force", help="Replace files that were changed.")] = False,
) -> None:
    """Copy configurations to a folder, to use or change them."""
    from compeer.config import shipped
    from compeer.errors import UserError

    targets = {to / path.parent.name / path.name: path.read_bytes() for path in map(_find, names or shipped())}
    changed = [target for target, text in targets.items() if target.exists() and target.read_bytes() != text]
    if changed and not force:
        raise UserError(f"{changed[0]} exists and differs from ours. Choose another --to, or replace it with --force.")
    for target, text in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
    typer.echo("\n".join(map(str, targets)))


def _find(name: str) -> Path:
    from compeer.config import shipped
    from compeer.errors import UserError

    known = shipped()
    if name.removesuffix(".yaml") not in known:
        raise UserError(f"There is no configuration {name}. Known are: {', '.join(known)}.")
    return known[name.removesuffix(".yaml")]
