"""Asking a judge about honest outputs and about attacks on them.

All outputs of an item bear the item's id, so the pair is shown in the same order in each of them, and stand next to
each other, so a judge that shares prefixes encodes the history once. Judgements are kept in `attack.jsonl` as they
come, one line an item; a run that was stopped goes on after the last whole line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item
from compeer.cer.variants import origin
from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.reasoning import parse
from compeer.reward.attack.attacks import ATTACKS, attacked, honest
from compeer.reward.attack.result import Tried
from compeer.reward.case import Case, case_of_output
from compeer.reward.evaluation.asking import Say, Ticker, to_stderr
from compeer.reward.judge import Judge, Orders

_PORTION = 4  # items at a time, each with all its attacks


class _Settings(msgspec.Struct, frozen=True):
    """What must be the same for a run to go on."""

    judge: dict[str, Any]
    orders: str
    outputs: str  # a hash of everything that is judged


def usable(items: Sequence[Item]) -> list[Item]:
    """The items that an attack can be made of: those whose own output is complete."""
    reasoned = [item for item in items if item.history and item.candidate is not None and item.candidate.reasoning]
    found = [item for item in reasoned if parse(honest(item)).complete]
    if not found:
        raise UserError("None of the items has a candidate with complete reasoning; there is nothing to attack with.")
    return found


def cases(item: Item) -> dict[str, Case]:
    """The honest case under the name "", and the case of every attack that can be made of the item."""
    made = {"": case_of_output(item, honest(item))}
    for one in ATTACKS:
        output = attacked(item, one)
        if output is not None:
            made[one.name] = case_of_output(item, output)
    return made


async def attack(
    judge: Judge,
    items: Sequence[Item],
    out: Path | None = None,
    *,
    orders: Orders = "one",
    say: Say = to_stderr,
) -> list[Tried]:
    """The judge's judgements of honest and attacked outputs, an entry an item."""
    items = usable(items)
    tried: list[Tried] = []
    if out is not None:
        tried = await _begun(judge, items, out, orders)
        if tried:
            say(f"{len(tried):,} of {len(items):,} items are judged already.")
    ticker = Ticker(f"{judge.name} under attack", len(items), say)
    for start in range(len(tried), len(items), _PORTION):
        portion = items[start : start + _PORTION]
        made = [cases(item) for item in portion]
        told = await judge.judge([case for one in made for case in one.values()], orders=orders)
        answers = iter(told)
        fresh = []
        for item, one in zip(portion, made, strict=True):
            given = {name: next(answers) for name in one}
            fresh.append(Tried(item.id, origin(item), given.pop(""), given))
        tried += fresh
        if out is not None:
            with (out / "attack.jsonl").open("ab") as file:
                file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in fresh))
        ticker.tell(len(tried))
    return tried


async def _begun(judge: Judge, items: Sequence[Item], out: Path, orders: Orders) -> list[Tried]:
    """What an earlier run of the same kind has left; another kind of run is refused."""
    texts = hashlib.sha256()
    for item in items:
        for name, case in cases(item).items():
            texts.update(msgspec.json.encode([name, case]))
    settings = msgspec.json.encode(_Settings(dict(await judge.identity()), orders, texts.hexdigest()))
    out.mkdir(parents=True, exist_ok=True)
    noted, kept = out / "attack-run.json", out / "attack.jsonl"
    if noted.exists() and msgspec.json.decode(noted.read_bytes()) != msgspec.json.decode(settings):
        raise UserError(f"{out} holds an attack on another judge, or with other items; choose another --out.")
    noted.write_bytes(msgspec.json.format(settings) + b"\n")
    if not kept.exists():
        return []
    whole = kept.read_bytes()
    if whole and not whole.endswith(b"\n"):
        kept.write_bytes(whole[: whole.rfind(b"\n") + 1])
    return list(read_rows(kept, Tried))
