"""`compeer models`: known weights by hash: list, download, find, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from compeer.cli.options import Json, print_json

app = typer.Typer(no_args_is_help=True, help="Weights of the embedded models: list, get, path, remove.")
Name = Annotated[str, typer.Argument(help="Name of the weights, as compeer models list shows it.")]


@app.command("list")
def list_weights(as_json: Json = False) -> None:
    """List the known weights and where they are."""
    from compeer.models.request import ModelError
    from compeer.models.weights import KNOWN, find

    rows: list[dict[str, Any]] = []
    for weights in KNOWN:
        try:
            path, problem = find(weights), None
        except ModelError as error:
            path, problem = None, str(error)
        rows.append(
            {
                "name": weights.name,
                "model": weights.spec.removesuffix(":plain"),
                "about": weights.about,
                "size": weights.size,
                "licence": weights.licence,
                "languages": list(weights.languages),
                "sha256": weights.sha256,
                "path": str(path) if path else None,
                "problem": problem,
            }
        )
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']}  ({row['model']}; {row['about']})")
        typer.echo(f"  {row['path'] or row['problem'] or 'not here: compeer models get ' + row['name']}")


@app.command("get")
def get(
    name: Name,
    source: Annotated[
        Path | None, typer.Option("--from", help="File or folder to take the weights from. Default: the network.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Download weights to the user's cache, unless they are already here."""
    from compeer.models.fetch import fetch
    from compeer.models.weights import find, named

    weights = named(name)
    path = find(weights) if source is None else None
    fetched = path is None
    path = path or fetch(weights, source)
    if as_json:
        print_json({"name": weights.name, "path": str(path), "sha256": weights.sha256, "fetched": fetched})
    else:
        typer.echo(f"{weights.name}: {path}")


@app.command("path")
def path_of(name: Name, as_json: Json = False) -> None:
    """Print the path of weights; the exit status is 1 when they are not here."""
    from compeer.errors import UserError
    from compeer.models.weights import find, named

    weights = named(name)
    path = find(weights)
    if as_json:
        print_json({"name": weights.name, "path": str(path) if path else None})
    elif path:
        typer.echo(str(path))
    else:
        raise UserError(f"{weights.name} is not here. Get it: compeer models get {weights.name} ({weights.about})")
    if path is None:
        raise typer.Exit(1)


@app.command("remove")
def remove(name: Name, as_json: Json = False) -> None:
    """Delete weights and broken downloads from the cache. Other files are not touched."""
    from compeer.models.fetch import remove as delete
    from compeer.models.weights import named

    weights = named(name)
    gone = [str(path) for path in delete(weights)]
    if as_json:
        print_json({"name": weights.name, "removed": gone})
    else:
        typer.echo("\n".join(f"removed {path}" for path in gone) or f"{weights.name} is not in the cache.")
