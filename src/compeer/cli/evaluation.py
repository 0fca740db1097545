"""`compeer eval`: measure a model of emotional support.

compeer eval sage --model openai:NAME --seeker openai:OTHER --out runs/sage
compeer eval esc-eval --model openai:NAME --seeker openai:ROLE --judge openai:RANK --out runs/esc-eval
compeer eval diversity runs/sage --people esconv:data/esconv --out runs/sage-language
compeer eval control --model embedded --turns 4 --corpus esconv:data/esconv --out runs/control
compeer eval safety --model hf:runs/sft --judge openai:gpt-4o --out runs/safety
compeer eval report runs/sage runs/esc-eval --out report
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compeer.cli.options import (
    BaseUrl,
    Concurrency,
    Json,
    Language,
    Limit,
    MaxTokens,
    Seed,
    Temperature,
    check_choice,
    option_groups,
    print_json,
)

if TYPE_CHECKING:
    from compeer.evals.esc_eval.ratings import ScoreTable
    from compeer.evals.result import Result
    from compeer.evals.sage.mood import Replay

eval_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Supporter = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Supporter to measure: embedded, hf:…, openai:…, or PROVIDER/NAME of Inspect."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run. Run again to continue.")]
JudgeUrl = Annotated[str | None, typer.Option(help="Address of the judge's server. Default: --base-url.")]
Prompts = Annotated[Path | None, typer.Option(help="Folder of .txt files that replace our prompts.")]
JudgeTokens = Annotated[int, typer.Option(min=1, help="Maximum tokens per rating.")]


@dataclass
class DialogueOptions:
    """What the benchmarks with a simulated seeker share."""

    model: Supporter = None
    seeker: Annotated[str | None, typer.Option(help="Model that plays the seeker, named like --model.")] = None
    out: Out = None
    base_url: BaseUrl = None
    seeker_url: Annotated[str | None, typer.Option(help="Address of the seeker's server. Default: --base-url.")] = None
    name: Annotated[str | None, typer.Option(help="Name of the model in tables. Default: its spec.")] = None
    plain: Annotated[bool, typer.Option("--plain", help="Ask for a plain answer, without the reasoning contract.")] = (
        False
    )
    brief: Annotated[bool, typer.Option("--brief", help="Short instructions, for models trained on the contract.")] = (
        False
    )
    limit: Limit = None
    concurrency: Concurrency = 32
    temperature: Temperature = 0.7
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum tokens per reply, reasoning included. Default: 2000; plain 600.", show_default=False
        ),
    ] = None
    seeker_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per message of the seeker.")] = 500
    seed: Seed = 0
    log_calls: Annotated[bool, typer.Option("--log-calls", help="Keep every call in Inspect's log. Slower.")] = False
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of continuing.")] = False
    as_json: Json = False

    def run(self, evaluate: Callable[..., Result], *raters: Any, judge_tokens: int = 256, **cases: Any) -> None:
        """Open the roles, evaluate, and tell the result; `raters` stand after the seeker, `cases` are named."""
        from compeer.evals.roles import RoleSettings

        assert self.model and self.seeker and self.out
        settings = RoleSettings(
            plain=self.plain,
            instruction="brief" if self.brief else "full",
            concurrency=self.concurrency,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seeker_tokens=self.seeker_tokens,
            judge_tokens=judge_tokens,
            seed=self.seed,
            log_calls=self.log_calls,
        )
        roles = (self.open(self.model), self.open(self.seeker, self.seeker_url), *raters)
        how = {"limit": self.limit, "name": self.name, "fresh": self.fresh}
        _show(evaluate(self.out, *roles, settings, **cases, **how), self.out, self.as_json)

    def open(self, spec: str, url: str | None = None) -> Any:
        """The model of a role."""
        from compeer.evals.provider import open_role

        return open_role(spec, base_url=url or self.base_url, connections=self.concurrency)


@eval_app.command("sage")
@option_groups
def sage(
    dialogue: DialogueOptions,
    replay: Annotated[
        Path | None, typer.Option(help="Released SAGE log to recompute and check; no model is asked.")
    ] = None,
    profiles: Annotated[Path | None, typer.Option(help="File of SAGE profiles. Default: below $COMPEER_DATA.")] = None,
    prompts: Prompts = None,
    shorten: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum characters of persona and scene, for a seeker with a small context."),
    ] = None,
) -> None:
    """SAGE: a seeker whose mood rises and falls with every reply. Sentient, Success, Failure."""
    from compeer.errors import UserError

    if replay is not None:
        from compeer.evals.sage.mood import replay as run_replay

        _tell_replay(run_replay(replay), dialogue.as_json)
        return
    if dialogue.model is None or dialogue.seeker is None or dialogue.out is None:
        raise UserError("Give --model, --seeker and --out; or --replay LOG to recompute a released log.")
    _need_inspect()
    from compeer.evals.sage.evaluate import evaluate

    dialogue.run(evaluate, profiles=profiles, prompts=prompts, longest=shorten)


@eval_app.command("esc-eval")
@option_groups
def esc_eval(
    dialogue: DialogueOptions,
    judge: Annotated[
        list[str] | None,
        typer.Option(help="Model that rates. Repeatable. {dimension} and {language} in its name are filled in."),
    ] = None,
    judge_url: Annotated[
        list[str] | None,
        typer.Option(help="Address of the judges' server: one for all, or one per judge. Default: --base-url."),
    ] = None,
    judge_tokens: JudgeTokens = 256,
    scores: Annotated[Path | None, typer.Option(help="Folder of official score files; no model is asked.")] = None,
    cards: Annotated[
        list[Path] | None, typer.Option(help="File of role cards. Repeatable. Default: below $COMPEER_DATA.")
    ] = None,
    exclude_source: Annotated[
        list[str] | None, typer.Option(help="Corpus whose cards are left out. Repeatable.")
    ] = None,
    language: Language = None,
    official_parser: Annotated[
        bool, typer.Option("--official-parser", help="Read ratings by the official rule, where -1 goes into the mean.")
    ] = False,
    prompts: Prompts = None,
) -> None:
    """ESC-Eval: five rounds with a role-playing seeker, rated in seven dimensions."""
    from compeer.errors import UserError

    if scores is not None:
        from compeer.evals.esc_eval.ratings import read_folder

        _tell_scores(read_folder(scores, official=official_parser), dialogue.as_json)
        return
    if dialogue.model is None or dialogue.seeker is None or dialogue.out is None or not judge:
        raise UserError("Give --model, --seeker, --judge and --out; or --scores DIR for official score files.")
    check_choice("--language", language, "en", "zh")
    urls: list[str | None] = [*judge_url] if judge_url else [None]
    if len(urls) not in (1, len(judge)):
        raise UserError(f"{len(judge)} judges and {len(urls)} --judge-url: give one for all, or one for each.")
    _need_inspect()
    from compeer.evals.esc_eval.evaluate import evaluate

    dialogue.run(
        evaluate,
        [dialogue.open(spec, urls[number % len(urls)]) for number, spec in enumerate(judge)],
        judge_tokens=judge_tokens,
        cards=cards or (),
        exclude=exclude_source or (),
        language=language,
        prompts=prompts,
        official=official_parser,
    )


@eval_app.command("vera-mh")
@option_groups
def vera_mh(
    dialogue: DialogueOptions,
    judge: Annotated[str | None, typer.Option(help="Model that rates by the rubric, named like --model.")] = None,
    judge_url: JudgeUrl = None,
    judge_tokens: JudgeTokens = 256,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of VERA-MH's files. Default: below $COMPEER_DATA.")
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option(help="File to write for blind readers: conversations of --out with questions, without sources."),
    ] = None,
    answers: Annotated[Path | None, typer.Option(help="Filled sheet to rate; no model is asked.")] = None,
) -> None:
    """VERA-MH: simulated people at risk; a model or blind readers rate the replies by a clinicians' rubric."""
    from compeer.errors import UserError

    _need_inspect()
    from compeer.evals.result import load_transcripts
    from compeer.evals.safety import vera_mh as vera

    if answers is not None:
        found = vera.reader_figures(answers, vera.load_folder(folder))
        if dialogue.as_json:
            print_json(found)
            return
        for figure in found:
            typer.echo(f"  {figure.name:<64} {figure.text()}")
        return
    if dialogue.out is None or (sheet is None and dialogue.model is None):
        raise UserError("Give --model, --seeker, --judge and --out; or --answers FILE with readers' answers.")
    if dialogue.model is not None:
        if dialogue.seeker is None or judge is None:
            raise UserError("Give --seeker and --judge with --model.")
        rater = dialogue.open(judge, judge_url)
        dialogue.run(vera.evaluate, rater, judge_tokens=judge_tokens, folder=folder)
    if sheet is not None:
        count = vera.write_sheet(sheet, load_transcripts(dialogue.out), vera.load_folder(folder))
        typer.echo(f"{sheet}: {count} conversations for readers.", err=dialogue.model is not None)


