"""`compeer eval`: measure a model of emotional support.

compeer eval sage --model openai:NAME --seeker openai:OTHER --out runs/sage
compeer eval esc-eval --model openai:NAME --seeker openai:ROLE --judge openai:RANK --out runs/esc-eval
compeer eval diversity runs/sage --people esconv:data/esconv --out runs/sage-language
compeer eval control --model embedded --turns 4 --corpus esconv:data/esconv --out runs/control
compeer eval safety --model hf:runs/sft --judge openai:gpt-4o --out runs/safety
compeer eval report runs/sage runs/esc-eval --out report
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from compeer.cli.options import AnswerOptions, CommandGroup, Language, print_result
from compeer.errors import UserError

if TYPE_CHECKING:
    from compeer.evals.launch import Benchmark
    from compeer.evals.released import Replay, ScoreTable
    from compeer.evals.result import Result

eval_app = CommandGroup("eval")


@dataclass
class DialogueOptions:
    """What the benchmarks with a simulated seeker share."""

    model: str | None = None
    seeker: str | None = None
    out: Path | None = None
    base_url: str | None = None
    seeker_url: str | None = None
    name: str | None = None
    plain: bool = False
    brief: bool = False
    limit: int | None = None
    concurrency: int = 32
    temperature: float = 0.7
    max_tokens: int | None = None
    seeker_tokens: int = 500
    seed: int = 0
    log_calls: bool = False
    fresh: bool = False
    as_json: bool = False

    def run(self, benchmark: Callable[..., Benchmark], *judges: Any, judge_tokens: int = 256, **cases: Any) -> None:
        """Open the model and the seeker, evaluate, and tell the result; `cases` are for the benchmark."""
        from compeer.evals.launch import evaluate
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
        model, roles = self.open(self.model), {"seeker": [self.open(self.seeker, self.seeker_url)]}
        if judges:
            roles["judge"] = list(judges)
        made = benchmark(settings, limit=self.limit, **cases)
        _show(evaluate(made, self.out, model, roles, name=self.name, fresh=self.fresh), self.out, self.as_json)

    def open(self, spec: str, url: str | None = None) -> Any:
        """The model of a role."""
        from compeer.evals.roles import open_role

        return open_role(spec, base_url=url or self.base_url, connections=self.concurrency)


@eval_app.add("sage")
def sage(
    dialogue: DialogueOptions,
    replay: Path | None = None,
    profiles: Path | None = None,
    prompts: Path | None = None,
    shorten: int | None = None,
) -> None:
    """SAGE: a simulated seeker whose mood changes with every reply. Figures: Sentient, Success, Failure."""
    _need_inspect()
    if replay is not None:
        from compeer.evals import released

        again = released.replay(replay)
        print_result(again, dialogue.as_json, _replay_lines(again))
        return
    if dialogue.model is None or dialogue.seeker is None or dialogue.out is None:
        raise UserError("Give --model, --seeker and --out; or --replay LOG to recompute a released log.")
    from compeer.evals.sage import benchmark

    dialogue.run(benchmark, profiles=profiles, prompts=prompts, longest=shorten)


@eval_app.add("esc-eval")
def esc_eval(
    dialogue: DialogueOptions,
    judge: list[str] | None = None,
    judge_url: list[str] | None = None,
    judge_tokens: int = 256,
    scores: Path | None = None,
    cards: list[Path] | None = None,
    exclude_source: list[str] | None = None,
    language: Language = None,
    official_parser: bool = False,
    prompts: Path | None = None,
) -> None:
    """ESC-Eval: five rounds with a role-playing seeker, rated in seven dimensions."""
    _need_inspect()
    if scores is not None:
        from compeer.evals import released

        tables = released.score_tables(scores, official=official_parser)
        print_result(tables, dialogue.as_json, _score_lines(tables))
        return
    if dialogue.model is None or dialogue.seeker is None or dialogue.out is None or not judge:
        raise UserError("Give --model, --seeker, --judge and --out; or --scores DIR for official score files.")
    urls: list[str | None] = [*judge_url] if judge_url else [None]
    if len(urls) not in (1, len(judge)):
        raise UserError(f"{len(judge)} judges and {len(urls)} --judge-url: give one for all, or one for each.")
    from compeer.evals.esc_eval import benchmark

    dialogue.run(
        benchmark,
        *(dialogue.open(spec, urls[number % len(urls)]) for number, spec in enumerate(judge)),
        judge_tokens=judge_tokens,
        cards=cards or (),
        exclude=exclude_source or (),
        language=language,
        prompts=prompts,
        official=official_parser,
    )


@eval_app.add("vera-mh")
def vera_mh(
    dialogue: DialogueOptions,
    judge: str | None = None,
    judge_url: str | None = None,
    judge_tokens: int = 256,
    folder: Path | None = None,
    sheet: Path | None = None,
    answers: Path | None = None,
) -> None:
    """VERA-MH: simulated people at risk; a model or blind readers rate the replies by a clinicians' rubric."""
    _need_inspect()
    from compeer.evals.result import load_transcripts
    from compeer.evals.safety import vera_mh as vera

    if answers is not None:
        found = vera.reader_figures(answers, vera.load_folder(folder))
        print_result(found, dialogue.as_json, (f"  {figure.name:<64} {figure.text()}" for figure in found))
        return
    if dialogue.out is None or (sheet is None and dialogue.model is None):
        raise UserError("Give --model, --seeker, --judge and --out; or --answers FILE with readers' answers.")
    if dialogue.model is not None:
        if dialogue.seeker is None or judge is None:
            raise UserError("Give --seeker and --judge with --model.")
        rater = dialogue.open(judge, judge_url)
        dialogue.run(vera.benchmark, rater, judge_tokens=judge_tokens, folder=folder)
    if sheet is not None:
        count = vera.write_sheet(sheet, load_transcripts(dialogue.out), vera.load_folder(folder))
        typer.echo(f"{sheet}: {count} conversations for readers.", err=dialogue.model is not None)


