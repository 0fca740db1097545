"""compeer eval diversity and control: how a supporter writes, and whether it does as it is told.

compeer eval diversity runs/sage --people esconv:data/esconv --out runs/sage-language
compeer eval diversity replies.jsonl --model my-model --json
compeer eval control --model embedded --turns 4 --corpus esconv:data/esconv --out runs/control
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compeer.cli.evaluation import eval_app

if TYPE_CHECKING:
    from compeer.evals.result import Result

Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the result and its dialogues.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int, typer.Option(help="Of the resampling and of what is drawn.")]


@eval_app.command()
def diversity(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="An evaluation's folder, or JSON lines: outputs, items, dialogues.", show_default=False
        ),
    ],
    model: Annotated[str | None, typer.Option("--model", "-m", help="What to call it in a table.")] = None,
    people: Annotated[
        str | None,
        typer.Option(help="Dialogues with people's strategies: a file, esconv:FOLDER, or bundled."),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(help="A sentence-transformers model. Default: those that come along; none: no cosines."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N records.")] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how varied replies are, how long, how repetitive, and how near to their references."""
    from compeer.evals.language import measure as table
    from compeer.evals.language.measure import measure
    from compeer.evals.language.outputs import read_outputs
    from compeer.evals.language.strategies import people_of, strategies_of
    from compeer.evals.result import save_result
    from compeer.policy.embedding import Embedder

    outputs = read_outputs(source, limit)
    vectors = None if embedder == "none" else Embedder(embedder)
    theirs = strategies_of(people_of(people)) if people else None
    measured = measure(
        outputs,
        model or outputs.model or source.name.partition(".")[0],
        vectors,
        embedder=vectors.name if vectors else "",
        people=theirs,
        people_source=people or "",
        seed=seed,
    )
    if out is not None:
        save_result(out, measured.result, measured.transcripts)
    _tell(measured.result, table.markdown(measured.result), out, as_json)


@eval_app.command()
def control(
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The supporter: embedded, hf:… or openai:….")
    ] = None,
    earlier: Annotated[
        Path | None, typer.Option("--from", help="Judge replies that are there: a folder or file as for diversity.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Moments of the bundled conversations to pin at.")] = 8,
    emotions: Annotated[int, typer.Option(min=0, help="Emotions pinned at each moment, in rotation.")] = 4,
    language: Annotated[str | None, typer.Option(help="en or zh. Default: both in turn.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Labelled dialogues for the strategy classifier: a file, or esconv:FOLDER.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="A model that names each reply's strategy, unseen.")] = None,
    grammar: Annotated[bool, typer.Option(help="Enforce pins while decoding; without it they are only asked.")] = True,
    length: Annotated[str, typer.Option(help="Of the instructions: full, or brief for trained models.")] = "full",
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    judge_url: Annotated[str | None, typer.Option(help="Address of the judge's server, if another.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 16,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.7,
    max_tokens: Annotated[int, typer.Option(min=1)] = 2000,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Pin stages, emotions and strategies and see whether they are kept, and whether the reply does what it says."""
    from compeer.errors import UserError
    from compeer.evals.control.run import Settings, markdown, run_control

    if (model is None) == (earlier is None):
        raise UserError("Give --model to pin and ask, or --from with replies that are there already.")
    if earlier and not (corpus or judge):
        raise UserError("Replies that are there can only be judged: give --corpus for a classifier, or --judge.")
    if language not in (None, "en", "zh"):
        raise UserError(f"--language is en or zh, not {language!r}.")
    if length not in ("full", "brief"):
        raise UserError(f"--length is full or brief, not {length!r}.")
    settings = Settings(
        model=model,
        earlier=earlier,
        turns=turns,
        emotions=emotions,
        language=language,  # type: ignore[arg-type]
        corpus=corpus,
        judge=judge,
        grammar=grammar,
        length=length,  # type: ignore[arg-type]
        base_url=base_url,
        judge_url=judge_url or base_url,
        concurrency=concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )
    if model:
        typer.echo(f"{settings.calls()} requests to {model}.", err=True)
    result = run_control(settings, out, lambda line: typer.echo(line, err=True))
    _tell(result, markdown(result), out, as_json)


def _tell(result: Result, text: str, out: Path | None, as_json: bool) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(result)).decode() if as_json else text)
    if out is not None and not as_json:
        typer.echo(f"\nKept in {out}; compeer eval report {out} --out DIR shows it.")
