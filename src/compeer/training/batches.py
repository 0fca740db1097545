"""Examples to tensors, and the order in which they come.

The order depends on nothing but the seed and the epoch, so a run that was killed goes on with the very batch that
was due. Within it, examples of like length come together, which saves padding.

Text and pictures may be mixed. In one process so may a batch. With several, all of them get a batch with pictures or
all a batch without: sharded training waits for ever when one of them passes the vision tower and another does not.
For that each of the two kinds is filled up, from its own rows, to a whole number of rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from compeer.training.encode import IGNORED, Example, Words

_WINDOW = 8  # batches among which examples are sorted by length


def order(examples: Sequence[Example], batch: int, processes: int, rng: Random | None) -> list[int]:
    """The numbers of the examples, `batch` for each process in turn. Without `rng` they keep their order."""
    chunk = batch * processes
    if processes == 1:
        kinds = [list(range(len(examples)))]
    else:
        with_pictures = [at for at, example in enumerate(examples) if example.images]
        without = [at for at, example in enumerate(examples) if not example.images]
        kinds = [_filled(kind, chunk, rng) for kind in (with_pictures, without) if kind]
    chunks: list[list[int]] = []
    for kind in kinds:
        if rng:
            kind = _by_length(kind, examples, chunk, rng)
        chunks += [kind[start : start + chunk] for start in range(0, len(kind), chunk)]
    if rng:
        short = [each for each in chunks if len(each) < chunk]  # comes last, or it would shift the ones behind it
        full = [each for each in chunks if len(each) == chunk]
        rng.shuffle(full)
        chunks = full + short
    return [at for each in chunks for at in each]


class Order:
    """A sampler for torch: the order of the epoch that `epoch()` says, or always the same one without it."""

    def __init__(
        self, examples: Sequence[Example], batch: int, processes: int, seed: int, epoch: Callable[[], int] | None
    ) -> None:
        self.examples, self.batch, self.processes = examples, batch, processes
        self.seed, self.epoch = seed, epoch
        self._length = len(order(examples, batch, processes, None))

    def __iter__(self) -> Iterator[int]:
        rng = Random(f"{self.seed} {self.epoch()}") if self.epoch else None
        return iter(order(self.examples, self.batch, self.processes, rng))

    def __len__(self) -> int:
        return self._length


class Collator:
    """Numbers of examples to a padded batch."""

    def __init__(self, examples: Sequence[Example], words: Words) -> None:
        self.examples, self.words = examples, words

    def __call__(self, rows: Sequence[dict[str, int]]) -> dict[str, Any]:
        import torch

        chosen = [self.examples[row["number"]] for row in rows]
        longest = max(len(example) for example in chosen)
        ids = torch.full((len(chosen), longest), self.words.pad)
        labels = torch.full((len(chosen), longest), IGNORED)
        mask = torch.zeros((len(chosen), longest), dtype=torch.long)
        for row, example in enumerate(chosen):
            ids[row, : len(example)] = torch.tensor(example.ids)
            labels[row, : len(example)] = torch.tensor(example.labels())
            mask[row, : len(example)] = 1
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        return batch | self._pictures(chosen, ids)

    def _pictures(self, chosen: Sequence[Example], ids: Any) -> dict[str, Any]:
        """Pixels, only where there are some: a vision model takes no empty ones."""
        from compeer.models.checkpoint import picture

        images = [picture(path) for example in chosen for path in example.images]
        if not images or self.words.processor is None:
            return {}
        made = dict(self.words.processor.image_processor(images=images, return_tensors="pt"))
        return made | {"mm_token_type_ids": (ids == self.words.image_token).long()}


def _filled(kind: list[int], chunk: int, rng: Random | None) -> list[int]:
    missing = -len(kind) % chunk
    return kind + (rng.choices(kind, k=missing) if rng else [kind[at % len(kind)] for at in range(missing)])


def _by_length(kind: list[int], examples: Sequence[Example], chunk: int, rng: Random) -> list[int]:
    """By chance, then sorted within windows of some batches; who is in the last, smaller batch is chance alone."""
    shuffled = kind[:]
    rng.shuffle(shuffled)
    window, whole = chunk * _WINDOW, len(shuffled) - len(shuffled) % chunk
    ordered: list[int] = []
    for start in range(0, whole, window):
        ordered += sorted(shuffled[start : min(start + window, whole)], key=lambda at: -len(examples[at]))
    return ordered + shuffled[whole:]
