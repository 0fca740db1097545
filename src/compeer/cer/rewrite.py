"""Rewriting in another voice (Personality-based Conversation Rewriting; -P and -R of Table 1).

An item (its history and both replies) is rewritten by a language model so that two other people could have said it:
with a drawn persona ("~P"), or freely ("~R", the ablation that lets the model's own voice through). The prompt is the
same but for the persona. The answer is an object with one key for each utterance (`seeker_1`, `supporter_2`, …), so the
JSON schema itself holds the model to the number, the order and the speakers. A second question asks whether meaning and
strategies are kept and whether the text sounds like a machine; a rewriting that fails it is rejected with the reason.

Labels are carried over, so what they judge must not change: the prompt forbids improving a poor reply, and
the check compares each reply with what it was. Reasoning is not rewritten: its labels judge its content.
Only a step that quotes the conversation is handed over, to have its quotations follow the new wording.

`variants` makes the training sets of the ablation: -D, -R and -P of Table 1, equal in size, from the same items. Each
is all the original items and, once more, those that every variant has: as they are (-D), rewritten freely (-R),
rewritten with a persona (-P). An item whose rewriting was rejected in -R or in -P gives no second copy to any of the
three, so they differ in nothing but the wording of the second copies. Labels are the original's in all of them; a copy
with other labels is refused.

Departures from the paper: its prompts are not public, these are ours; it discards "semantic inconsistencies or LLM
artifacts", we check the strategy as well, whose drift it blames for -R's failure. It says only that all variants use an
equal number of samples; here originals without a second copy stay, so that each set contains the plain UnifiReward set
and compares with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Candidate, Item
from compeer.cer.personas import Persona, Traits
from compeer.cer.prompts import as_data, prompts
from compeer.dialogue import write_json, write_rows
from compeer.errors import UserError
from compeer.models.ask import SchemaFailure, ask_json
from compeer.models.request import instructed
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.reasoning import STEPS, Reasoning, render
from compeer.reasoning.ontology import STRATEGIES, detect, fold, words
from compeer.reasoning.schema import has_words

REWRITER, JUDGE = "rewriter", "judge"

PROMPTS = prompts("rewrite")
VOICES = prompts("rewrite_voices")  # all that -P says more than -R
CHECKS = prompts("rewrite_check")


class ItemTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item to rewrite, with the persona drawn for its dialogue; without one the rewriting is free (-R)."""

    id: str
    item: Item
    persona: Persona | None = None


class RewriteVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the check says; the sentence comes first, so that the judge looks before it decides."""

    differences: str
    meaning_kept: bool
    strategies_kept: bool
    machine_style: bool


async def rewrite_item(task: ItemTask, tools: Tools) -> Item | Reject:
    """The item in other words: history and both replies new, labels and pictures as they were."""
    item, candidate, persona = task.item, task.item.candidate, task.persona
    texts = {f"{turn.speaker}_{n}": turn.text for n, turn in enumerate(item.history, 1)}
    texts["reply_1"] = item.reference
    if candidate:
        texts["reply_2"] = candidate.response
    reasonings = {"reference": item.reference_reasoning, "candidate": candidate.reasoning if candidate else None}
    thoughts = {(who, step): one.text(step) for who, one in reasonings.items() if one for step in STEPS}
    quoting = [place for place, thought in thoughts.items() if quotes(thought, texts.values())]
    notes = {f"note_{n}": thoughts[place] for n, place in enumerate(quoting, 1)}
    new = await _in_other_words(task, texts, notes, tools)
    if isinstance(new, Reject):
        return new
    followed = {place: new[note] for place, note in zip(quoting, notes, strict=True)}
    try:
        for who, one in reasonings.items():
            reasonings[who] = _requoted(one, who, followed)
        if candidate:
            candidate = _reworded(candidate, reasonings["candidate"], new["reply_2"])
    except ValueError as problem:  # a note or a reply came back with tags or labelled lines in it
        return Reject(task.id, "rewrite-shape", str(problem))
    return msgspec.structs.replace(
        item,
        id=task.id,
        history=tuple(
            msgspec.structs.replace(turn, text=new[f"{turn.speaker}_{n}"]) for n, turn in enumerate(item.history, 1)
        ),
        reference=new["reply_1"],
        reference_reasoning=reasonings["reference"],
        candidate=candidate,
        votes=(),  # they were cast on the original; what they came to is in the labels
        persona=persona.id if persona else None,
        variant="persona" if persona else "rewrite",
        trace={**item.trace, **_provenance(item.dialogue, persona, tools), "origin_item": item.id},
    )


async def _in_other_words(
    task: ItemTask, texts: dict[str, str], notes: dict[str, str], tools: Tools
) -> dict[str, str] | Reject:
    """Rewritten and checked texts and notes, or a rejection. Takes two requests."""
    item, persona, language = task.item, task.persona, task.item.language
    sent = texts | notes
    # the candidate's strategy is not told: its reasoning claims one, and a reply that does another must go on doing so
    done = [STRATEGIES.get(one).name(language) for one in item.reference_strategies]
    data = {"texts": sent, "strategies": {"reply_1": done} if done else {}}
    voices = {"voices": _voices(persona)} if persona else {}
    request = instructed(
        PROMPTS[language].format(voices=VOICES[language] if persona else ""),
        as_data(voices | data),
        max_tokens=512 + len(as_data(sent).encode()) // 2,  # a token for two bytes: twice what English needs
        temperature=0.8,
        seed=tools.rng("rewrite", task.id).getrandbits(31),
    )
    wordless = frozenset(key for key, text in sent.items() if not has_words(text))  # "…", "?", an emoji
    try:
        answer, _ = await ask_json(tools.models[REWRITER], request, _shape(tuple(sent), wordless))
    except SchemaFailure as failure:
        return Reject(task.id, "rewrite-shape", str(failure))
    new = {key: text if key in wordless else str(getattr(answer, key)).strip() for key, text in sent.items()}
    if detect(" ".join(new[key] for key in texts)) != language:
        return Reject(task.id, "rewrite-shape", "the rewriting is in another language")
    if all(fold(new[key]) == fold(text) for key, text in texts.items()):
        return Reject(task.id, "not-rewritten", "every text came back as it was")
    asked = as_data({"original": data, "rewriting": new})
    check = instructed(CHECKS[language], asked, max_tokens=400, temperature=0.0, seed=tools.seed)
    verdict, _ = await ask_json(tools.models[JUDGE], check, RewriteVerdict)
    failed = {
        "meaning-changed": not verdict.meaning_kept,
        "strategy-changed": not verdict.strategies_kept,
        "machine-style": verdict.machine_style,
    }
    reason = next((reason for reason, applies in failed.items() if applies), None)
    return Reject(task.id, reason, verdict.differences) if reason else new


def quotes(note: str, said: Iterable[str]) -> bool:
    """Whether a note repeats the conversation: a passage in quotation marks, or six words (characters) in a row.

    >>> said = ["I am so tired of it"]
    >>> quotes("They say “so tired” again.", said), quotes("They are tired.", said)
    (True, False)
    """
    folded = [fold(text) for text in said]
    spans = [fold(found.group(1) or found.group(2)) for found in _QUOTED.finditer(note)]
    if any(span in text for span in spans for text in folded):
        return True
    runs = {run for text in folded for run in _runs(words(text))}
    return not runs.isdisjoint(_runs(words(fold(note))))


_QUOTED = re.compile(r"[\"“”‘「『]([^\"“”‘’「」『』]{2,}?)[\"“”’」』]|(?<!\w)'([^']{2,}?)'(?!\w)")


def _runs(spoken: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(spoken[at : at + 6]) for at in range(len(spoken) - 5)}


@lru_cache(maxsize=1024)
def _shape(keys: tuple[str, ...], wordless: frozenset[str]) -> type[msgspec.Struct]:
    """The answer's type: one text for each key, none empty that was not."""

    def check(self: msgspec.Struct) -> None:
        if empty := [key for key in keys if key not in wordless and not has_words(getattr(self, key))]:
            raise ValueError(f"these are empty: {', '.join(empty)}")

    fields = [(key, str) for key in keys]
    return msgspec.defstruct("Rewriting", fields, namespace={"__post_init__": check}, forbid_unknown_fields=True)


def _requoted(reasoning: Reasoning | None, who: str, notes: Mapping[tuple[str, str], str]) -> Reasoning | None:
    steps = {step: notes[who, step] for step in STEPS if (who, step) in notes}
    if reasoning is None or not steps:
        return reasoning
    changed = {step: msgspec.structs.replace(getattr(reasoning, step), text=text) for step, text in steps.items()}
    reasoning = msgspec.structs.replace(reasoning, **changed)
    render(reasoning, "A reply.")  # refuses what would not parse back
    return reasoning


def _reworded(candidate: Candidate, reasoning: Reasoning | None, response: str) -> Candidate:
    raw = candidate.raw.rstrip() if candidate.raw else None
    if raw and reasoning:
        raw = render(reasoning, response)
    elif raw:  # it was incomplete and must stay so: only its reply changes
        raw = raw.removesuffix(candidate.response) + response if raw.endswith(candidate.response) else None
    return msgspec.structs.replace(candidate, response=response, reasoning=reasoning, raw=raw)


def _provenance(origin: str, persona: Persona | None, tools: Tools) -> dict[str, Any]:
    found: dict[str, Any] = {"origin": origin, "variant": "persona" if persona else "rewrite"}
    if persona:
        found |= {"persona": persona.id, "voices": msgspec.to_builtins(_voices(persona))}
    return {**found, "rewriter": tools.models[REWRITER].name, "checker": tools.models[JUDGE].name}


