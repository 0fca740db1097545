"""Training the judge (equation 4): rows from CER items, then `compeer reward train CONFIG`.

The paper trains UnifiReward from Qwen2.5-VL-7B with a learning rate of 1e-5 and a batch of 64, vision tower frozen;
these are the defaults. It says nothing about epochs, schedule or length: those are ours (`compeer.training.sft.Plan`).
PRM and ORM are trained in the same way on the same items, for comparison. A row is a conversation with its answers:

    unified    one row per item: up to four questions in one conversation
    prm        one row per step, each alone
    orm        the pair of replies alone

An answer is the verdict and, for a share of the items, a reason: scoring reads verdicts, people read reasons, and the
judge must know both forms. Reasons exist only for silver items, whose trace says how each wrong step and each reply
was made. The sentences (`training_reasons.json`) say no more than that, in the item's language, and vary, so that a
judge learns what to look at and not one phrase.

A question without a label is left out like a missing step; an item without any label gives no row. The order of the
two replies is drawn from the seed and the item's id, or both orders are shown. A row that is too long loses the oldest
turns of its history, never its end, and is counted.

The run's folder is described in `compeer.training.run`. RUN/model also holds `judge.json`, which tells a judge opened
on that folder what it is. Run the same command again to continue. With several GPUs:

    accelerate launch -m compeer.cli reward train configs/reward/paper.yaml
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.cer.item import QUESTIONS, Item, Question, Split, read_items, without_images
from compeer.dialogue import trim
from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import write_value
from compeer.reward.case import Case, case_of, drop_oldest_turns
from compeer.reward.conversation import messages, threads
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind, choice_of
from compeer.training.encode import Example, encode
from compeer.training.model import start_identity
from compeer.training.run import Record, Run, data_file, is_main, open_run, revision
from compeer.training.sft import Plan, sft
from compeer.typed import from_json

Share = Annotated[float, Meta(ge=0, le=1)]
_JOINT: dict[Language, str] = {"en": " ", "zh": ""}
#: labels that can be the wrong one of a step, and the label that a sentence names otherwise
_LABELS = ("stage", "emotion", "intensity", "strategy")
_MAIN_LABEL = {"history": "stage", "emotion": "emotion", "strategy": "strategy"}
_UNNAMED = ("others", "其他")
#: settings that may change when a run is resumed: places, logging, and what fits a device
FREE = (
    "out", "train", "valid", "base", "adapter", "log_every", "keep", "micro_batch", "device", "gradient_checkpointing",
)  # fmt: skip


class RowSettings(Plan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the rows made from an item, and of their training."""

    kind: Kind = "unified"
    reasons: Share = 0.5  # share of the items whose answers give reasons
    orders: Literal["one", "both"] = "one"
    repeat_false: Annotated[float, Meta(ge=1)] = 1.0  # how often rows with a False step are shown