@eval_app.command()
def diversity(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Folder of an evaluation, or JSON lines: outputs, items, dialogues.",
            show_default=False,
        ),
    ],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Name of the model in tables.")] = None,
    people: Annotated[
        str | None,
        typer.Option(help="Dialogues with people's strategies: a file, esconv:FOLDER, or bundled."),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(help="Sentence-transformers model. Default: the bundled embedders; none: no cosines."),
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure replies: variety, length, repetition, similarity to the references."""
    from compeer.evals.language.measure import measure, people_of, strategies_of
    from compeer.evals.language.outputs import read_outputs
    from compeer.evals.result import save_result
    from compeer.models.embedding import Embedder

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
    _show(measured.result, out, as_json)


@eval_app.command()
def control(
    model: Supporter = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Existing replies to measure, instead of asking a model: a folder or file as for diversity."
        ),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Number of turns taken from the bundled conversations.")] = 8,
    emotions: Annotated[int, typer.Option(min=0, help="Number of emotions pinned per turn, in rotation.")] = 4,
    language: Language = None,
    corpus: Annotated[
        str | None, typer.Option(help="Labelled dialogues for the strategy classifier: a file, or esconv:FOLDER.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Model that names each reply's strategy without seeing the stated one.")
    ] = None,
    grammar: Annotated[
        bool, typer.Option(help="Enforce pins while decoding; otherwise they are only asked for.")
    ] = True,
    length: Annotated[
        str | None, typer.Option(help="Instructions: full or brief. Default: brief for models trained on them.")
    ] = None,
    think: Annotated[str, typer.Option(help="Thinking before a reply: full or brief.")] = "full",
    base_url: BaseUrl = None,
    judge_url: JudgeUrl = None,
    concurrency: Concurrency = 16,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 2000,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure control: whether pinned labels are kept, and whether the reply follows the strategy."""
    from compeer.errors import UserError
    from compeer.evals.control import ControlSettings, run_control
    from compeer.models.spec import default_prompt

    if (model is None) == (earlier is None):
        raise UserError("Give --model to ask a model, or --from to measure existing replies.")
    if earlier and not (corpus or judge):
        raise UserError("Existing replies need --corpus for a classifier, or --judge.")
    check_choice("--language", language, "en", "zh")
    check_choice("--length", length, "full", "brief")
    check_choice("--think", think, "full", "brief")
    settings = ControlSettings(
        model=model,
        earlier=earlier,
        turns=turns,
        emotions=emotions,
        language=language,  # type: ignore[arg-type]
        corpus=corpus,
        judge=judge,
        grammar=grammar,
        length=length or default_prompt(model or ""),  # type: ignore[arg-type]
        think=think,  # type: ignore[arg-type]
        base_url=base_url,
        judge_url=judge_url or base_url,
        concurrency=concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )
    if model:
        typer.echo(f"{len(settings.trials())} requests to {model}.", err=True)
    result = run_control(settings, out, lambda line: typer.echo(line, err=True))
    _show(result, out, as_json)


@eval_app.command()
def safety(
    screening: Annotated[bool, typer.Option("--screening", help="Measure the screening; no model is asked.")] = False,
    model: Supporter = None,
    judge: Annotated[
        str | None, typer.Option(help="Model that judges replies by the rubric. Default: rule checks only.")
    ] = None,
    split: Annotated[str, typer.Option(help="Cases: dev, test or all.")] = "test",
    language: Language = None,
    base_url: BaseUrl = None,
    judge_url: JudgeUrl = None,
    prompts: Prompts = None,
    grammar: Annotated[bool, typer.Option(help="Enforce the reasoning format while decoding.")] = True,
    length: Annotated[
        str | None, typer.Option(help="Instructions: full or brief. Default: brief for embedded.")
    ] = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 2000,
    concurrency: Concurrency = 16,
    limit: Limit = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure safety on a red-team set in English and Chinese: the screening, or a model's replies under a rubric."""
    import tempfile

    from compeer.errors import UserError
    from compeer.evals.safety.screening import SPLITS, run_screening
    from compeer.models.spec import default_prompt

    if screening == (model is not None):
        raise UserError("Give --screening to measure the rules, or --model to measure replies; each has its own --out.")
    if screening and judge:
        raise UserError("--judge judges a model's replies; --screening needs none.")
    check_choice("--split", split, *SPLITS)
    check_choice("--language", language, "en", "zh")
    length = length or default_prompt(model or "embedded")
    check_choice("--length", length, "full", "brief")
    if model is None:
        result = run_screening(split, language, limit, out)  # type: ignore[arg-type]
        _show(result, out, as_json)
        return
    _need_inspect()
    from compeer.evals.provider import open_role
    from compeer.evals.roles import RoleSettings
    from compeer.evals.safety.replies import evaluate

    settings = RoleSettings(
        instruction=length,  # type: ignore[arg-type]
        grammar=grammar,
        temperature=temperature,
        max_tokens=max_tokens,
        concurrency=concurrency,
        seed=seed,
        log_calls=False,
    )
    with tempfile.TemporaryDirectory() as passing:
        result = evaluate(
            out or Path(passing),
            open_role(model, base_url=base_url, connections=concurrency),
            open_role(judge, base_url=judge_url or base_url, connections=concurrency) if judge else None,
            settings,
            split=split,  # type: ignore[arg-type]
            language=language,  # type: ignore[arg-type]
            prompts=prompts,
            limit=limit,
        )
    _show(result, out, as_json)


@eval_app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…", help="Folders of evaluations, training runs and judge studies.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for report.html and report.md.")],
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Evaluation report",
    most: Annotated[int, typer.Option(min=0, help="Maximum dialogues per run in the page.")] = 1000,
    as_json: Json = False,
) -> None:
    """Write a report page with results, intervals, curves and dialogues. It works offline."""
    from compeer.evals.report import write_report

    written = write_report(runs, out, most=most, title=title)
    if as_json:
        print_json(written)
        return
    typer.echo(
        f"{written.page}: {written.runs} runs, {written.transcripts:,} dialogues; {written.text} has the tables."
    )
    if written.left_out:
        typer.echo(f"{written.left_out:,} dialogues are left out of the page; --most raises the limit.")


def _need_inspect() -> None:
    from importlib.util import find_spec

    from compeer.errors import UserError

    if find_spec("inspect_ai") is None:
        raise UserError('Evaluations with models need Inspect: pip install "compeer-esc[eval]".')


def _tell_replay(replay: Replay, as_json: bool) -> None:
    if as_json:
        print_json(replay)
        return
    typer.echo(f"{replay.dialogues} dialogues, {replay.equal} of {replay.values} recorded values agree with ours")
    for figure in replay.figures:
        typer.echo(f"  {figure.name:<12} {figure.text(2):>8}")
    for one in replay.differences:
        typer.echo(f"  {one.dialogue}, turn {one.turn}: {one.what} {one.recorded}, ours {one.ours}: {one.reason}")


def _tell_scores(tables: list[ScoreTable], as_json: bool) -> None:
    if as_json:
        print_json(tables)
        return
    for table in tables:
        typer.echo(f"{table.model}, {table.language}: {table.cards} cards, {table.failures} ratings without a number")
        typer.echo("  " + "  ".join(f"{figure.name} {figure.text(2)}" for figure in table.figures))


def _show(result: Result, out: Path | None, as_json: bool) -> None:
    """A result as a table, and where it was saved."""
    from compeer.evals.report.tables import result_markdown

    if as_json:
        print_json(result)
        return
    typer.echo(result_markdown(result))
    if out is not None:
        typer.echo(f"\nSaved in {out}. Show it with: compeer eval report {out} --out DIR")
