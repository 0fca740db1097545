"""Control: whether a supporter keeps pinned labels, and whether its reply does what its reasoning says.

**Pins.** Moments are supporter turns of the bundled conversations, drawn with a seed, the languages in turn. At each
moment every stage and every strategy is pinned once, and some emotions, in rotation so that all come up over the
moments; one more output is left free, to see what the model does by itself. Every output is asked for once and taken as
it comes: a second attempt would hide what is measured. A request without an answer is no failure of control and is
counted apart. So is an output that ran into a limit: cut at the maximum of tokens, or with a step or reply as long as
the grammar allows, because an end that the grammar forces is not the model's. Intervals take moments as groups, since
outputs at one moment are alike.

**Replies.** Readers (`strategy_readers`) name the strategy of each reply without seeing the stated one.

With `--out` the answers are cached in the run's folder, so an interrupted run continues.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compeer.cer.item import Item, chat_history, items_at
from compeer.corpora import bundled
from compeer.dialogue import rounds
from compeer.errors import UserError
from compeer.evals import strategy_readers
from compeer.evals.language.measure import people_of
from compeer.evals.language.outputs import Output, read_outputs, stated_strategy
from compeer.evals.result import Result, Transcript, TranscriptTurn, cases_digest, save_result
from compeer.models import Answer, CachedModel, Failure, Model, RequestCache, ask_all, open_model, request_for, run
from compeer.models.embedding import Embedder
from compeer.reasoning import Control, Parsed, Pins, parse, violations
from compeer.reasoning.grammar import forced_end
from compeer.reasoning.ontology import EMOTIONS, LANGUAGES, STAGES, STRATEGIES, Language
from compeer.reasoning.prompt import Length, Think
from compeer.statistics import Figure, share_figure

FREE = "free"
Tell = Callable[[str], None]
Answers = TypeVar("Answers")


class ControlSettings(msgspec.Struct, frozen=True, kw_only=True):
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
    think: Think = "full"
    base_url: str | None = None
    judge_url: str | None = None
    concurrency: int = 16
    temperature: float = 0.7
    max_tokens: int = 2000
    seed: int = 0

    def trials(self) -> list[PinTrial]:
        """The outputs that the model will be asked for."""
        return trials(self.turns, self.emotions, self.language, self.seed)[: self.limit]


class PinTrial(msgspec.Struct, frozen=True):
    """One output to ask for. `label` is what is pinned ("stage", "emotion", "strategy") or "free"."""

    id: str
    moment: Item
    label: str
    value: str | None = None

    @property
    def control(self) -> Control:
        return Control(Pins.of({self.label: self.value})) if self.value else Control()


def moments(count: int, language: Language | None = None, seed: int = 0) -> list[Item]:
    """Turns that answer something the seeker said, each of another dialogue as long as there are any."""
    wanted = (language,) if language else LANGUAGES
    streams = [_shuffled(one, seed) for one in wanted]
    return [next(streams[number % len(streams)]) for number in range(count)]


def trials(count: int, emotions: int, language: Language | None = None, seed: int = 0) -> list[PinTrial]:
    """The outputs to ask for; `count` moments, `emotions` of the emotions at each."""
    found: list[PinTrial] = []
    for number, moment in enumerate(moments(count, language, seed)):
        names = EMOTIONS.ids
        some = [names[(number * emotions + step) % len(names)] for step in range(min(emotions, len(names)))]
        pins = [("stage", one) for one in STAGES.ids] + [("strategy", one) for one in STRATEGIES.ids]
        pins += [("emotion", one) for one in some]
        found.append(PinTrial(f"{number + 1}/{moment.id}/{FREE}", moment, FREE))
        found += [PinTrial(f"{number + 1}/{moment.id}/{label}={value}", moment, label, value) for label, value in pins]
    return found


def _shuffled(language: Language, seed: int) -> Iterator[Item]:
    """The bundled turns of a language without end: one turn of every dialogue, then a second one, and so on."""
    rng = random.Random(f"{seed} {language}")
    dialogues = sorted(bundled.load(language), key=lambda dialogue: dialogue.id)
    rng.shuffle(dialogues)
    decks = []
    for dialogue in dialogues:
        places = [one.index for one in rounds(dialogue) if one.seeker is not None]
        rng.shuffle(places)
        decks.append(items_at(dialogue, places))
    deepest = max(len(deck) for deck in decks)
    while True:
        for depth in range(deepest):
            yield from (deck[depth] for deck in decks if depth < len(deck))


class TriedPin(msgspec.Struct, frozen=True):
    """A trial with what came of it. `kept` is None where nothing was pinned or no answer came."""

    trial: PinTrial
    raw: str | None
    parsed: Parsed | None
    kept: bool | None
    failure: str | None = None
    limited: bool | None = None  # it ran into a length limit

    @property
    def complete(self) -> bool | None:
        return self.parsed.complete if self.parsed else None


async def ask_trials(
    model: Model, wanted: Sequence[PinTrial], settings: ControlSettings, watch: Callable[[int], None]
) -> list[TriedPin]:
    requests = [
        request_for(
            chat_history(trial.moment),
            trial.moment.language,
            trial.control,
            length=settings.length,
            think=settings.think,
            grammar=settings.grammar,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=settings.seed + number,
        )
        for number, trial in enumerate(wanted)
    ]
    done = count(1)
    answers = await ask_all(model, requests, settings.concurrency, lambda *_: watch(next(done)))
    brief = settings.think == "brief"
    return [_judged_trial(trial, answer, brief) for trial, answer in zip(wanted, answers, strict=True)]


def _judged_trial(trial: PinTrial, answer: Answer | Failure, brief: bool) -> TriedPin:
    """Whether the output is complete, keeps its pin, and ended by itself."""
    if isinstance(answer, Failure):
        return TriedPin(trial, None, None, None, answer.reason)
    parsed = parse(answer.text)
    kept = not violations(parsed, trial.control) if trial.value else None
    language = trial.moment.language
    ends = [forced_end(text, language, step=True, brief=brief) for text in parsed.texts.values()]
    limited = answer.finish == "length" or any(ends) or forced_end(parsed.response, language, step=False)
    return TriedPin(trial, answer.text, parsed, kept, limited=limited)


def adherence_figures(tried: Sequence[TriedPin]) -> list[Figure]:
    """Adherence over all pins and by label, completeness, outputs at a length limit, requests without an answer."""
    groups = [one.trial.moment.id for one in tried]

    def share(name: str, label: str | None = None) -> Figure:
        return share_figure(name, [one.kept if label in (None, one.trial.label) else None for one in tried], groups)

    labels = dict.fromkeys(one.trial.label for one in tried if one.trial.label != FREE)
    return [
        share("adherence"),
        *(share(f"adherence/{label}", label) for label in labels),
        share_figure("completeness", [one.complete for one in tried], groups),
        share_figure("at a length limit", [one.limited for one in tried], groups),
        Figure("failures", sum(one.failure is not None for one in tried), n=len(tried)),
    ]


def _transcript(tried: TriedPin) -> Transcript:
    said = tuple(TranscriptTurn(turn.speaker, turn.text) for turn in tried.trial.moment.history)
    reply = tried.parsed.response if tried.parsed else ""
    note = "; ".join(tried.parsed.problems) if tried.parsed else f"no answer: {tried.failure}"
    thought = (tried.raw or "").strip().removesuffix(reply).strip()
    own = TranscriptTurn("supporter", reply, reasoning=thought or None, note=note or None)
    scores: dict[str, float | None] = {"completeness": _number(tried.complete)}
    if tried.trial.value:
        scores |= {"adherence": _number(tried.kept)}
    pinned = f"{tried.trial.label}={tried.trial.value}" if tried.trial.value else "nothing"
    end = "kept" if tried.kept else None if tried.kept is None else "not kept"
    moment = tried.trial.moment
    about = {"pin": pinned}
    return Transcript(tried.trial.id, moment.language, (*said, own), scores, end=end, group=moment.id, about=about)


def _number(holds: bool | None) -> float | None:
    return None if holds is None else float(holds)


def run_control(settings: ControlSettings, out: Path | None, tell: Tell = lambda line: None) -> Result:
    """Measure, and save the result in `out` if given."""
    if settings.judge:
        open_model(settings.judge, base_url=settings.judge_url)  # a wrong name is an error before the work begins
    with tempfile.TemporaryDirectory() as passing:
        cache = (out or Path(passing)) / "cache.sqlite"
        figures: list[Figure] = []
        notes: list[str] = []
        tried: list[TriedPin] = []
        if settings.model:
            wanted = settings.trials()
            watch = _counting(tell, "outputs", len(wanted))
            tried = _with_model(
                settings.model, settings.base_url, settings, cache, lambda m: ask_trials(m, wanted, settings, watch)
            )
            figures += adherence_figures(tried)
            outputs = [_output(one) for one in tried if one.parsed]
            transcripts = tuple(_transcript(one) for one in tried)
            name, cases = settings.model, cases_digest(sorted(one.trial.id for one in tried))
            if failed := [one.failure for one in tried if one.failure]:
                notes.append(f"{len(failed)} of {len(tried)} requests got no answer, e.g. {failed[0]}")
            if not any(one.parsed for one in tried):
                raise UserError(f"{settings.model} answered none of {len(tried)} requests: {failed[0]}")
        else:
            assert settings.earlier is not None
            source = read_outputs(settings.earlier)
            outputs, transcripts = list(source.outputs), source.transcripts
            name, cases = source.model or settings.earlier.name, cases_digest(sorted(one.id for one in transcripts))
            if not any(one.strategies for one in outputs):
                raise UserError(f"{settings.earlier}: no reply states a strategy, so there is nothing to agree with.")
        asked = ("turns", "emotions", "grammar", "length", "temperature", "max_tokens") if settings.model else ()
        setup: dict[str, Any] = {name: getattr(settings, name) for name in (*asked, "corpus", "judge", "seed")}
        setup["replies"] = len(outputs)
        comparable = {"cases": cases}
        readers: list[strategy_readers.ReaderAnswers] = []
        if settings.corpus:
            embedder = Embedder()
            comparable["classifier"] = f"{settings.corpus}, {embedder.name}"
            for classifier in _classifiers(settings, outputs, embedder, tell, notes):
                readers.append(strategy_readers.by_classifier(classifier, outputs))
                figures += strategy_readers.quality_figures(classifier.quality)
                setup[f"classifier/{classifier.language}"] = msgspec.to_builtins(classifier.quality)
        if settings.judge:
            comparable |= {"judge": settings.judge, "judge prompt": strategy_readers.prompt_hash()}
            readers.append(_judged(settings, outputs, cache, tell, notes))
    figures += [figure for reader in readers for figure in strategy_readers.agreement_figures(reader, outputs)]
    setup["agreement"] = {reader.name: strategy_readers.stated_and_read(reader, outputs) for reader in readers}
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


def _with_model(
    spec: str | None,
    url: str | None,
    settings: ControlSettings,
    cache: Path,
    work: Callable[[Model], Awaitable[Answers]],
) -> Answers:
    """Open a model behind the run's request cache, do the work, close the model."""
    home = open_model(spec, base_url=url, concurrency=settings.concurrency)

    async def cached() -> Answers:
        model = CachedModel(home, RequestCache(cache))
        try:
            return await work(model)
        finally:
            await model.close()

    return run(cached())


