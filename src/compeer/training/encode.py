"""Conversations as tokens and as batches: which tokens are learnt, and in which order examples come.

**Tokens.** All that the assistant says is learnt, to the end of its turn. TRL finds these tokens by marks in the chat
template, and knows marked versions of some templates only. Here they are found by rendering the conversation up to each
answer: what the template adds when the answer is there is the answer. That works with every template whose beginning
does not change with what follows, and what comes before an answer is, by construction, what a model is given when it
is asked. A template that rewrites earlier turns is refused.

    example = encode(messages, ChatTokenizer(tokenizer), taught="all")
    example.ids, example.labels()

Pictures are parts {"type": "image", "path": …} of a message. Each becomes as many tokens as its size asks for, which
the file's header tells; the pixels are read when a batch is made.

**Order.** It depends on nothing but the seed and the epoch, so a resumed run continues with the very batch that was
due. Examples of similar length come together, which saves padding. In one process a batch may mix text and pictures.
With several, all of them get a batch with pictures or all a batch without: sharded training waits forever when one
process passes the vision tower and another does not. For that, each of the two kinds is filled up from its own rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer, picture
from compeer.models.request import images_of

Message = Mapping[str, Any]
Taught = Literal["all", "last"]  # the assistant's turns that are learnt
IGNORED = -100  # what trainers take for "not in the loss"


class MissingPicture(UserError):
    """A picture of a conversation that is not there, or cannot be read."""


class Example(msgspec.Struct, frozen=True):
    """One conversation. `spans` are the tokens to be learnt, as half-open ranges."""

    ids: array[int]
    spans: tuple[tuple[int, int], ...]
    images: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def labels(self) -> list[int]:
        labels = [IGNORED] * len(self.ids)
        for start, end in self.spans:
            labels[start:end] = self.ids[start:end]
        return labels


def encode(messages: Sequence[Message], words: ChatTokenizer, taught: Taught = "all") -> Example:
    """The tokens of a conversation, with the assistant's turns marked."""
    if not words.tokenizer.is_fast:
        raise UserError("This model has no fast tokenizer, which is needed to tell which tokens are an answer's.")
    images = tuple(images_of(messages))
    if images and not words.sees:
        raise UserError(
            f"A conversation shows {images[0]}, and this model cannot see. Leave pictures out, or train another."
        )
    chat = words.chat(messages)
    whole = words.render(chat)
    answers = [place for place, message in enumerate(chat) if message["role"] == "assistant"]
    if not answers:
        raise UserError("A conversation without an answer teaches nothing.")
    learnt = [_answer(chat, place, whole, words) for place in (answers if taught == "all" else answers[-1:])]
    encoded = words.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    spans = [_tokens(offsets, start, end) for start, end in learnt]
    if not images:
        return Example(array("i", ids), tuple(spans))
    return _with_pictures(ids, spans, images, words)


def _answer(chat: Sequence[Message], place: int, whole: str, words: ChatTokenizer) -> tuple[int, int]:
    """The characters of an answer in the rendered conversation, including its end-of-turn token."""
    before, after = words.render(chat[:place], ask=True), words.render(chat[: place + 1])
    if not (after.startswith(before) and whole.startswith(after)):
        raise UserError(
            "This model's chat template writes earlier turns differently once the conversation goes on, so it cannot "
            "be told which tokens to learn. Use a model with a plain template, such as ChatML."
        )
    end = len(after.rstrip())
    if not words.ends_turn(after[:end]):
        raise UserError("This model's chat template does not end the assistant's turn with a token of its own.")
    return len(before), end


def _tokens(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """The tokens that lie between two characters."""
    inside = [place for place, (first, last) in enumerate(offsets) if first >= start and last <= end and last > first]
    straddling = [(first, last) for first, last in offsets if first < start < last or first < end < last]
    if straddling or not inside:
        raise UserError("This model's tokenizer joins an answer with what stands beside it; it cannot be trained so.")
    return inside[0], inside[-1] + 1


def _with_pictures(
    ids: Sequence[int], spans: Sequence[tuple[int, int]], images: tuple[str, ...], words: ChatTokenizer
) -> Example:
    """The example with each picture's token repeated once per patch."""
    shown = ids.count(words.image_token)
    if shown != len(images):
        raise UserError(f"{len(images)} pictures stand in a conversation, and the template shows {shown}.")
    sizes = iter([_patches(path, words) for path in images])
    widened = array("i")
    starts = []  # where each token now begins
    for token in ids:
        starts.append(len(widened))
        widened.extend([token] * (next(sizes) if token == words.image_token else 1))
    starts.append(len(widened))
    return Example(widened, tuple((starts[first], starts[end]) for first, end in spans), images)


def _patches(path: str, words: ChatTokenizer) -> int:
    from PIL import Image

    processor: Any = words.processor.image_processor if words.processor is not None else None
    if not hasattr(processor, "get_number_of_image_patches") or not hasattr(processor, "merge_size"):
        raise UserError("Pictures can be trained on with models of the Qwen-VL kind; this is none.")
    try:
        with Image.open(path) as picture:
            width, height = picture.size
    except OSError as error:
        raise MissingPicture(f"The image {path} cannot be read: {error.strerror or error}.") from None
    return int(processor.get_number_of_image_patches(height, width) // processor.merge_size**2)


_WINDOW = 8  # batches among which examples are sorted by length


def order(examples: Sequence[Example], batch: int, processes: int, rng: Random | None) -> list[int]:
    """Indices of the examples in training order, `batch` for each process in turn; unshuffled without `rng`."""
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


class BatchOrder:
    """A sampler for torch: a new order per epoch (`epoch()` returns its number), or one fixed order without `epoch`."""

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
    """Makes a padded batch of example indices."""

    def __init__(self, examples: Sequence[Example], words: ChatTokenizer) -> None:
        self.examples, self.words = examples, words

    def __call__(self, rows: Sequence[dict[str, int]]) -> dict[str, Any]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def padded(rows: Iterable[Sequence[int]], filling: int) -> Any:
            return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], True, filling)

        chosen = [self.examples[row["number"]] for row in rows]
        ids = padded((example.ids for example in chosen), self.words.pad)
        labels = padded((example.labels() for example in chosen), IGNORED)
        mask = padded(([1] * len(example) for example in chosen), 0)
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        return batch | self._pictures(chosen, ids)

    def _pictures(self, chosen: Sequence[Example], ids: Any) -> dict[str, Any]:
        """Pixels, only if the batch has images: a vision model does not accept empty ones."""
        images = [picture(path) for example in chosen for path in example.images]
        if not images or self.words.processor is None:
            return {}
        made = dict(self.words.processor.image_processor(images=images, return_tensors="pt"))
        return made | {"mm_token_type_ids": (ids == self.words.image_token).long()}


def _filled(kind: list[int], chunk: int, rng: Random | None) -> list[int]:
    missing = -len(kind) % chunk
    return kind + (rng.choices(kind, k=missing) if rng else [kind[at % len(kind)] for at in range(missing)])


def _by_length(kind: list[int], examples: Sequence[Example], chunk: int, rng: Random) -> list[int]:
    """Shuffled, then sorted by length within windows of a few batches. The last, smaller batch stays random."""
    shuffled = kind[:]
    rng.shuffle(shuffled)
    window, whole = chunk * _WINDOW, len(shuffled) - len(shuffled) % chunk
    ordered: list[int] = []
    for start in range(0, whole, window):
        ordered += sorted(shuffled[start : min(start + window, whole)], key=lambda at: -len(examples[at]))
    return ordered + shuffled[whole:]
