"""Replies to measure, with what was said before them, from any file that holds some.

Four kinds of file are understood, told apart by their first record:

    RUN or transcripts.jsonl.gz   what an evaluation left; every supporter turn is a reply
    dialogues                     `compeer corpus import`; the supporter's turns, so that people can be measured too
    items                         CER items with a candidate; the corpus's reply is the reference
    outputs                       {"dialogue": …, "reply": …, "history": [{"speaker": …, "text": …}], "reference": …}

In outputs a reply may carry its reasoning in front (`<think>…</think>`); it is parsed, its strategy kept and only the
reply measured. `dialogue` may be left out when each line is a dialogue of its own, and `language` is detected.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import PastTurn, read_items, said
from compeer.dialogue import Dialogue, read_rows, rounds, turns
from compeer.errors import UserError
from compeer.evals.result import RESULT, TRANSCRIPTS, Transcript, TranscriptTurn, load_result
from compeer.reasoning import Parsed, parse
from compeer.reasoning.ontology import Language, detect


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    case: str  # the transcript it stands in
    dialogue: str
    language: Language
    reply: str
    history: tuple[PastTurn, ...] = ()
    reference: str | None = None
    strategies: tuple[str, ...] = ()  # as stated with the reply
    reference_strategies: tuple[str, ...] = ()


class Outputs(msgspec.Struct, frozen=True):
    """A set of replies, the dialogues they stand in, and where they come from."""

    outputs: tuple[Output, ...]
    transcripts: tuple[Transcript, ...]
    kind: str  # "run", "dialogues", "items", "outputs"
    model: str | None = None
    comparable: dict[str, str] = {}  # of the run they come from


class OutputLine(msgspec.Struct, omit_defaults=True):
    reply: str
    dialogue: str | None = None
    id: str | None = None
    language: Language | None = None
    history: tuple[PastTurn, ...] = ()
    reference: str | None = None


def read_outputs(path: Path, limit: int | None = None) -> Outputs:
    """The replies of a run's folder, a file or a published folder; `limit` is how many records at most."""
    if path.is_dir() and (path / RESULT).is_file():
        result = load_result(path)
        found = read_outputs(path / TRANSCRIPTS, limit)
        return msgspec.structs.replace(found, model=result.model, comparable=result.comparable)
    first: dict[str, Any] = next(iter(read_rows(path, dict)), {})
    if "said" in first:
        transcripts = tuple(islice(read_rows(path, Transcript), limit))
        made = Outputs(tuple(one for each in transcripts for one in _of_transcript(each)), transcripts, "run")
    elif "utterances" in first:
        dialogues = list(islice(read_rows(path, Dialogue), limit))
        pairs = tuple(one for each in dialogues for one in of_dialogue(each))
        made = Outputs(pairs, tuple(_dialogue_transcript(each) for each in dialogues), "dialogues", "people")
    elif "round" in first and "reference" in first:
        made = _of_items(path, limit)
    elif "reply" in first:
        lines = list(islice(read_rows(path, OutputLine), limit))
        outputs = tuple(_of_line(line, number) for number, line in enumerate(lines, start=1))
        made = Outputs(outputs, tuple(_transcript(output) for output in outputs), "outputs")
    else:
        known = ", ".join(sorted(first)[:8]) or "nothing"
        raise UserError(
            f"{path}: its first record has the fields {known}, which is neither a transcript, a dialogue, an item "
            'nor an output. An output is {"dialogue": …, "reply": …, "history": […], "reference": …}.'
        )
    if not any(output.reply.strip() for output in made.outputs):
        raise UserError(f"{path} holds no reply of a supporter.")
    return made


def of_dialogue(dialogue: Dialogue) -> list[Output]:
    """The supporter's turns of a conversation between people, with the strategies that people noted."""
    return [
        Output(
            dialogue.id,
            dialogue.id,
            dialogue.language,
            one.supporter.text,
            tuple(map(said, one.history)),
            strategies=one.supporter.strategies,
        )
        for one in rounds(dialogue)
    ]


def stated_strategy(parsed: Parsed) -> tuple[str, ...]:
    """The strategy on the labelled line of an output, if there is one.

    >>> stated_strategy(parse("<strategy>\\nAsk first.\\nStrategy: question\\n</strategy>"))
    ('question',)
    """
    found = parsed.labels.get("strategy")
    return (str(found),) if found else ()


def _of_transcript(transcript: Transcript) -> list[Output]:
    language: Language = "zh" if transcript.language == "zh" else "en"
    before: list[PastTurn] = []
    outputs = []
    for turn in transcript.said:
        if turn.speaker == "supporter":
            stated, name = stated_strategy(parse(turn.reasoning or "")), transcript.id
            outputs.append(Output(name, name, language, turn.text, tuple(before), strategies=stated))
        before.append(PastTurn("supporter" if turn.speaker == "supporter" else "seeker", turn.text))
    return outputs


def _of_items(path: Path, limit: int | None) -> Outputs:
    outputs, transcripts, generators = [], [], set()
    for item in islice(read_items(path), limit):
        if item.candidate is None:
            raise UserError(f"{path}: item {item.id} has no candidate. `compeer cer reason` writes them.")
        thought = item.candidate.reasoning
        output = Output(
            item.id,
            item.dialogue,
            item.language,
            item.candidate.response,
            item.history,
            item.reference,
            (thought.strategy.strategy,) if thought else stated_strategy(parse(item.candidate.raw or "")),
            item.reference_strategies,
        )
        outputs.append(output)
        transcripts.append(_transcript(output))
        generators.add(item.candidate.generator)
    model = generators.pop() if len(generators) == 1 else None
    return Outputs(tuple(outputs), tuple(transcripts), "items", model or None)


def _of_line(line: OutputLine, number: int) -> Output:
    parsed = parse(line.reply)
    return Output(
        line.id or f"line {number}",
        line.dialogue or line.id or f"line {number}",
        line.language or detect(parsed.response),
        parsed.response,
        line.history,
        line.reference,
        stated_strategy(parsed),
    )


def _transcript(output: Output) -> Transcript:
    about = {"reference": output.reference} if output.reference else {}
    before = (TranscriptTurn(turn.speaker, turn.text) for turn in output.history)
    spoken = (*before, TranscriptTurn("supporter", output.reply))
    return Transcript(output.case, output.language, spoken, group=output.dialogue, about=about)


def _dialogue_transcript(dialogue: Dialogue) -> Transcript:
    spoken = tuple(TranscriptTurn(turn.speaker, turn.text) for turn in turns(dialogue))
    return Transcript(dialogue.id, dialogue.language, spoken, about={"source": dialogue.source})
