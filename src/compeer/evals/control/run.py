"""The whole measurement of control, from settings to a Result.

With `--out` the answers are cached in the run's folder: a run that was stopped goes on where it stood.

A result of control for a reader.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Said as Before
from compeer.errors import UserError
from compeer.evals.control import adherence
from compeer.evals.control import adherence as trials
from compeer.evals.control import strategy as agreement
from compeer.evals.control import strategy as judging
from compeer.evals.control.adherence import Tried
from compeer.evals.control.strategy import train
from compeer.evals.language.measure import cases_hash, shown
from compeer.evals.language.outputs import Output, read_outputs
from compeer.evals.language.strategies import people_of
from compeer.evals.result import Result, Transcript, save_result
from compeer.models import CachedModel, Model, RequestCache, open_model, run
from compeer.models.embedding import Embedder
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.reasoning.prompt import Length
from compeer.statistics import Figure

Tell = Callable[[str], None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, and how."""

    model: str | None = None
    earlier: Path | None = None
    turns: int = 8
    emotions: int = 4
    limit: int | None = None  # only the first trials
    language: Language | None = None
    corpus: str | None = None
    judge: str | None = None
    grammar: bool = True
    length: Length = "full"
    base_url: str | None = None
    judge_url: str | None = None
    concurrency: int = 16
    temperature: float = 0.7
    max_tokens: int = 2000
    seed: int = 0

    def trials(self) -> list[trials.Trial]:
        return trials.trials(self.turns, self.emotions, self.language, self.seed)[: self.limit]

    def calls(self) -> int:
        """How many outputs the model will be asked for."""
        return len(self.trials())


def run_control(settings: Settings, out: Path | None, tell: Tell = lambda line: None) -> Result:
    """Measure, keep the result in `out` where there is one, and return it."""
    if settings.judge:
        open_model(settings.judge, base_url=settings.judge_url)  # a wrong name should be known before the work
    with tempfile.TemporaryDirectory() as passing:
        cache = (out or Path(passing)) / "cache.sqlite"
        figures: list[Figure] = []
        notes: list[str] = []
        tried: list[Tried] = []
        if settings.model:
            tried = _pin(settings, cache, tell)
            figures += adherence.figures(tried, settings.seed)
            outputs = [_output(one) for one in tried if one.parsed]
            transcripts = tuple(adherence.transcript(one) for one in tried)
            name, cases = settings.model, cases_hash(one.trial.id for one in tried)
            if failed := [one.failure for one in tried if one.failure]:
                notes.append(f"{len(failed)} of {len(tried)} requests got no answer, e.g. {failed[0]}")
            if not any(one.parsed for one in tried):
                raise UserError(f"{settings.model} answered none of {len(tried)} requests: {failed[0]}")
        else:
            assert settings.earlier is not None
            source = read_outputs(settings.earlier)
            outputs, transcripts = list(source.outputs), source.transcripts
            name, cases = source.model or settings.earlier.name, cases_hash(one.id for one in transcripts)
            if not any(one.strategies for one in outputs):
                raise UserError(f"{settings.earlier}: no reply states a strategy, so there is nothing to agree with.")
        setup = _setup(settings, outputs)
        comparable = {"cases": cases}
        readers = _readers(settings, outputs, cache, tell, figures, notes, setup, comparable)
    figures += [figure for reader in readers for figure in agreement.figures(reader, outputs, settings.seed)]
    setup["agreement"] = {reader.name: agreement.confusion(reader, outputs) for reader in readers}
    result = Result(
        "control",
        name if settings.grammar or not settings.model else f"{name}, without grammar",
        comparable,
        tuple(figure for figure in figures if figure.value is not None),
        setup,
        tuple(notes),
    )
    if out is not None:
        save_result(out, result, _scored(transcripts, outputs, readers))
    return result


def _pin(settings: Settings, cache: Path, tell: Tell) -> list[Tried]:
    wanted = settings.trials()
    home = open_model(settings.model, base_url=settings.base_url, concurrency=settings.concurrency)

    async def work() -> list[Tried]:
        model = CachedModel(home, RequestCache(cache))
        try:
            return await adherence.ask_trials(
                model,
                wanted,
                grammar=settings.grammar,
                length=settings.length,
                concurrency=settings.concurrency,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                seed=settings.seed,
                watch=_counting(tell, "outputs", len(wanted)),
            )
        finally:
            await model.close()

    return run(work())