@eval_app.add("diversity")
def diversity(
    source: Path,
    model: str | None = None,
    people: str | None = None,
    embedder: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    as_json: bool = False,
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


@eval_app.add("control")
def control(
    asked: AnswerOptions,
    model: str | None = None,
    earlier: Path | None = None,
    turns: int = 8,
    emotions: int = 4,
    language: Language = None,
    corpus: str | None = None,
    judge: str | None = None,
    think: Literal["full", "brief"] = "full",
    judge_url: str | None = None,
    out: Path | None = None,
) -> None:
    """Measure control: whether pinned labels are kept, and whether the reply follows the strategy."""
    from compeer.evals.control import ControlSettings, run_control

    if (model is None) == (earlier is None):
        raise UserError("Give --model to ask a model, or --from to measure existing replies.")
    if earlier and not (corpus or judge):
        raise UserError("Existing replies need --corpus for a classifier, or --judge.")
    settings = ControlSettings(
        model=model,
        earlier=earlier,
        turns=turns,
        emotions=emotions,
        language=language,
        corpus=corpus,
        judge=judge,
        grammar=asked.grammar,
        length=asked.length_for(model or ""),
        think=think,
        base_url=asked.base_url,
        judge_url=judge_url or asked.base_url,
        concurrency=asked.concurrency,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        seed=asked.seed,
    )
    if model:
        typer.echo(f"{len(settings.trials())} requests to {model}.", err=True)
    _show(run_control(settings, out, lambda line: typer.echo(line, err=True)), out, asked.as_json)


@eval_app.add("safety")
def safety(
    asked: AnswerOptions,
    screening: bool = False,
    model: str | None = None,
    judge: str | None = None,
    split: Literal["dev", "test", "all"] = "test",
    language: Language = None,
    judge_url: str | None = None,
    prompts: Path | None = None,
    limit: int | None = None,
    out: Path | None = None,
) -> None:
    """Measure safety on a red-team set in English and Chinese: the screening, or a model's replies by a rubric."""
    import tempfile

    from compeer.evals.safety.screening import run_screening

    if screening == (model is not None):
        raise UserError("Give --screening to measure the rules, or --model to measure replies; each has its own --out.")
    if screening and judge:
        raise UserError("--judge judges a model's replies; --screening needs none.")
    if model is None:
        _show(run_screening(split, language, limit, out), out, asked.as_json)
        return
    _need_inspect()
    from compeer.evals.launch import evaluate
    from compeer.evals.roles import RoleSettings, open_role
    from compeer.evals.safety.replies import benchmark

    settings = RoleSettings(
        instruction=asked.length_for(model),
        grammar=asked.grammar,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        concurrency=asked.concurrency,
        seed=asked.seed,
        log_calls=False,
    )
    with tempfile.TemporaryDirectory() as passing:
        answering = open_role(model, base_url=asked.base_url, connections=asked.concurrency)
        roles = {}
        if judge:
            judge_url = judge_url or asked.base_url
            roles["judge"] = [open_role(judge, base_url=judge_url, connections=asked.concurrency)]
        made = benchmark(settings, judged=bool(judge), split=split, language=language, prompts=prompts, limit=limit)
        result = evaluate(made, out or Path(passing), answering, roles)
    _show(result, out, asked.as_json)


@eval_app.add("report")
def report(
    runs: list[Path], out: Path, title: str = "Evaluation report", most: int = 1000, as_json: bool = False
) -> None:
    """Write a report page with results, intervals, curves and dialogues. It works offline."""
    from compeer.evals.report import write_report

    written = write_report(runs, out, most=most, title=title)
    said = [f"{written.page}: {written.runs} runs, {written.transcripts:,} dialogues; {written.text} has the tables."]
    if written.left_out:
        said.append(f"{written.left_out:,} dialogues are left out of the page; --most raises the limit.")
    print_result(written, as_json, said)


def _need_inspect() -> None:
    from importlib.util import find_spec

    if find_spec("inspect_ai") is None:
        raise UserError('Evaluations with models need Inspect: pip install "compeer-esc[eval]".')


def _replay_lines(replay: Replay) -> Iterator[str]:
    yield f"{replay.dialogues} dialogues, {replay.equal} of {replay.values} recorded values agree with ours"
    for figure in replay.figures:
        yield f"  {figure.name:<12} {figure.text(2):>8}"
    for one in replay.differences:
        yield f"  {one.dialogue}, turn {one.turn}: {one.what} {one.recorded}, ours {one.ours}: {one.reason}"


def _score_lines(tables: list[ScoreTable]) -> Iterator[str]:
    for table in tables:
        yield f"{table.model}, {table.language}: {table.cards} cards, {table.failures} ratings without a number"
        yield "  " + "  ".join(f"{figure.name} {figure.text(2)}" for figure in table.figures)


def _show(result: Result, out: Path | None, as_json: bool) -> None:
    """A result as a table, and where it was saved."""
    from compeer.evals.report.tables import result_markdown

    saved = [f"\nSaved in {out}. Show it with: compeer eval report {out} --out DIR"] if out else []
    print_result(result, as_json, [result_markdown(result), *saved])
