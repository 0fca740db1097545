"""compeer eval: measure a model of emotional support.

compeer eval sage --model openai:NAME --seeker openai:OTHER --out runs/sage
compeer eval esc-eval --model openai:NAME --seeker openai:ROLE --judge openai:RANK --out runs/esc-eval
compeer eval sage --replay released.jsonl --json
compeer eval esc-eval --scores DIR --json
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from compeer.evals.esc_eval.scores import Table
    from compeer.evals.result import Result
    from compeer.evals.roles import Settings
    from compeer.evals.sage.scores import Replay

eval_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The supporter: embedded, hf:…, openai:…, or PROVIDER/NAME of Inspect."),
]
Seeker = Annotated[str | None, typer.Option(help="The model that plays the seeker, named likewise.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder of the run; the same command again goes on there.")
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server. Default: $OPENAI_BASE_URL.")]
SeekerUrl = Annotated[str | None, typer.Option(help="Address of the seeker's server, if another.")]
Name = Annotated[str | None, typer.Option(help="What tables call the model. Default: its spec.")]
Prompts = Annotated[Path | None, typer.Option(help="A folder of .txt files that replace our prompts.")]
Plain = Annotated[bool, typer.Option("--plain", help="The supporter answers without our reasoning contract.")]
Brief = Annotated[bool, typer.Option("--brief", help="The contract's short prompt, for models trained on it.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N dialogues.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Calls in flight, over all models.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Of the supporter.")]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Of a reply with its reasoning. Default: 2000; plain 600.", show_default=False)
]
SeekerTokens = Annotated[int, typer.Option(min=1, help="Of what the seeker writes.")]
LogCalls = Annotated[bool, typer.Option("--log-calls", help="Every call in Inspect's log; slower.")]
Seed = Annotated[int, typer.Option(help="Of every sampled answer.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@eval_app.command("sage")
def sage(
    model: Model = None,
    seeker: Seeker = None,
    out: Out = None,
    replay: Annotated[
        Path | None, typer.Option(help="A released SAGE log: recompute and check it; asks no model.")
    ] = None,
    profiles: Annotated[Path | None, typer.Option(help="SAGE's profiles. Default: below $COMPEER_DATA.")] = None,
    base_url: BaseUrl = None,
    seeker_url: SeekerUrl = None,
    name: Name = None,
    prompts: Prompts = None,
    plain: Plain = False,
    brief: Brief = False,
    limit: Limit = None,
    concurrency: Concurrency = 32,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = None,
    seeker_tokens: SeekerTokens = 500,
    shorten: Annotated[
        int | None, typer.Option(min=1, help="Characters of persona and of scene, for a seeker with a small context.")
    ] = None,
    seed: Seed = 0,
    log_calls: LogCalls = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """SAGE: a seeker whose mood rises and falls with every reply. Sentient, Success, Failure."""
    from compeer.errors import UserError

    if replay is not None:
        from compeer.evals.sage.scores import replay as run_replay

        _tell_replay(run_replay(replay), as_json)
        return
    if model is None or seeker is None or out is None:
        raise UserError("Give --model, --seeker and --out; or --replay LOG to recompute a released log.")
    _need_inspect()
    from compeer.evals.provider import open_role
    from compeer.evals.sage.evaluate import evaluate

    settings = _settings(plain, brief, concurrency, temperature, max_tokens, seeker_tokens, seed, log_calls)
    result = evaluate(
        out,
        open_role(model, base_url=base_url, connections=concurrency),
        open_role(seeker, base_url=seeker_url or base_url, connections=concurrency),
        settings,
        profiles=profiles,
        prompts=prompts,
        limit=limit,
        longest=shorten,
        name=name,
        fresh=fresh,
    )
    _tell(result, out, as_json)


@eval_app.command("esc-eval")
def esc_eval(
    model: Model = None,
    seeker: Seeker = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(help="A model that rates; once a judge. {dimension} and {language} in its name are filled in."),
    ] = None,
    out: Out = None,
    scores: Annotated[Path | None, typer.Option(help="A folder of official score files; asks no model.")] = None,
    cards: Annotated[
        list[Path] | None, typer.Option(help="Role cards, once a file. Default: below $COMPEER_DATA.")
    ] = None,
    exclude_source: Annotated[list[str] | None, typer.Option(help="Leave out cards made from this corpus.")] = None,
    language: Annotated[str | None, typer.Option(help="en or zh. Default: both.")] = None,
    official_parser: Annotated[
        bool, typer.Option("--official-parser", help="Read ratings by the official rule; -1 goes into the mean.")
    ] = False,
    base_url: BaseUrl = None,
    seeker_url: SeekerUrl = None,
    judge_url: Annotated[
        list[str] | None, typer.Option(help="Address of the judges' server, if another: one for all, or once a judge.")
    ] = None,
    name: Name = None,
    prompts: Prompts = None,
    plain: Plain = False,
    brief: Brief = False,
    limit: Limit = None,
    concurrency: Concurrency = 32,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = None,
    seeker_tokens: SeekerTokens = 500,
    judge_tokens: Annotated[int, typer.Option(min=1, help="Of what a judge writes for one rating.")] = 256,
    seed: Seed = 0,
    log_calls: LogCalls = False,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """ESC-Eval: five rounds with a role-playing seeker, rated in seven dimensions."""
    from compeer.errors import UserError

    if scores is not None:
        from compeer.evals.esc_eval.scores import read_folder

        _tell_scores(read_folder(scores, official=official_parser), as_json)
        return
    if model is None or seeker is None or out is None or not judge:
        raise UserError("Give --model, --seeker, --judge and --out; or --scores DIR for official score files.")
    if language not in (None, "en", "zh"):
        raise UserError(f"--language is en or zh, not {language!r}.")
    urls: list[str | None] = [*judge_url] if judge_url else [None]
    if len(urls) not in (1, len(judge)):
        raise UserError(f"{len(judge)} judges and {len(urls)} --judge-url: give one for all, or one for each.")
    _need_inspect()
    from compeer.evals.esc_eval.evaluate import evaluate
    from compeer.evals.provider import open_role

    settings = _settings(
        plain, brief, concurrency, temperature, max_tokens, seeker_tokens, seed, log_calls, judge_tokens
    )
    result = evaluate(
        out,
        open_role(model, base_url=base_url, connections=concurrency),
        open_role(seeker, base_url=seeker_url or base_url, connections=concurrency),
        [
            open_role(spec, base_url=urls[number % len(urls)] or base_url, connections=concurrency)
            for number, spec in enumerate(judge)
        ],
        settings,
        cards=cards or (),
        exclude=exclude_source or (),
        language=language,  # type: ignore[arg-type]
        prompts=prompts,
        official=official_parser,
        limit=limit,
        name=name,
        fresh=fresh,
    )
    _tell(result, out, as_json)


def _settings(
    plain: bool,
    brief: bool,
    concurrency: int,
    temperature: float,
    max_tokens: int | None,
    seeker_tokens: int,
    seed: int,
    log_calls: bool,
    judge_tokens: int = 256,
) -> Settings:
    from compeer.evals.roles import Settings

    return Settings(
        plain=plain,
        instruction="brief" if brief else "full",
        concurrency=concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        seeker_tokens=seeker_tokens,
        judge_tokens=judge_tokens,
        seed=seed,
        log_calls=log_calls,
    )


def _need_inspect() -> None:
    from importlib.util import find_spec

    from compeer.errors import UserError

    if find_spec("inspect_ai") is None:
        raise UserError('Evaluations with models need Inspect: pip install "compeer[eval]".')


def _tell(result: Result, out: Path, as_json: bool) -> None:
    if as_json:
        _json(result)
        return
    typer.echo(f"{result.benchmark} of {result.model}, {result.setup['samples']} dialogues")
    for figure in result.figures:
        if "/" in figure.name:  # by language and by judge: in the file, and in the report
            continue
        spread = f"   {figure.low:.2f} to {figure.high:.2f}" if figure.low is not None else ""
        typer.echo(f"  {figure.name:<12} {figure.value:8.2f}{spread}")
    for note in result.notes:
        typer.echo(f"  {note}")
    typer.echo(f"All of it: {out}")


def _tell_replay(replay: Replay, as_json: bool) -> None:
    if as_json:
        _json(replay)
        return
    typer.echo(f"{replay.dialogues} dialogues, {replay.equal} of {replay.values} recorded values are ours as well")
    for figure in replay.figures:
        typer.echo(f"  {figure.name:<12} {figure.value:8.2f}")
    for one in replay.differences:
        typer.echo(f"  {one.dialogue}, turn {one.turn}: {one.what} {one.recorded}, ours {one.ours}: {one.reason}")


def _tell_scores(tables: list[Table], as_json: bool) -> None:
    if as_json:
        _json(tables)
        return
    for table in tables:
        typer.echo(f"{table.model}, {table.language}: {table.cards} cards, {table.failures} ratings without a number")
        typer.echo("  " + "  ".join(f"{figure.name} {figure.value:.2f}" for figure in table.figures))


def _json(value: Any) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())