class JudgeTraining(RowSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a training run: these settings, all of `RowSettings` and all of `Plan`."""

    out: str
    base: str
    train: Annotated[tuple[str, ...], Meta(min_length=1)]  # CER items: files or published folders
    valid: tuple[str, ...] = ()
    pictures: Literal["keep", "drop"] = "keep"
    limit: Annotated[int, Meta(ge=1)] | None = None  # items, for a trial


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation to learn, before it is made to fit a model."""

    item: Item
    case: Case
    kind: Kind
    candidate_first: bool
    question: Question | None = None  # the only question of a PRM row
    reasoned: bool = False
    copy: int = 0
    seed: int = 0


class TrainingSet(msgspec.Struct):
    """Encoded rows, counts, and the languages, sources and licences of the items used."""

    examples: list[Example] = []
    counts: dict[str, int] = {}
    languages: set[str] = set()
    label_sources: set[str] = set()
    licences: set[str] = set()
    dialogues: set[str] = set()


class Trained(msgspec.Struct, frozen=True):
    run: str
    model: str
    results: dict[str, Any]
    already: bool = False  # it was finished before


def rows(item: Item, settings: RowSettings) -> Iterator[TrainingRow]:
    """The rows of one item; none when it has no label that this kind of judge learns."""
    case = only_labelled(case_of(item), item)
    for copy in range(_copies(item, settings)):
        drawn = _draw(settings, item, "order", copy) < 0.5
        reasoned = _draw(settings, item, "reasons", copy) < settings.reasons
        for first in (True, False) if settings.orders == "both" else (drawn,):
            if settings.kind == "prm" and first is not drawn:
                continue  # a step alone has no order
            for thread in threads(case, settings.kind, first):
                question = thread.turns[0].question if settings.kind == "prm" else None
                if copy and question and getattr(item.labels, question) is not False:
                    continue
                yield TrainingRow(
                    item=item,
                    case=case,
                    kind=settings.kind,
                    candidate_first=first,
                    question=question,
                    reasoned=reasoned,
                    copy=copy,
                    seed=settings.seed,
                )


def only_labelled(case: Case, item: Item) -> Case:
    """The case without what has no label: an unlabelled step counts as missing, and so does an unlabelled pair."""
    first, second, third = (
        step if getattr(item.labels, question) is not None else None
        for question, step in zip(QUESTIONS, case.steps, strict=False)
    )
    reference = case.reference if item.labels.preference is not None else ""
    return msgspec.structs.replace(case, steps=(first, second, third), reference=reference)


def chat(row: TrainingRow, left_out: int = 0) -> list[dict[str, Any]]:
    """The row's messages with the answers to learn, without the oldest `left_out` turns of the history."""
    case = drop_oldest_turns(row.case, left_out) if left_out else row.case
    thread = next(
        thread
        for thread in threads(case, row.kind, row.candidate_first)
        if row.question is None or thread.turns[0].question == row.question
    )
    return messages(thread, [_answer(row, turn.question) for turn in thread.turns])


def fit(row: TrainingRow, words: ChatTokenizer, max_length: int) -> tuple[Example, int] | None:
    """The row encoded, and how many turns it lost to fit; None when its last turn alone does not fit."""
    tried: dict[int, Example] = {}

    def example(left_out: int) -> Example:
        if left_out not in tried:
            tried[left_out] = encode(chat(row, left_out), words)
        return tried[left_out]

    turns = row.case.history
    kept = trim(turns, lambda end: len(example(len(turns) - len(end))) <= max_length, starts=lambda turn: True)
    left_out = len(turns) - len(kept)
    found = example(left_out)
    return (found, left_out) if len(found) <= max_length else None


def make(items: Iterable[Item], settings: RowSettings, words: ChatTokenizer, max_length: int) -> TrainingSet:
    """The encoded rows of all items, in the order of the items."""
    found, counts = TrainingSet(), Counter[str]()
    for item in items:
        counts["items"] += 1
        made = list(rows(item, settings)) if item.candidate is not None else []
        counts["items without a row"] += not made
        for row in made:
            fitted = fit(row, words, max_length)
            if fitted is None:
                counts["rows too long"] += 1
                continue
            example, lost = fitted
            found.examples.append(example)
            counts["rows"] += 1
            counts["rows shortened"] += lost > 0
            counts["rows with pictures"] += bool(example.images)
            counts["tokens"] += len(example)
            counts["tokens learnt"] += sum(end - start for start, end in example.spans)
        if made:
            found.languages.add(item.language)
            found.label_sources.add(item.label_source or "unknown")
            found.licences.add(item.licence)
            found.dialogues.add(item.dialogue)
    found.counts = {name: count for name, count in counts.items() if count}
    return found


def _answer(row: TrainingRow, question: Question) -> str:
    item, language = row.item, row.item.language
    label = getattr(item.labels, question)
    if question == "preference":
        verdict = PAIR_WORDS[language][choice_of(label, row.candidate_first)]
    else:
        verdict = STEP_WORDS[language][label]
    rng = Random(f"{row.seed} {item.id} {question} {row.copy} {row.candidate_first}")
    why = reason(item, question, row.candidate_first, rng) if row.reasoned else None
    return verdict if why is None else verdict + _JOINT[language] + why


def _copies(item: Item, settings: RowSettings) -> int:
    """1, or `repeat_false` where a step is False; the fraction of it by chance."""
    steps = [getattr(item.labels, question) for question in QUESTIONS[:3]]
    if settings.kind == "orm" or False not in steps:
        return 1
    whole = int(settings.repeat_false)
    return whole + (_draw(settings, item, "copies", 0) < settings.repeat_false - whole)


def _draw(settings: RowSettings, item: Item, what: str, copy: int) -> float:
    return Random(f"{settings.seed} {item.id} {what} {copy}").random()


class _Reasons(msgspec.Struct, frozen=True):
    """Sentences in one language, by what is wrong.

    {given}: what the candidate concluded; {right}: what people noted; {good}, {bad}: the places of the replies.
    """

    steps: dict[str, dict[str, tuple[str, ...]]]
    pair: dict[str, tuple[str, ...]]
    places: tuple[str, str]


@cache
def _reasons() -> dict[Language, _Reasons]:
    return from_json(Path(__file__).with_name("training_reasons.json").read_bytes(), dict[Language, _Reasons])


def reason(item: Item, question: Question, candidate_first: bool, rng: Random) -> str | None:
    """A sentence that says why the item's label is what it is, or None when nothing is known."""
    trace = item.trace.get("silver")
    if not isinstance(trace, dict) or item.label_source != "silver":
        return None
    if question == "preference":
        return _pair_reason(item, trace, candidate_first, rng)
    return _step_reason(item, question, trace, rng)


def _step_reason(item: Item, step: Question, trace: Mapping[str, Any], rng: Random) -> str | None:
    candidate = item.candidate.reasoning if item.candidate else None
    label = getattr(item.labels, step)
    wrong = trace.get(step, {}).get("wrong")
    if candidate is None or label is None or label is not (wrong is None):
        return None
    kind = str(wrong) if wrong else "right"
    named = kind if kind in _LABELS else _MAIN_LABEL[step]
    values = {"given": write_value(named, candidate.label(named), item.language)}
    if item.reference_reasoning is not None:
        values["right"] = write_value(named, item.reference_reasoning.label(named), item.language)
    bank = _reasons()[item.language].steps[step].get(kind, ())
    sentences = [text for text in bank if _usable_sentence(text, values)]
    return _capitalised(rng.choice(sentences).format(**values)) if sentences else None


def _pair_reason(item: Item, trace: Mapping[str, Any], candidate_first: bool, rng: Random) -> str | None:
    preference, made = item.labels.preference, trace.get("reply", {}).get("kind")
    kind = made if preference == "reference" else preference
    words = _reasons()[item.language]
    first, second = words.places
    better_first = candidate_first == (preference == "candidate")
    places = {"good": first if better_first else second, "bad": second if better_first else first}
    sentences = words.pair.get(str(kind), ())
    return _capitalised(rng.choice(sentences).format(**places)) if sentences else None


def _usable_sentence(text: str, values: Mapping[str, str]) -> bool:
    """Whether every value that the sentence names is known, and none is the unnamed strategy."""
    named = [name for name in ("given", "right") if f"{{{name}}}" in text]
    if "right" in named and values.get("right") == values["given"]:
        return False
    return all(name in values and values[name] not in _UNNAMED for name in named)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def train(config: JudgeTraining, given: str | None = None, *, force: bool = False, fresh: bool = False) -> Trained:
    """Train, or continue training; the result is in RUN/model. `given` is the text of the configuration file."""
    if config.device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"  # before the processes find each other
    run = open_run(config.out, _record(config), given=given, free=FREE, force=force, fresh=fresh)
    try:
        if run.finished:
            return Trained(str(run.folder), str(run.model), run.record.results, already=True)
        return _train(config, run)
    finally:
        run.close()


def _train(config: JudgeTraining, run: Run) -> Trained:
    from compeer.models.checkpoint import open_tokenizer

    words = ChatTokenizer(*open_tokenizer(config.base))
    files: tuple[tuple[Split, tuple[str, ...]], ...] = (("train", config.train), ("valid", config.valid))
    made, checked = (make(_items(paths, config, split), config, words, config.max_length) for split, paths in files)
    _print_counts(made, checked)
    judge = {
        "kind": config.kind,
        "base": str(Path(config.base).resolve()) if Path(config.base).is_dir() else config.base,
        "languages": sorted(made.languages),
        "labels": sorted(made.label_sources),
        "revision": str(revision()),
        "max_length": config.max_length,
    }
    results = sft(
        made.examples,
        checked.examples,
        model=config.model_of(config.base, "judge"),
        plan=config,
        words=words,
        run=run,
        name=f"judge ({config.kind})",
        beside={"judge.json": judge},
        adapter=config.start("judge"),
    )
    results |= {"train": made.counts, "valid": checked.counts}
    run.record.results = {name: value for name, value in results.items() if value not in (None, {})}
    _write_card(run, config, made)
    run.finish(run.record.results)
    return Trained(str(run.folder), str(run.model), run.record.results)


def _record(config: JudgeTraining) -> Record:
    """What identifies the run. Only the first process hashes the files."""
    if not is_main():
        return Record(kind="judge", config={}, data={}, base={})
    roles = {"train": config.train, "valid": config.valid}
    return Record(
        kind="judge",
        config=msgspec.to_builtins(config),
        data={role: [data_file(path) for path in paths] for role, paths in roles.items() if paths},
        base=start_identity(config.base, config.start("judge")),
        seed=config.seed,
    )


def _items(files: Sequence[str], config: JudgeTraining, split: Split = "train") -> Iterator[Item]:
    """Items to learn from. Items of a test set are refused, because they could no longer measure the judge."""
    count = 0
    for path in files:
        for item in read_items(path, split=split):
            if item.split == "test":
                raise UserError(f"{path}: item {item.id} belongs to a test set and must not be trained on.")
            if config.limit is not None and count >= config.limit:
                return
            count += 1
            yield item if config.pictures == "keep" else without_images(item)


def _print_counts(made: TrainingSet, checked: TrainingSet) -> None:
    if not is_main():
        return
    for role, part in (("train", made), ("valid", checked)):
        if part.counts:
            counts = ", ".join(f"{count:,} {name}" for name, count in part.counts.items())
            print(f"{role}: {counts}", file=sys.stderr)
    if shared := made.dialogues & checked.dialogues:
        print(
            f"{len(shared)} dialogues, such as {min(shared)}, are in both training and validation: "
            "the validation loss will look better than it is.",
            file=sys.stderr,
        )


def _write_card(run: Run, config: JudgeTraining, made: TrainingSet) -> None:
    from compeer.training.card import CardText, write_card

    texts: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("judge_card.json").read_bytes())
    silver = "silver" in made.label_sources
    values = {
        "kind": config.kind,
        "judged": texts["judged"][config.kind],
        "made": "An adapter (LoRA) for" if config.lora or config.adapter else "Trained from",
        "base": config.base,
        "labels": ", ".join(sorted(made.label_sources)) or "none",
        "model": run.model,
        "max_length": config.max_length,
    }
    card = CardText(
        title=texts["title"].format(**values),
        what=texts["what"].format(**values),
        use=texts["use"].format(**values),
        base=config.base,
        languages=sorted(made.languages),
        licences=sorted(made.licences),
        limits=[text.format(**values) for name, text in texts["limits"].items() if name != "silver" or silver],
        tags=("reward-model", "emotional-support"),
    )
    write_card(run, card)
