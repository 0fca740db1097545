"""ESCoT (ESD-CoT): support conversations with a written chain of thought before the last reply.

The nearest public relative of our three steps: stimulus and appraisal serve the first, the emotion sentence the
second, the reason for the strategy the third. So the last supporter utterance carries `reasoning` where all are
there, and the chain as given stays in `extra["cot"]`.

    val.json                full chains, as a list of {id, original_data, cot_data}
    train_em_sr_re.json     instruction rows: the dialogue is a text, the output holds emotion, reason, response

Traps: the training rows have no stimulus and no appraisal, so they carry no `reasoning`, only `extra["cot"]`;
their strategy stands only inside the sentence that argues for it, mostly in quotes, and 7 of 1,195 name none.
In a few rows the last word before the reply is the supporter's too. Neither file has emotion labels, only sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from compeer.corpora.reading import Rejected, conversations
from compeer.corpora.records import Labels, dialogue, side, utterance
from compeer.dialogue import Dialogue, Speaker, Steps
from compeer.reasoning.ontology import STRATEGIES

LICENCE = "none stated"
FILES = {"train": ("train_em_sr_re.json", "train.json"), "val": ("val.json", "valid.json"), "test": ("test.json",)}

_OUTPUT = re.compile(r"\s*Emotion:\s*(.+?)\s*^Strategy Reason:\s*(.+?)\s*^Response:\s*(.+)", re.DOTALL | re.MULTILINE)
_SIDES: dict[str, Speaker] = {"seeker": "seeker", "supporter": "supporter"}
_SPEAKER = re.compile(r"(seeker|supporter):\s*(.*)", re.DOTALL)


class EscotUtterance(msgspec.Struct):
    speaker: str
    content: str


class Original(msgspec.Struct):
    dialog: list[EscotUtterance]
    response: str
    strategy: str | None = None


class Chain(msgspec.Struct, omit_defaults=True):
    emotion: str | None = None
    emotion_stimuli: str | None = None
    individual_appraisal: str | None = None
    recognized_strategy: str | None = None
    strategy_reason: str | None = None


class Record(msgspec.Struct):
    """A row of either file; `original_data` or `input` tells which."""

    id: int | str | None = None
    dialog_id: int | str | None = None
    original_data: Original | None = None
    cot_data: Chain | None = None
    instruction: str | None = None
    input: str | None = None
    output: str | None = None


def load(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file or folder; ids carry the corpus's own number."""
    return conversations("escot", path, Record, FILES, convert, split, own_id=_own_id)


def _own_id(row: Record, index: int) -> str:
    number = row.id if row.id is not None else row.dialog_id
    return f"{number:05d}" if isinstance(number, int) else number or f"row-{index:05d}"


def convert(row: Record, name: str) -> Dialogue:
    if row.original_data is not None:
        original, chain = row.original_data, row.cot_data or Chain()
    elif row.input is not None and row.output is not None:
        original, chain = _parse(row.input, row.output)
    else:
        raise ValueError("neither original_data nor input and output")
    labels = Labels()
    said = [
        utterance(at, side(_SIDES, one.speaker, f"utterance {at}"), one.content)
        for at, one in enumerate(original.dialog)
    ]
    strategy = labels.strategy(original.strategy or chain.recognized_strategy, len(said))
    said.append(utterance(len(said), "supporter", original.response, strategy=strategy, reasoning=_steps(chain)))
    extra = {"cot": msgspec.to_builtins(chain), "instruction": row.instruction}
    return dialogue(name, "escot", LICENCE, "en", said, labels, extra)


def _steps(chain: Chain) -> Steps | None:
    parts = (chain.emotion_stimuli, chain.individual_appraisal, chain.emotion, chain.strategy_reason)
    stimulus, appraisal, emotion, reason = (part.strip() if part else "" for part in parts)
    if not (stimulus and appraisal and emotion and reason):
        return None
    return Steps(history=f"{stimulus} {appraisal}", emotion=emotion, strategy=reason)


def _parse(text: str, output: str) -> tuple[Original, Chain]:
    """An instruction row: the dialogue out of `input`, chain and reply out of `output`."""
    found = _OUTPUT.fullmatch(output)
    if found is None:
        raise ValueError("output has not the parts Emotion, Strategy Reason, Response in this order")
    said: list[EscotUtterance] = []
    for line in text.splitlines():
        if start := _SPEAKER.match(line):
            said.append(EscotUtterance(speaker=start.group(1), content=start.group(2)))
        elif said:
            said[-1].content += "\n" + line  # an utterance of several lines
        elif line.strip():
            raise ValueError(f"input does not begin with a speaker but with {line[:40]!r}")
    emotion, reason, response = (part.strip() for part in found.groups())
    strategy = named_strategy(reason)
    chain = Chain(emotion=emotion, strategy_reason=reason)
    return Original(dialog=said, response=response, strategy=strategy), chain


def named_strategy(reason: str) -> str | None:
    """The strategy a reason argues for: quoted, or paraphrased as asking a question.

    >>> named_strategy('the supporter can use "Imagery." to picture "a calm place"')
    'Imagery'
    >>> named_strategy("the supporter can use the strategy of asking a question")
    'Question'
    """
    for quoted in re.findall(r'"([^"]+)"', reason):
        name = quoted.strip(" .,")
        for spelled in (name, f"{name}s"):  # some write the singular: "Homework Assignment"
            if STRATEGIES.find(spelled):
                return spelled
    return "Question" if "asking a question" in reason else None
