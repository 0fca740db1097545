"""The judge's conversation as the tokens of a model.

A conversation is always rendered whole by the model's own chat template and tokenised whole, as in training
(`compeer.training.encode`), so that its tokens are the same, whatever a tokenizer does at the seams. What two
conversations share is found afterwards, by comparing tokens. The possible verdicts are found the same way: the
rendering with each answer against the rendering that waits for one.

Pictures stand in the history. The processor that turns them into pixels also makes one placeholder into many; that
is done once a group, and the tokens before and after are the tokenizer's.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Generic

import msgspec
import torch

from compeer.models.checkpoint import Checkpoint, picture
from compeer.models.request import ModelError, images_of
from compeer.reasoning.ontology import Language
from compeer.reward.homes.trie import K, Trie, shared
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Choice
from compeer.training.encode import Words

Chat = list[dict[str, Any]]


class Options(msgspec.Struct, Generic[K], frozen=True):
    """The verdicts a turn may end in. `back`: tokens at the end of the open question that an answer replaces."""

    words: dict[K, str]
    trie: Trie[K]
    back: int
    spoken: dict[K, int]  # how many tokens of its path are words; the rest ends the turn


class Pictures(msgspec.Struct, frozen=True):
    """The pictures of a history: its tokens as the tokenizer and as the processor write them, pixels, positions."""

    plain: list[int]
    seen: list[int]
    inputs: dict[str, torch.Tensor]
    positions: torch.Tensor | None


class Rendering:
    """Template, tokenizer and processor of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model, self.tokenizer, self.processor = checkpoint.model, checkpoint.tokenizer, checkpoint.processor
        self._words = Words(self.tokenizer, self.processor)
        self._rope_index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        self._steps: dict[Language, Options[bool]] = {}
        self._pairs: dict[Language, Options[Choice]] = {}

    @property
    def axes(self) -> int:
        """Of a token's position: three in models that place pictures in time, height and width."""
        return 3 if self._rope_index is not None else 1

    def tokens(self, chats: Sequence[Chat], *, waiting: bool = True) -> list[list[int]]:
        """The tokens of whole conversations, `waiting` for the judge's next answer or ended by its last."""
        texts = [self._text(chat, waiting) for chat in chats]
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return found

    def opening(self, system: str) -> list[int]:
        """What every conversation with this instruction begins with."""
        one, other = self.tokens([[_system(system), {"role": "user", "content": text}] for text in ("a", "。")])
        return one[: shared(one, other)]

    def steps(self, language: Language) -> Options[bool]:
        if language not in self._steps:
            self._steps[language] = self._options(STEP_WORDS[language])
        return self._steps[language]

    def pair(self, language: Language) -> Options[Choice]:
        if language not in self._pairs:
            self._pairs[language] = self._options(PAIR_WORDS[language])
        return self._pairs[language]

    def pictures(self, chat: Chat) -> Pictures | None:
        """The pictures of a conversation that waits for its first answer."""
        paths = images_of(chat)
        if not paths:
            return None
        if self.processor is None:
            raise ModelError("This judge cannot see images. Leave them out of the history, or use a vision model.")
        inputs = dict(
            self.processor(text=[self._text(chat, True)], images=[picture(path) for path in paths], return_tensors="pt")
        )
        seen: list[int] = inputs.pop("input_ids")[0].tolist()
        (plain,) = self.tokens([chat])
        before = shared(plain, seen)
        after = min(shared(plain[::-1], seen[::-1]), len(plain) - before)
        positions = self._positions(seen, inputs)
        seen = seen[: len(seen) - after]
        return Pictures(
            plain=plain[: len(plain) - after],
            seen=seen,
            inputs={
                name: value.to(self.model.device)
                for name, value in inputs.items()
                if not (value.ndim == 2 and value.shape == inputs["attention_mask"].shape)
            },
            positions=None if positions is None else positions[:, : len(seen)],
        )

    def _positions(self, seen: list[int], inputs: dict[str, Any]) -> torch.Tensor | None:
        if self._rope_index is None:
            return None
        ids = torch.tensor([seen])
        given: dict[str, Any] = {
            "input_ids": ids,
            "image_grid_thw": inputs["image_grid_thw"],
            "attention_mask": torch.ones_like(ids),
        }
        if "mm_token_type_ids" in inspect.signature(self._rope_index).parameters:
            given["mm_token_type_ids"] = (ids == self.model.config.image_token_id).int()
        positions: torch.Tensor = self._rope_index(**given)[0]
        return positions[:, 0]

    def _options(self, words: dict[K, str]) -> Options[K]:
        asked: Chat = [_system("?"), {"role": "user", "content": "?"}]
        (waiting,) = self.tokens([asked])

        def answered(text: str) -> Chat:
            return [*asked, {"role": "assistant", "content": text}]

        ended = dict(zip(words, self.tokens([answered(text) for text in words.values()], waiting=False), strict=True))
        going_on = self.tokens([answered(text + " Because") for text in words.values()], waiting=False)
        start = min(shared(waiting, tokens) for tokens in ended.values())
        return Options(
            words=dict(words),
            trie=Trie({key: tuple(tokens[start:]) for key, tokens in ended.items()}),
            back=len(waiting) - start,
            spoken={
                key: shared(tokens, longer) - start
                for (key, tokens), longer in zip(ended.items(), going_on, strict=True)
            },
        )

    def _text(self, chat: Chat, waiting: bool) -> str:
        return self._words.render(self._words.chat(chat), ask=waiting)


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}
