"""A judge as simple as can be, to compare with: every turn from scratch, one answer at a time, no cache, no batch."""

from __future__ import annotations

import math
from typing import Any

import torch

from compeer.models.checkpoint import Checkpoint, open_checkpoint, picture
from compeer.models.request import images_of
from compeer.reward.case import Case
from compeer.reward.conversation import messages, threads
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind, preference_of

Verdicts = dict[Any, dict[Any, float]]  # a step, or (preference, candidate first) -> the probability of each option


class Reference:
    """Counts the tokens of every turn it encodes, once a turn, as a server without a cache would."""

    def __init__(self, folder: str) -> None:
        self.checkpoint: Checkpoint = open_checkpoint(folder, device="cpu")
        self.tokens = 0

    def judge(self, case: Case, kind: Kind, candidate_first: bool) -> Verdicts:
        found: Verdicts = {}
        for thread in threads(case, kind, candidate_first):
            answers: list[str] = []
            for turn in thread.turns:
                words: dict[Any, str] = dict(STEP_WORDS[case.language])
                if turn.question == "preference":
                    words = dict(PAIR_WORDS[case.language])
                chat = messages(thread, answers)
                self.tokens += len(self.inputs(chat)["input_ids"][0])
                shares = self.shares(chat, words)
                answers.append(words[max(shares, key=lambda key: shares[key])])
                if turn.question == "preference":
                    by_origin = {preference_of(choice, candidate_first): share for choice, share in shares.items()}
                    found["preference", candidate_first] = by_origin
                else:
                    found[turn.question] = shares
        return found

    def shares(self, chat: list[dict[str, Any]], words: dict[Any, str]) -> dict[Any, float]:
        """At every token the chances of those with which one of the answers goes on, multiplied."""
        whole = {
            key: self.inputs([*chat, {"role": "assistant", "content": text}], False) for key, text in words.items()
        }
        tokens = {key: tuple(inputs["input_ids"][0].tolist()) for key, inputs in whole.items()}
        seen: dict[tuple[int, ...], torch.Tensor] = {}
        found = {}
        for key, mine in tokens.items():
            share = 1.0
            for place in range(1, len(mine)):
                going_on = {other[place] for other in tokens.values() if other[:place] == mine[:place]}
                if len(going_on) > 1:
                    if mine[:place] not in seen:
                        seen[mine[:place]] = self.next(whole[key], place)
                    weights = {token: math.exp(seen[mine[:place]][token].item()) for token in going_on}
                    share *= weights[mine[place]] / sum(weights.values())
            found[key] = share
        return found

    def next(self, inputs: dict[str, torch.Tensor], length: int) -> torch.Tensor:
        """The logits after so many tokens, everything before them encoded again."""
        size = inputs["input_ids"].shape
        cut = {name: value[:, :length] if value.shape == size else value for name, value in inputs.items()}
        with torch.no_grad():
            logits: torch.Tensor = self.checkpoint.model(**cut).logits[0, -1].double()
        return logits

    def inputs(self, chat: list[dict[str, Any]], waiting: bool = True) -> dict[str, torch.Tensor]:
        tokenizer, processor = self.checkpoint.tokenizer, self.checkpoint.processor
        if processor is None:
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=waiting)
            return dict(tokenizer(text, return_tensors="pt", add_special_tokens=False))
        parts = [
            {
                "role": message["role"],
                "content": [{"type": "text", "text": message["content"]}]
                if isinstance(message["content"], str)
                else [{"type": "image"} if part["type"] == "image" else part for part in message["content"]],
            }
            for message in chat
        ]
        text = tokenizer.apply_chat_template(parts, tokenize=False, add_generation_prompt=waiting)
        images = [picture(path) for path in images_of(chat)] or None
        return dict(processor(text=[text], images=images, return_tensors="pt"))
