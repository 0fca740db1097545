"""Data of the miniature: silver items, disjoint by dialogue, and what is made of them.

    judge        items of two thirds of ESConv train: the training judges, PRM and ORM
    evaluation   items of the other third: the evaluation judge, which no policy is trained on
    sft          references with their reasoning of all of ESConv train, histories cut; our own turns several times
    prompts      histories for GRPO, of ESConv train
    test         items of ESConv valid, and of failed conversations that no judge has seen
    moments      histories of ESConv valid that every model answers
    choice       other moments of ESConv valid: which supporter is taken is decided on them alone
    confirm      further ones, which the SFT model and the chosen supporter answer at the end
    escot, mesc  items of corpora that nothing here was trained on
    strategies   dialogues of ESConv train as people labelled them, for the classifier of the consistency study

Corpora are split first and made into items then, because silver items of one pool exchange steps. Our own turns are
learnt from several times: an identical row counts once in SFT, so each time the history is cut to another length.
Without a data folder, at the tiny size, our own corpus takes the place of ESConv.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item, Labels, items_at, read_items
from compeer.cer.silver import build_silver
from compeer.corpora import bundled, load
from compeer.dialogue import Dialogue, rounds, write_rows
from compeer.errors import UserError
from compeer.policy.prompts import demonstration
from runs.miniature.pieces import Work

_LABELLED = 300  # dialogues, more than the classifier reads


class Corpora(msgspec.Struct, frozen=True):
    """Dialogues to learn from, to measure on, and that did not help."""

    train: list[Dialogue]
    valid: list[Dialogue]
    failed: list[Dialogue]


def make(work: Work) -> dict[str, Any]:
    """All files of the data stage; how many rows each has."""
    plan, seed = work.settings.data, work.settings.seed
    found = corpora(work)
    train = drawn(found.train, seed)[: plan.dialogues]
    apart = round(len(train) * plan.evaluation_share)
    failed = drawn(found.failed, seed)
    held, rest = failed[: plan.failed_held_out], failed[plan.failed_held_out :]
    cut = round(len(rest) * plan.evaluation_share)
    counts: dict[str, int] = {}

    def write(name: str, items: Iterable[Item]) -> list[Item]:
        made = list(items)
        counts[name] = write_rows(work.items(name), made)
        return made

    judge = write("judge", _silver(work, train[apart:], rest[cut:]))
    evaluation = write("evaluation", _silver(work, train[:apart], rest[:cut]))
    test = write("test", drawn(_silver(work, found.valid, held), seed)[: plan.test])
    _refuse_shared(judge, evaluation, test)
    learnt = [item for item in (*judge, *evaluation) if item.reference_reasoning is not None]
    chosen = drawn([_cut(item, plan.turns) for item in learnt if _learnable(item, work)], seed)
    own = [] if work.data is None else list(_own(work))
    write("sft", [*chosen, *own][: plan.sft_items])
    write("prompts", chosen[: plan.prompts])
    helped = [item for item in test if item.reference_reasoning is not None]
    write("moments", (_asked(_cut(item, plan.turns)) for item in _spread(helped)[: plan.moments]))
    counts["strategies"] = write_rows(work.items("strategies"), train[:_LABELLED])
    for name in ("escot", "mesc"):
        folder = None if work.data is None else work.data / name
        if folder is not None and folder.is_dir():
            items = _silver(work, dialogues(name, folder), ())
            write(name, drawn(items, seed)[: plan.elsewhere])
    return {"rows": counts, "dialogues": {"judge": len(train) - apart, "evaluation": apart, "valid": len(found.valid)}}


def choice(work: Work) -> dict[str, Any]:
    """Moments to choose a supporter on, so that what is measured on the others was not chosen for."""
    return _further(work, "choice", work.settings.data.moments, work.settings.choice)


def confirm(work: Work) -> dict[str, Any]:
    """Moments that nothing was chosen on, to measure the chosen supporter on once."""
    return _further(work, "confirm", work.settings.data.moments + work.settings.choice, work.settings.confirm)


def _further(work: Work, name: str, first: int, many: int) -> dict[str, Any]:
    """Moments of the test dialogues beyond the first ones."""
    helped = [item for item in read(work.items("test")) if item.reference_reasoning is not None]
    start = 0 if work.tiny else first  # at the tiny size there are no others
    chosen = _spread(helped)[start : start + many]
    turns = work.settings.data.turns
    return {"rows": write_rows(work.items(name), (_asked(_cut(item, turns)) for item in chosen))}


def corpora(work: Work) -> Corpora:
    """ESConv from the data folder, or our own corpus in its place at the tiny size."""
    if work.data is not None:
        folder = work.data / "esconv"
        train, valid = (dialogues("esconv", folder, split=split) for split in ("train", "valid"))
        return Corpora(train, valid, dialogues("failed_esconv", folder))
    if not work.tiny:
        raise UserError(
            "The miniature learns from ESConv: give the folder that holds esconv/ with --data. "
            "Only --tiny does without, with the bundled corpus in its place."
        )
    own = list(bundled.load("en"))
    return Corpora(own[:-12], own[-12:], [])


def dialogues(name: str, path: Path, **options: Any) -> list[Dialogue]:
    """The usable dialogues of a corpus."""
    return [one for one in load(name, path, **options) if isinstance(one, Dialogue)]


def read(path: Path) -> list[Item]:
    return list(read_items(path))


def drawn(things: Sequence[Any], seed: int) -> list[Any]:
    """In an order that hangs on their ids and the seed alone."""
    return sorted(things, key=lambda one: hashlib.sha256(f"{seed} {one.id}".encode()).digest())


def _silver(work: Work, helped: Sequence[Dialogue], failed: Sequence[Dialogue]) -> list[Item]:
    return list(build_silver(helped, failed, seed=work.settings.seed, per_dialogue=work.settings.data.per_dialogue))


def _refuse_shared(*parts: Sequence[Item]) -> None:
    """No dialogue may stand in two of them: a judge would measure what it has learnt by heart."""
    seen: set[str] = set()
    for part in parts:
        here = {item.dialogue for item in part}
        if shared := seen & here:
            raise UserError(f"The dialogue {min(shared)} stands in two of judge, evaluation and test.")
        seen |= here


def _learnable(item: Item, work: Work) -> bool:
    plan = work.settings.data
    return plan.shortest <= len(item.reference.strip()) <= plan.longest and demonstration(item) is not None


def _own(work: Work) -> Iterator[Item]:
    """Our own turns with reasoning, once for each length of the history."""
    for language in work.settings.data.own_languages:
        for dialogue in bundled.load(language):  # type: ignore[arg-type]
            for item in items_at(dialogue, range(1, len(rounds(dialogue)) + 1)):
                if item.reference_reasoning is not None and demonstration(item) is not None:
                    for turns in work.settings.data.own_turns:
                        yield msgspec.structs.replace(_cut(item, turns), id=f"{item.id}~{turns}")


def _cut(item: Item, turns: int) -> Item:
    """The last turns of the history, beginning with the seeker where it can."""
    kept = item.history[-turns:]
    if len(kept) > 1 and len(kept) < len(item.history) and kept[0].speaker != "seeker":
        kept = kept[1:]
    return msgspec.structs.replace(item, history=kept)


def _spread(items: Sequence[Item]) -> list[Item]:
    """One item of every dialogue, then a second one of each, and so on: many dialogues make narrow intervals."""
    by_dialogue: dict[str, list[Item]] = {}
    for item in items:
        by_dialogue.setdefault(item.dialogue, []).append(item)
    most = max((len(one) for one in by_dialogue.values()), default=0)
    return [one[at] for at in range(most) for one in by_dialogue.values() if at < len(one)]


def _asked(item: Item) -> Item:
    """The moment alone, without a candidate and its labels."""
    return msgspec.structs.replace(item, candidate=None, labels=Labels(), label_source=None)
