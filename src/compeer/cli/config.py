"""compeer config: the configurations that come with COMPEER.

compeer config list
compeer config copy                  # all of them to ./configs, where the pages of the documentation expect them
compeer config copy reward/laptop
"""

from __future__ import annotations

from pathlib import Path

import typer

from compeer.cli.options import CommandGroup, print_result
from compeer.errors import UserError

app = CommandGroup("config")


@app.add("list")
def list_configs(as_json: bool = False) -> None:
    """List the configurations and what each is for."""
    from compeer.config import shipped

    about = {name: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for name, path in shipped().items()}
    rows = [{"name": name, "about": line} for name, line in about.items()]
    print_result(rows, as_json, [f"{name:24} {line}" for name, line in about.items()])


@app.add("show")
def show(name: str) -> None:
    """Print one configuration."""
    typer.echo(_find(name).read_text(encoding="utf-8"), nl=False)


@app.add("copy")
def copy(names: list[str] | None = None, to: Path = Path("configs"), force: bool = False) -> None:
    """Copy configurations to a folder, to use or change them."""
    from compeer.config import shipped

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

    known = shipped()
    if name.removesuffix(".yaml") not in known:
        raise UserError(f"There is no configuration {name}. Known are: {', '.join(known)}.")
    return known[name.removesuffix(".yaml")]
