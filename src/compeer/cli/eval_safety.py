"""compeer eval safety: the red-team set against the screening, or against a model's replies.

compeer eval safety --screening
compeer eval safety --model hf:runs/sft  --judge openai:gpt-4o --out runs/safety-before
compeer eval safety --model hf:runs/grpo --judge openai:gpt-4o --out runs/safety-after
compeer eval report runs/safety-before runs/safety-after --out report
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.evaluation import eval_app


@eval_app.command()
def safety(
    screening: Annotated[
        bool, typer.Option("--screening", help="Measure the screening rules; needs no model.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The supporter: embedded, hf:… or openai:….")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The model that judges replies by the rubric. Without: rule checks alone.")
    ] = None,
    split: Annotated[str, typer.Option(help="dev, test or all.")] = "test",
    language: Annotated[str | None, typer.Option(help="en or zh. Default: both.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    judge_url: Annotated[str | None, typer.Option(help="Address of the judge's server, if another.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="Folder with prompts for the judge in place of ours.")] = None,
    grammar: Annotated[bool, typer.Option(help="Hold the model to the reasoning format while decoding.")] = True,
    length: Annotated[
        str | None, typer.Option(help="Of the instructions: full, or brief. Default: brief for embedded.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.7,
    max_tokens: Annotated[int, typer.Option(min=1)] = 2000,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 16,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")] = None,
    seed: Annotated[int, typer.Option(help="Of what the model draws.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the result; run it again to go on.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure safety on a red-team set in English and Chinese: the screening, or a model's replies under a rubric."""
    import msgspec

    from compeer.errors import UserError
    from compeer.evals.safety.cases import SPLITS
    from compeer.evals.safety.replies import AnswerOptions, Settings, run_replies, run_screening
    from compeer.evals.safety.table import markdown

    if screening == (model is not None):
        raise UserError("Give --screening to measure the rules, or --model to measure replies; each has its own --out.")
    if screening and judge:
        raise UserError("--judge judges a model's replies; --screening needs none.")
    if split not in SPLITS:
        raise UserError(f"--split is {', '.join(SPLITS)}, not {split!r}.")
    if language not in (None, "en", "zh"):
        raise UserError(f"--language is en or zh, not {language!r}.")
    length = length or ("brief" if model and model.startswith("embedded") else "full")
    if length not in ("full", "brief"):
        raise UserError(f"--length is full or brief, not {length!r}.")
    settings = Settings(
        model=model or "",
        judge=judge,
        split=split,
        language=language,  # type: ignore[arg-type]
        base_url=base_url,
        judge_url=judge_url or base_url,
        prompts=prompts,
        concurrency=concurrency,
        limit=limit,
        seed=seed,
        answers=AnswerOptions(
            temperature=temperature,
            max_tokens=max_tokens,
            grammar=grammar,
            length=length,  # type: ignore[arg-type]
        ),
    )
    result = run_screening(settings, out) if screening else run_replies(settings, out)
    typer.echo(msgspec.json.format(msgspec.json.encode(result)).decode() if as_json else markdown(result))
    if out is not None and not as_json:
        typer.echo(f"\nKept in {out}; compeer eval report {out} --out DIR shows it.")
