"""compeer policy: supervised cold start, GRPO, and merging of adapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

ConfigFile = Annotated[
    Path, typer.Argument(help="YAML file with the settings; see configs/policy for examples.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a setting of the file: NAME=VALUE, nested as in judge.budget=30. Repeatable."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Output folder, instead of the one in the file.")]
Force = Annotated[bool, typer.Option("--force", help="Resume even if settings, data, base model or judge differ.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")]
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
    """Supervised cold start on references with their reasoning. Run the command again to resume."""
    from compeer.policy.sft import read_config, train
    from compeer.training.run import is_main

    given = [*(settings or []), *([f"out={json.dumps(str(out))}"] if out else [])]
    result = train(read_config(config, given), force=force, fresh=fresh)
    if is_main():
        _print(result, as_json)


@app.command()
def grpo(
    config: ConfigFile,
    out: Out = None,
    settings: Set = None,
    force: Force = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """GRPO with a judge's reward. Run the command again to resume; use accelerate launch for several processes."""
    from compeer.policy.grpo.config import read_config
    from compeer.policy.grpo.run import train
    from compeer.training.run import is_main

    given = [*(settings or []), *([f"out={json.dumps(str(out))}"] if out else [])]
    used = read_config(config, given)
    result = train(used, given=config.read_text(encoding="utf-8"), force=force, fresh=fresh)
    if is_main():
        _print(result, as_json)


@app.command()
def merge(
    adapter: Annotated[
        Path, typer.Argument(help="Run with an adapter, or a folder that peft has saved.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the whole model; new or empty.")],
    base: Annotated[str | None, typer.Option(help="Base model. Default: the one that the adapter names.")] = None,
    dtype: Annotated[str, typer.Option(help="Precision of the result: bfloat16, float16 or float32.")] = "bfloat16",
    as_json: AsJson = False,
) -> None:
    """Merge an adapter into its base model, for servers that do not load adapters."""
    from compeer.cli.options import check_choice
    from compeer.training.model import find_adapter
    from compeer.training.model import merge as run_merge

    check_choice("--dtype", dtype, "bfloat16", "float16", "float32")
    folder = find_adapter(str(adapter / "model" if (adapter / "model").is_dir() else adapter), "supporter")
    assert folder is not None
    _print({"base": run_merge(folder, out, base=base, dtype=dtype), "opens_as": f"hf:{out}"}, as_json)


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        for key, value in result.items():
            typer.echo(f"{key}: {value}")
