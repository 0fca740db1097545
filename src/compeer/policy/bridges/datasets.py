"""CER items as datasets that other trainers read without our code: `compeer cer export --format …`.

    trl-sft         prompt and completion in messages: the reference with its reasoning, in the contract
    trl-preference  prompt, chosen, rejected in messages, for DPO and for reward models
    trl-grpo        prompt in messages; `reference` and `prompt_record` beside it, for reward functions
    trl-prm         prompt as text, completions (the three steps) and labels: TRL's stepwise supervision, for which 1.16
                    has no trainer any more
    openai          messages, the form of OpenAI's fine-tuning
    sharegpt        conversations of human and gpt, with the system prompt beside them

What is left out is what our own training leaves out: crisis items, replies that did not help, items in a literary
voice; a judge's data (trl-prm) keeps them. A preference compares replies, so a pair holds the replies alone, without
reasoning. "Both" and "neither" are no pairs. Items with pictures are left out and counted: these forms have no place
for a picture, and who cannot see it should not learn the answer to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compeer.cer.item import QUESTIONS, Item
from compeer.dialogue import messages
from compeer.policy.composite import PromptRecord
from compeer.policy.prompts import demonstration, encoded, why_not_taught
from compeer.reasoning import STEPS, render_step, system_prompt
from compeer.reasoning.prompt import Length

Row = dict[str, Any]


def export(items: Iterable[Item], form: str, counts: Counter[str], length: Length = "full") -> Iterator[Row]:
    """Rows of one of the `FORMATS`; `counts` learns what was written and what was left out, and why."""
    make = FORMATS[form]
    for item in items:
        why = why_not_taught(item) or ("literary" if item.voice == "literary" else None)
        if why and form != "trl-prm":
            counts[why] += 1
            continue
        if any(turn.images for turn in item.history):
            counts["picture not seen"] += 1
            continue
        row = make(item, length)
        counts["rows" if row else "nothing to learn"] += 1
        if row:
            yield row


def _prompt(item: Item, length: Length) -> list[Row]:
    return [{"role": "system", "content": system_prompt(item.language, length=length)}, *messages(item.history)]


def _said(text: str) -> list[Row]:
    return [{"role": "assistant", "content": text}]


def _sft(item: Item, length: Length) -> Row | None:
    output = demonstration(item)
    return {"prompt": _prompt(item, length), "completion": _said(output)} if output else None


def _openai(item: Item, length: Length) -> Row | None:
    row = _sft(item, length)
    return {"messages": row["prompt"] + row["completion"]} if row else None


def _sharegpt(item: Item, length: Length) -> Row | None:
    row = _openai(item, length)
    if row is None:
        return None
    system, *said = row["messages"]
    names = {"user": "human", "assistant": "gpt"}
    turns = [{"from": names[message["role"]], "value": message["content"]} for message in said]
    return {"system": system["content"], "conversations": turns}


def _preference(item: Item, length: Length) -> Row | None:
    if item.candidate is None or item.labels.preference not in ("candidate", "reference"):
        return None
    replies = [item.candidate.response, item.reference]
    chosen, rejected = replies if item.labels.preference == "candidate" else reversed(replies)
    return {"prompt": messages(item.history), "chosen": _said(chosen), "rejected": _said(rejected)}


def _grpo(item: Item, length: Length) -> Row:
    record = PromptRecord(item.id, item.language, item.history, item.reference)
    return {"prompt": _prompt(item, length), "reference": item.reference, "prompt_record": encoded(record)}


def _prm(item: Item, length: Length) -> Row | None:
    labels = [getattr(item.labels, question) for question in QUESTIONS[:3]]
    if item.candidate is None or item.candidate.reasoning is None or None in labels:
        return None
    steps = [render_step(item.candidate.reasoning, step) for step in STEPS]
    said = "\n".join(f"{message['role']}: {message['content']}" for message in messages(item.history))
    return {"prompt": said + "\n", "completions": steps, "labels": labels}


FORMATS: dict[str, Callable[[Item, Length], Row | None]] = {
    "trl-sft": _sft,
    "trl-preference": _preference,
    "trl-grpo": _grpo,
    "trl-prm": _prm,
    "openai": _openai,
    "sharegpt": _sharegpt,
}
