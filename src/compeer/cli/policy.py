"""compeer policy: train the model that thinks before it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

ConfigFile = Annotated[Path, typer.Argument(help="A YAML file; configs/policy has some.", show_default=False)]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE over a setting of the file; a dot nests.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run, instead of the file's.")]
Force = Annotated[bool, typer.Option("--force", help="Go on although settings, data, base or judge differ.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
def sft(
    config: ConfigFile,
    out: Out = None,
    settings: Set = None,
    force: Force = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Cold start: learn from references with their reasoning. Run it again to go on where it stopped."""
    from compeer.policy.sft import read_config, train

    given = [*(settings or []), *([f"out={json.dumps(str(out))}"] if out else [])]
    _print(train(read_config(config, given), force=force, fresh=fresh), as_json)


@app.command()
def grpo(
    config: ConfigFile,
    out: Out = None,
    settings: Set = None,
    force: Force = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Learn from a judge with GRPO. Run it again to go on where it stopped; accelerate launch starts several of it."""
    from compeer.policy.grpo.config import read_config
    from compeer.policy.grpo.run import train
    from compeer.training.run import is_main

    given = [*(settings or []), *([f"out={json.dumps(str(out))}"] if out else [])]
    used = read_config(config, given)
    result = train(used, given=config.read_text(encoding="utf-8"), force=force, fresh=fresh)
    if is_main():
        _print(result, as_json)


@app.command()
def sweep(
    config: ConfigFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the sweep; each multiplier has a run in it.")],
    tau: Annotated[
        str, typer.Option(help="Multipliers of tau, with commas between; 0 is without reweighting.")
    ] = "0.5,1,2",
    settings: Set = None,
    force: Force = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """What reweighting costs and buys: a GRPO run for each multiplier of tau, diversity against reward."""
    import msgspec

    from compeer.errors import UserError
    from compeer.policy.grpo.config import read_config
    from compeer.policy.sweep import sweep as run_sweep
    from compeer.policy.sweep import table

    try:
        multipliers = [float(one) for one in tau.split(",")]
    except ValueError:
        raise UserError(f"--tau is a list of numbers, for example 0.5,1,2, not {tau!r}.") from None
    points = run_sweep(read_config(config, settings or []), multipliers, out, force=force, fresh=fresh)
    typer.echo(msgspec.json.format(msgspec.json.encode(points)).decode() if as_json else table(points))


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        for key, value in result.items():
            typer.echo(f"{key}: {value}")
