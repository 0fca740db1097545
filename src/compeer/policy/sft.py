"""The cold start: supervised training on CER references with their reasoning (the paper's COMPEER-SFT).

    compeer policy sft configs/policy/sft-laptop.yaml

A demonstration is what the model should have written: the reference's reasoning and the reference, in the contract.
Prompts are those of GRPO (`prompts`), so that training and GRPO ask the same; only the output is in the loss. Items
without reasoning, with a reference that the contract cannot hold, too long or repeated are left out and counted; so are
crisis items and replies that did not help, always, and items in a literary voice unless `literary` is set.

The folder is a training run (`compeer.training.run`): the same command resumes it. Its `model` opens as `hf:RUN/model`,
or, for an adapter, as `hf:BASE+RUN/model`; GRPO starts from either when it is given the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item, Split, read_items
from compeer.config import load
from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer
from compeer.policy.prompts import demonstration, prompt_if_usable, prompt_tokens, why_not_taught
from compeer.reasoning.prompt import Length
from compeer.training.encode import Example, encode
from compeer.training.model import start_identity
from compeer.training.sft import Plan

#: settings that may change when a run is resumed; data and model are compared by content, not by path
FREE = ("out", "name", "model", "adapter", "data", "valid", "log_every", "keep", "micro_batch", "device",
        "gradient_checkpointing")  # fmt: skip


class SftConfig(Plan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cold start: these settings and all of `Plan`. The paper does not give any; the defaults are its judge's."""

    out: str
    model: str  # embedded, a folder, or a hub name
    data: tuple[str, ...]
    valid: tuple[str, ...] = ()
    name: str = "policy-sft"
    length: Length = "full"  # of the instruction, the same as GRPO's
    max_prompt: int = 2048  # tokens; the oldest turns go first
    literary: bool = False  # true: items in a literary voice (the bundled corpus) are learned too
    pictures: bool = True  # a model that cannot see leaves out items with pictures; false: they are learned as text

    def __post_init__(self) -> None:
        if not self.data:
            raise UserError("data names no file. Give files of CER items, one item a line.")


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> SftConfig:
    """The settings of a YAML file, with overrides such as `epochs=2` or `lora.r=8`."""
    return load(path, SftConfig, overrides)


def train(config: SftConfig, *, force: bool = False, fresh: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train, or resume, or return the results of a finished run."""
    from compeer.models.checkpoint import open_tokenizer
    from compeer.training.run import Record, data_file, is_main, open_run
    from compeer.training.sft import sft

    files: dict[Split, tuple[str, ...]] = {"train": config.data}
    if config.valid:
        files["valid"] = config.valid
    record = Record(
        kind="policy-sft",
        config=msgspec.to_builtins(config),
        data={role: [data_file(path) for path in paths] for role, paths in files.items()},
        base=start_identity(config.model, config.start("supporter")) if is_main() else {},
        seed=config.seed,
    )
    run = open_run(config.out, record, free=FREE, force=force, fresh=fresh)
    try:
        if not run.finished:
            words = ChatTokenizer(*open_tokenizer(config.model))
            counted = {role: examples(items_of(paths, role), words, config) for role, paths in files.items()}
            learnt, counts = counted["train"]
            results = sft(
                learnt,
                counted["valid"][0] if "valid" in counted else [],
                model=config.model_of(config.model, "supporter"),
                plan=config,
                words=words,
                run=run,
                name=config.name,
                quiet=quiet,
                adapter=config.start("supporter"),
            )
            run.finish(results | {"items": counts})
        opens = f"hf:{config.model}+{run.model}" if config.lora or config.adapter else f"hf:{run.model}"
        return {"run": str(run.folder), "opens_as": opens, **run.record.results}
    finally:
        run.close()


def examples(items: Iterable[Item], words: ChatTokenizer, config: SftConfig) -> tuple[list[Example], dict[str, int]]:
    """Examples to learn from, and counts of used and left-out items."""
    found: list[Example] = []
    counts = dict.fromkeys(("learned", "shortened", "no reasoning", "not renderable", "too long", "repeated"), 0)
    seen: set[bytes] = set()
    tokens = prompt_tokens(words)
    for item in items:
        refused = why_not_taught(item) or ("literary" if item.voice == "literary" and not config.literary else None)
        if refused:
            counts[refused] = counts.get(refused, 0) + 1
            continue
        output = demonstration(item)
        if output is None:
            counts["no reasoning" if item.reference_reasoning is None else "not renderable"] += 1
            continue
        if config.pictures and not words.sees and any(turn.images for turn in item.history):
            counts["picture not seen"] = counts.get("picture not seen", 0) + 1
            continue
        prompt = prompt_if_usable(item, tokens, config.max_prompt, config.length, counts, sees=config.pictures)
        if prompt is None:
            continue
        example = encode([*prompt.messages, {"role": "assistant", "content": output}], words, "last")
        mark = example.ids.tobytes() + "\0".join(example.images).encode()
        if len(example) > config.max_length:
            counts["too long"] += 1
        elif mark in seen:
            counts["repeated"] += 1
        else:
            seen.add(mark)
            found.append(example)
            counts["shortened"] += prompt.left_out > 0
    counts["learned"] = len(found)
    if not found:
        left = ", ".join(f"{reason} {count}" for reason, count in counts.items() if count) or "there are none"
        raise UserError(f"Nothing can be learned from these items: {left}.")
    return found, counts


def items_of(paths: Sequence[str], split: Split = "train") -> Iterator[Item]:
    """Items of files, and of published folders, where only one split is meant."""
    for path in paths:
        yield from read_items(path, split=split)
