"""GRPO against a simulated seeker: whole conversations as rollouts, through TRL's `rollout_func`.

The policy answers, thinking included; the seeker reads the reply and reacts (`seeker`); the policy answers again, up
to `turns` times. One conversation is one completion: the policy's tokens carry a 1 in `env_mask` and are trained, the
tokens of the seeker and of the chat template between two turns carry a 0 and are only read. Tokens are never decoded
and encoded again, so what is trained is what was sampled.

    rollout = Rollout(seeker, Settings(turns=4))
    trainer = GRPOTrainer(rollout_func=rollout, reward_funcs=TalkReward(composite), …)

What follows from one completion being one sequence: in later turns the policy also reads its own earlier thinking,
which a conversation in `compeer chat` leaves out. The seeker never reads any.

A conversation ends with the turn limit, a goodbye, a mood that is content or lost, a turn that is no complete output,
a seeker that fails, or when it grows too long; ends are counted in the log (`talk/ended/…`). After the last turn, too,
the seeker is asked how it feels, which SAGE does not do: otherwise nothing would be learned from that turn.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.policy.talk.conversation import Talk, begin
from compeer.policy.talk.seeker import Reaction, Seeker
from compeer.reward.client.background import Background
from compeer.training.encode import Words

Ids = list[int]
#: sequences of tokens in, what the policy adds to each out, with log-probabilities where the sampler knows them
Generate = Callable[[list[Ids], Any], tuple[list[Ids], list[list[float]] | None]]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the conversations are."""

    turns: int = 4  # of the supporter, at most
    longest: int = 4096  # tokens of a conversation, the prompt included, beyond which no turn begins

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise UserError(f"A conversation needs at least one turn of the supporter, not {self.turns}.")


class Rollout:
    """TRL's `rollout_func`. `generate` is the trainer's own, transformers or vLLM, unless another is given."""

    def __init__(self, seeker: Seeker, settings: Settings = Settings(), *, generate: Generate | None = None) -> None:
        self.seeker, self.settings, self.generate = seeker, settings, generate or _trainers_own
        self._background = Background("seeker")

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """One conversation for each prompt, which is a list of messages that ends with the seeker's."""
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        speech = Speech(tokenizer, trainer.eos_token_ids)
        rules, step = self.seeker.settings.rules, int(trainer.state.global_step)
        rows = [
            _Row(begin(messages, rules), speech.prompt(messages), number) for number, messages in enumerate(prompts)
        ]
        for turn in range(self.settings.turns):
            going = [row for row in rows if row.talk.end is None]
            if not going:
                break
            added, logprobs = self.generate([row.prompt + row.written for row in going], trainer)
            for at, row in enumerate(going):
                row.add(added[at], 1, logprobs[at] if logprobs else None)
                row.talk.answered(speech.text(added[at]), speech.ended(added[at]))
            going = [row for row in going if row.talk.end is None]
            for row, reaction in zip(going, self._reactions(going, step, turn), strict=True):
                row.talk.reacted(reaction, rules)
            for row in going:
                if row.talk.end is None:
                    self._pass_on(row, speech, last=turn + 1 == self.settings.turns)
        return {
            "prompt_ids": [row.prompt for row in rows],
            "completion_ids": [row.written for row in rows],
            "logprobs": [row.logprobs for row in rows] if all(row.sampled for row in rows) else None,
            "env_mask": [row.mask for row in rows],
            "talk": [msgspec.json.encode(row.talk).decode() for row in rows],
        }

    def close(self) -> None:
        self._background.submit(self.seeker.model.close()).result(30)
        self._background.close()

    def _pass_on(self, row: _Row, speech: Speech, last: bool) -> None:
        """The seeker's words into the policy's context, unless the conversation is over."""
        between = speech.between(row.talk.said()[-1].text)
        if last:
            row.talk.end = "turns"
        elif len(row.prompt) + len(row.written) + len(between) >= self.settings.longest:
            row.talk.end = "length"
        else:
            row.add(between, 0, [0.0] * len(between))

    def _reactions(self, rows: list[_Row], step: int, turn: int) -> list[Reaction]:
        """All seekers at once, each with a draw of its own, the same when a run is repeated."""

        async def all_of_them() -> list[Reaction]:
            asked = [
                self.seeker.react(row.talk.said(), row.talk.mood, row.talk.language, _seed(step, row.number, turn))
                for row in rows
            ]
            return await asyncio.gather(*asked)

        return self._background.submit(all_of_them()).result()


class Speech:
    """Turns as tokens: what a chat template puts around them, without encoding anything twice."""

    _MARK = "\u241f"  # stands for the supporter's turn while the template is taken apart

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        self.tokenizer, self.ends = tokenizer, list(ends)
        self._words = Words(tokenizer)  # nobody can smuggle in control tokens

    def prompt(self, messages: Sequence[dict[str, Any]]) -> Ids:
        return self._ids(self._words.render(self._words.chat(messages), ask=True))

    def between(self, said: str) -> Ids:
        """What stands between the end of the supporter's turn and the beginning of its next one."""
        turns = (("user", "?"), ("assistant", self._MARK), ("user", said))
        chat = self._words.chat([{"role": role, "content": text} for role, text in turns])
        rest = self._words.render(chat, ask=True).partition(self._MARK)[2]
        for end in self.ends:  # the turn brought its own end; the template's is left out
            rest = rest.removeprefix(self.tokenizer.decode([end]))
        return self._ids(rest)

    def ended(self, ids: Ids) -> bool:
        return bool(ids) and ids[-1] in self.ends

    def text(self, ids: Ids) -> str:
        found: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return found

    def _ids(self, text: str) -> Ids:
        found: Ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found


class _Row:
    """One conversation as tokens."""

    def __init__(self, talk: Talk, prompt: Ids, number: int) -> None:
        self.talk, self.prompt, self.number = talk, prompt, number
        self.written: Ids = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.sampled = True  # every log-probability is known

    def add(self, ids: Ids, trained: int, logprobs: list[float] | None) -> None:
        self.written += ids
        self.mask += [trained] * len(ids)
        self.sampled = self.sampled and logprobs is not None
        self.logprobs += logprobs or []


def _trainers_own(sequences: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]] | None]:
    added, logprobs = trainer._generate_single_turn(sequences, None, {}, 1)
    return added, logprobs


def _seed(step: int, row: int, turn: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{step}/{row}/{turn}".encode(), digest_size=4).digest()) >> 1