def _voices(persona: Persona) -> dict[str, Traits]:
    return {"seeker": persona.seeker, "supporter": persona.supporter}


STAGE = Stage(
    name="rewrite",
    function=rewrite_item,
    reads=ItemTask,
    writes=Item,
    roles=(REWRITER, JUDGE),
    prompts=(*PROMPTS.values(), *VOICES.values(), *CHECKS.values()),
    calls_per_row=2.0,
    tokens_per_call=(1_600, 500),
)

NAMES = ("D", "R", "P")
_SUFFIX = re.compile(r"(~[DRP])+$")


class VariantSizes(msgspec.Struct, frozen=True, kw_only=True):
    originals: int
    copies: int  # in each set
    each: int  # originals and copies: the size of every one of the three sets
    without_rewrite: int  # originals whose free rewriting was rejected
    without_persona: int  # originals whose rewriting with a persona was rejected
    strays: int  # rewritings of items that are not among the originals


class Variants(msgspec.Struct, frozen=True):
    """The three training sets, by name, and their sizes."""

    sets: dict[str, list[Item]]
    sizes: VariantSizes


def origin(item: Item) -> str:
    """The dialogue of the corpus that an item comes from, through any rewriting.

    The trace says it; where a dialogue was rewritten first and its items made later, its id does.
    """
    return _SUFFIX.sub("", str(item.trace.get("origin") or item.dialogue))


def is_copy(item: Item) -> bool:
    """Whether the item, or the dialogue it was made from, is a rewriting or a duplicate of another."""
    return item.variant != "original" or origin(item) != item.dialogue


def origin_item(item: Item) -> str:
    """The id of the item that this one is a copy of; its own, for an original."""
    return str(item.trace.get("origin_item") or item.id)


def write_item_tasks(path: Path, items: Iterable[Item], draws: Mapping[str, Persona] | None) -> int:
    """Write the originals to rewrite, each with the persona drawn for its dialogue; without `draws`, freely.

    Returns how many were left out because no persona was drawn: their dialogue was not described, or it is the only one
    of its language.
    """
    left_out = 0

    def tasks() -> Iterator[ItemTask]:
        nonlocal left_out
        for item in items:
            if is_copy(item):
                continue
            if draws is None:
                yield ItemTask(id=f"{item.id}~R", item=item)
            elif item.dialogue in draws:
                yield ItemTask(id=f"{item.id}~P", item=item, persona=draws[item.dialogue])
            else:
                left_out += 1

    write_rows(path, tasks())
    return left_out


def duplicate(item: Item) -> Item:
    """The second copy of -D: the same, under its own id."""
    trace = {**item.trace, "origin": origin(item), "origin_item": item.id, "variant": "duplicate"}
    return msgspec.structs.replace(item, id=f"{item.id}~D", variant="duplicate", trace=trace)


def variants(originals: Iterable[Item], rewritten: Iterable[Item], with_persona: Iterable[Item]) -> Variants:
    """The three sets. Held-out originals (split valid or test) and their copies are left out."""
    base = [item for item in originals if item.split in (None, "train") and not is_copy(item)]
    by_id = {item.id: item for item in base}
    strays = 0
    copies: dict[str, dict[str, Item]] = {"D": {item.id: duplicate(item) for item in base}}
    for name, items in (("R", rewritten), ("P", with_persona)):
        copies[name] = {}
        for item in items:
            before = by_id.get(origin_item(item))
            if before is None:
                strays += 1
                continue
            if item.labels != before.labels or item.label_source != before.label_source:
                raise UserError(
                    f"{item.id} has other labels than {before.id}, of which it is a rewriting. "
                    "Labels changed after the rewriting: run `compeer cer rewrite` again."
                )
            # the split may have been drawn after the rewriting
            copies[name][before.id] = msgspec.structs.replace(item, split=before.split)
    shared = [item.id for item in base if item.id in copies["R"] and item.id in copies["P"]]
    sizes = VariantSizes(
        originals=len(base),
        copies=len(shared),
        each=len(base) + len(shared),
        without_rewrite=len(base) - len(copies["R"]),
        without_persona=len(base) - len(copies["P"]),
        strays=strays,
    )
    return Variants({name: [*base, *(copies[name][one] for one in shared)] for name in NAMES}, sizes)


def write(folder: Path, made: Variants) -> None:
    """`train-D.jsonl`, `train-R.jsonl`, `train-P.jsonl` and `variants.json` with the sizes."""
    for name, items in made.sets.items():
        write_rows(folder / f"train-{name}.jsonl", items)
    write_json(folder / "variants.json", made.sizes)