def _readers(
    settings: Settings,
    outputs: Sequence[Output],
    cache: Path,
    tell: Tell,
    figures: list[Figure],
    notes: list[str],
    setup: dict[str, Any],
    comparable: dict[str, str],
) -> list[agreement.Reader]:
    """The classifier of each language the corpus has, and the judge; each adds what a reader must know of it."""
    readers = []
    if settings.corpus:
        dialogues = people_of(settings.corpus)
        embedder = Embedder()
        comparable["classifier"] = f"{settings.corpus}, {embedder.name}"
        for language in LANGUAGES:
            count = sum(one.language == language for one in outputs)
            if not count:
                continue
            if not any(one.language == language for one in dialogues):
                notes.append(
                    f"{count} replies in {language} were not classified: the corpus has none in that language."
                )
                continue
            tell(f"Training the strategy classifier ({language}) on {settings.corpus}.")
            classifier = train(dialogues, embedder, language, seed=settings.seed)
            quality = classifier.quality
            for measure in ("accuracy", "macro_f1", "commonest"):
                value = getattr(quality, measure)
                figures.append(Figure(f"classifier-{measure.replace('_', '-')}/{language}", value, n=quality.held_out))
            setup[f"classifier/{language}"] = msgspec.to_builtins(quality)
            notes.append(
                f"The classifier ({language}) is right about {quality.accuracy:.0%} of {quality.held_out} utterances "
                f"that people labelled and it never saw (always naming the commonest: {quality.commonest:.0%}); "
                "agreement cannot mean more than that."
            )
            readers.append(agreement.by_classifier(classifier, outputs))
    if settings.judge:
        readers.append(_judged(settings, outputs, cache, tell))
        comparable |= {"judge": settings.judge, "judge prompt": judging.prompt_hash()}
        if unread := sum(told is None for told in readers[-1].main):
            notes.append(f"The judge gave no reading of {unread} of {len(outputs)} replies; they are left out.")
    return readers


def _judged(settings: Settings, outputs: Sequence[Output], cache: Path, tell: Tell) -> agreement.Reader:
    home: Model = open_model(settings.judge, base_url=settings.judge_url, concurrency=settings.concurrency)

    async def work() -> agreement.Reader:
        model = CachedModel(home, RequestCache(cache))
        try:
            watch = _counting(tell, "replies judged", len(outputs))
            return await agreement.by_judge(model, outputs, settings.concurrency, watch)
        finally:
            await model.close()

    return run(work())


def _output(tried: Tried) -> Output:
    assert tried.parsed is not None
    moment = tried.trial.moment
    strategy = tried.parsed.labels.get("strategy")
    before = tuple(Before(turn.speaker, turn.text) for turn in moment.history)
    stated = (str(strategy),) if strategy else ()
    return Output(tried.trial.id, moment.id, moment.language, tried.parsed.response, before, strategies=stated)


def _setup(settings: Settings, outputs: Sequence[Output]) -> dict[str, Any]:
    asked = ("turns", "emotions", "grammar", "length", "temperature", "max_tokens") if settings.model else ()
    names = (*asked, "corpus", "judge", "seed")
    return {name: getattr(settings, name) for name in names} | {"replies": len(outputs)}


def _scored(
    transcripts: Sequence[Transcript], outputs: Sequence[Output], readers: Sequence[agreement.Reader]
) -> list[Transcript]:
    """The transcripts with each reader's share of agreement, for comparisons case by case."""
    held: dict[str, dict[str, list[bool]]] = {}
    for reader in readers:
        for output, told in zip(outputs, reader.main, strict=True):
            if told is not None and output.strategies:
                held.setdefault(output.case, {}).setdefault(reader.name, []).append(told in output.strategies)
    kept = []
    for one in transcripts:
        more = {f"agreement/{name}": sum(each) / len(each) for name, each in held.get(one.id, {}).items()}
        kept.append(msgspec.structs.replace(one, scores={**one.scores, **more}))
    return kept


def _counting(tell: Tell, what: str, whole: int) -> Callable[[int], None]:
    step = max(1, whole // 10)

    def watch(done: int) -> None:
        if done % step == 0 or done == whole:
            tell(f"{done} of {whole} {what}")

    return watch


MEANINGS = {
    "adherence": "pins that the output keeps",
    "adherence/stage": "pinned stages kept",
    "adherence/strategy": "pinned strategies kept",
    "adherence/emotion": "pinned emotions kept",
    "completeness": "outputs with all three steps and a reply",
    "failures": "requests without an answer",
    "agreement/judge": "replies whose main strategy, in the judge's eyes, is the stated one",
    "agreement/judge-any": "the same, counting secondary strategies",
}


def meaning(name: str) -> str:
    """What a figure is.

    >>> meaning("agreement/classifier/en")
    'replies that the classifier reads as the stated strategy (en)'
    """
    if name in MEANINGS:
        return MEANINGS[name]
    kind, _, language = name.rpartition("/")
    beginnings = {
        "agreement/classifier": "replies that the classifier reads as the stated strategy",
        "classifier-accuracy": "the classifier's own accuracy on held-out utterances of people",
        "classifier-macro-f1": "its F1 there, all strategies alike",
        "classifier-commonest": "what always naming the commonest strategy reaches there",
    }
    return f"{beginnings[kind]} ({language})" if kind in beginnings else ""


def markdown(result: Result) -> str:
    """The figures with what they mean, then the notes."""
    lines = [f"{result.model}: control", "", "| figure | value | n | what it is |", "|---|---:|---:|---|"]
    lines += [f"| {one.name} | {shown(one)} | {one.n} | {meaning(one.name)} |" for one in result.figures]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)])