def _classifiers(
    settings: ControlSettings, outputs: Sequence[Output], embedder: Embedder, tell: Tell, notes: list[str]
) -> Iterator[strategy_readers.StrategyClassifier]:
    """A classifier for each language of the replies that the corpus has; a note says what each is worth."""
    assert settings.corpus
    dialogues = people_of(settings.corpus)
    for language in LANGUAGES:
        count = sum(one.language == language for one in outputs)
        if not count:
            continue
        if not any(one.language == language for one in dialogues):
            notes.append(f"{count} replies in {language} were not classified: the corpus has none in that language.")
            continue
        tell(f"Training the strategy classifier ({language}) on {settings.corpus}.")
        classifier = strategy_readers.train_classifier(dialogues, embedder, language, seed=settings.seed)
        quality = classifier.quality
        notes.append(
            f"The classifier ({language}) is right about {quality.accuracy:.0%} of {quality.held_out} utterances "
            f"that people labelled and it never saw (always naming the commonest: {quality.commonest:.0%}); "
            "agreement cannot mean more than that."
        )
        yield classifier


def _judged(
    settings: ControlSettings, outputs: Sequence[Output], cache: Path, tell: Tell, notes: list[str]
) -> strategy_readers.ReaderAnswers:
    """The judge's readings; a note says how many it did not give."""
    watch = _counting(tell, "replies judged", len(outputs))
    read = _with_model(
        settings.judge,
        settings.judge_url,
        settings,
        cache,
        lambda model: strategy_readers.by_judge(model, outputs, settings.concurrency, watch),
    )
    if unread := sum(told is None for told in read.main):
        notes.append(f"The judge gave no reading of {unread} of {len(outputs)} replies; they are left out.")
    return read


def _output(tried: TriedPin) -> Output:
    assert tried.parsed is not None
    moment = tried.trial.moment
    reply, stated = tried.parsed.response, stated_strategy(tried.parsed)
    return Output(tried.trial.id, moment.id, moment.language, reply, moment.history, strategies=stated)


def _scored(
    transcripts: Sequence[Transcript], outputs: Sequence[Output], readers: Sequence[strategy_readers.ReaderAnswers]
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
