"""`compeer models`: known weights by hash: list, download, find, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from compeer.cli.options import CommandGroup, print_result
from compeer.errors import UserError

app = CommandGroup("models")


@app.add("list")
def list_weights(as_json: bool = False) -> None:
    """List the known weights and where they are."""
    from compeer.models.request import ModelError
    from compeer.models.weights import KNOWN, find

    rows: list[dict[str, Any]] = []
    lines = []
    for weights in KNOWN:
        try:
            path, problem = find(weights), None
        except ModelError as error:
            path, problem = None, str(error)
        row = {name: getattr(weights, name) for name in ("name", "about", "size", "licence", "languages", "sha256")}
        row |= {"model": weights.spec.removesuffix(":plain"), "path": str(path) if path else None, "problem": problem}
        rows.append(row)
        lines.append(f"{weights.name}  ({row['model']}; {weights.about})")
        lines.append(f"  {row['path'] or problem or 'not here: compeer models get ' + weights.name}")
    print_result(rows, as_json, lines)


@app.add("get")
def get(name: str, source: Path | None = None, as_json: bool = False) -> None:
    """Download weights to the user's cache, unless they are already here."""
    from compeer.models.fetch import fetch
    from compeer.models.weights import find, named

    weights = named(name)
    here = find(weights) if source is None else None
    path = here or fetch(weights, source)
    result = {"name": weights.name, "path": str(path), "sha256": weights.sha256, "fetched": here is None}
    print_result(result, as_json, f"{weights.name}: {path}")


@app.add("path")
def path_of(name: str, as_json: bool = False) -> None:
    """Print the path of weights; the exit status is 1 when they are not here."""
    from compeer.models.weights import find, named

    weights = named(name)
    path = find(weights)
    if path is None and not as_json:
        raise UserError(f"{weights.name} is not here. Get it: compeer models get {weights.name} ({weights.about})")
    print_result({"name": weights.name, "path": str(path) if path else None}, as_json, str(path))
    if path is None:
        raise typer.Exit(1)


@app.add("remove")
def remove(name: str, as_json: bool = False) -> None:
    """Delete weights and incomplete downloads from the cache. Other files are not touched."""
    from compeer.models.fetch import remove as delete
    from compeer.models.weights import named

    weights = named(name)
    gone = [str(path) for path in delete(weights)]
    said = [f"removed {path}" for path in gone] or [f"{weights.name} is not in the cache."]
    print_result({"name": weights.name, "removed": gone}, as_json, said)
