"""GRPO over whole conversations with a simulated seeker: the record of a talk, its rollout, its reward.

**Rollout** (TRL's `rollout_func`). The policy answers, thinking included; the seeker reads the reply and reacts
(`seeker`); the policy answers again, up to `turns` times. One conversation is one completion: the policy's tokens carry
a 1 in `env_mask` and are trained, the tokens of the seeker and of the chat template between two turns carry a 0 and are
only read. Tokens are never decoded and encoded again, so what is trained is what was sampled. Since one completion is
one sequence, the policy also reads its own earlier thinking in later turns, which `compeer chat` leaves out.

    rollout = TalkRollout(seeker, TalkSettings(turns=4))
    trainer = GRPOTrainer(rollout_func=rollout, reward_funcs=TalkReward(composite), …)

A conversation ends with the turn limit, a goodbye, a mood that is content or lost, an incomplete output, a seeker that
fails, or when it grows too long; ends are counted in the log (`talk/ended/…`). The seeker reacts to the last turn, too,
which SAGE does not ask for: otherwise nothing would be learned from that turn.

**Reward.** A weighted sum of two parts, each from -1 to 1:

- judge: every turn of the supporter is judged with the history up to there, and the mean over the turns is taken. The
  first turn is what single-turn training judges, with the corpus's reply to compare with and equation 5 over the group.
  Later turns answer words that only this conversation holds: they are judged without a comparison, and in equation 5
  only their similarity to the history counts. Each turn is divided by what it could have earned, so that a long
  conversation earns neither more nor less for being long;
- emotion: where the seeker's mood ended between lost and content (`seeker.relief`).

An incomplete output counts as a lost seeker: breaking the format must not be a way out of a conversation that goes
badly. Where a seeker never reacted the row earns the mean of its group, as without an answer of the judge.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from random import Random
from typing import Any, Literal, get_args

import msgspec

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer
from compeer.models.request import parts_of
from compeer.policy import trl_internals
from compeer.policy.composite import CompositeReward, PromptRecord, filled, read_record
from compeer.policy.seeker import SAGE, MoodRules, Reaction, Seeker, outcome, relief
from compeer.policy.trl_internals import Ids
from compeer.reasoning import parse
from compeer.reasoning.ontology import Language, detect
from compeer.reward.background_loop import BackgroundLoop
from compeer.reward.judge import PARTS
from compeer.typed import from_json

End = Literal["turns", "goodbye", "content", "lost", "incomplete", "seeker", "length"]
ENDS: tuple[End, ...] = get_args(End)


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of the supporter: the whole output, its reply, and the reaction of the seeker."""

    output: str
    reply: str = ""
    reaction: Reaction | None = None


class Talk(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation: its beginning, its exchanges, how it ended and why. The reward gets it as JSON."""

    language: Language
    history: list[PastTurn]
    mood: float
    exchanges: list[Exchange] = []
    end: End | None = None
    why: str = ""

    def said(self, exchanges: int | None = None) -> list[PastTurn]:
        """Everything that was said, up to and including the first `exchanges` exchanges (default: all)."""
        spoken = list(self.history)
        for exchange in self.exchanges[:exchanges]:
            spoken.append(PastTurn("supporter", exchange.reply))
            if exchange.reaction and exchange.reaction.said:
                spoken.append(PastTurn("seeker", exchange.reaction.said))
        return spoken

    def answered(self, output: str, ended: bool) -> None:
        """Add the supporter's turn. The seeker hears a reply only if the output is complete and ended by itself."""
        parsed = parse(output)
        complete = parsed.complete and ended
        self.exchanges.append(Exchange(output, parsed.response if complete else ""))
        if not complete:
            self.end, self.why = "incomplete", "; ".join(parsed.problems) or "it was cut off"

    def reacted(self, reaction: Reaction, rules: MoodRules) -> None:
        """Add the seeker's reaction to the last turn, and end the conversation where it says so."""
        self.exchanges[-1] = msgspec.structs.replace(self.exchanges[-1], reaction=reaction)
        self.mood = reaction.mood
        if reaction.failure:
            self.end, self.why = "seeker", reaction.failure
        else:
            self.end = outcome(self.mood, rules) or ("goodbye" if reaction.leaves else None)

    def relief(self, rules: MoodRules) -> float | None:
        """The emotion's part of the reward; None when the seeker never reacted."""
        if self.end == "incomplete":
            return -1.0
        reacted = any(one.reaction and one.reaction.failure is None for one in self.exchanges)
        return relief(self.mood, rules) if reacted else None


async def exchange(
    talk: Talk, output: str, seeker: Seeker | None, turns: int, *, ended: bool = True, seed: int | None = None
) -> None:
    """Add the supporter's turn and the seeker's reaction, if there is a seeker. `ended`: the output was not cut off.
    Afterwards `talk.end` says whether the conversation is over."""
    talk.answered(output, ended)
    if talk.end is None and seeker is not None:
        talk.reacted(await seeker.react(talk.said(), talk.mood, talk.language, seed), seeker.settings.rules)
    if talk.end is None and len(talk.exchanges) >= turns:
        talk.end = "turns"


def begin(messages: Sequence[dict[str, Any]], rules: MoodRules) -> Talk:
    """The conversation that a prompt begins: messages for a chat template, the last one the seeker's."""
    spoken = [one for one in messages if one["role"] in ("user", "assistant")]
    if not spoken or spoken[-1]["role"] != "user":
        raise UserError("A conversation with a seeker begins with a prompt that ends in the seeker's words.")
    history = [PastTurn("seeker" if one["role"] == "user" else "supporter", _plain(one)) for one in spoken]
    return Talk(language=detect(" ".join(turn.text for turn in history)), history=history, mood=rules.start)


def summary(talks: Sequence[Talk]) -> dict[str, float]:
    """How the conversations of a batch went, for the log."""
    count = max(1, len(talks))
    ends = Counter(one.end for one in talks)
    return {f"talk/ended/{end}": ends[end] / count for end in ENDS} | {
        "talk/mood": sum(one.mood for one in talks) / count,
        "talk/turns": sum(len(one.exchanges) for one in talks) / count,
    }


def _plain(message: dict[str, Any]) -> str:
    parts = parts_of(message)
    if any(part["type"] != "text" for part in parts):
        raise UserError("Conversations with a simulated seeker are text only; leave out items with pictures.")
    return "".join(part["text"] for part in parts)


#: sequences of tokens in, what the policy adds to each out, with log-probabilities where the sampler knows them
Generate = Callable[[list[Ids], Any], tuple[list[Ids], list[list[float]] | None]]


class TalkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the conversations are."""

    turns: int = 4  # of the supporter, at most
    longest: int = 4096  # tokens of a conversation, the prompt included, beyond which no turn begins

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise UserError(f"A conversation needs at least one turn of the supporter, not {self.turns}.")


class TalkRollout:
    """TRL's `rollout_func`. `generate` is the trainer's own, transformers or vLLM, unless another is given."""

    def __init__(
        self, seeker: Seeker, settings: TalkSettings = TalkSettings(), *, generate: Generate | None = None
    ) -> None:
        self.seeker, self.settings, self.generate = seeker, settings, generate or trl_internals.generate
        self._background = BackgroundLoop("seeker")

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """One conversation for each prompt, which is a list of messages that ends with the seeker's."""
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        speech = TurnTokens(tokenizer, trainer.eos_token_ids)
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
            self._background.submit(self._turn(going, added, speech, f"{step}/{{}}/{turn}")).result()
            for row in going:
                if row.talk.end is None:
                    self._pass_on(row, speech)
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

    async def _turn(self, rows: list[_Row], added: list[Ids], speech: TurnTokens, draw: str) -> None:
        """One turn of all conversations at once. Each has its own seed, which is the same when a run is repeated."""
        turns = [
            exchange(
                row.talk,
                speech.text(ids),
                self.seeker,
                self.settings.turns,
                ended=speech.ended(ids),
                seed=Random(draw.format(row.number)).getrandbits(31),
            )
            for row, ids in zip(rows, added, strict=True)
        ]
        await asyncio.gather(*turns)

    def _pass_on(self, row: _Row, speech: TurnTokens) -> None:
        """The seeker's words into the policy's context, unless the conversation grows too long with them."""
        between = speech.between(row.talk.said()[-1].text)
        if len(row.prompt) + len(row.written) + len(between) >= self.settings.longest:
            row.talk.end = "length"
        else:
            row.add(between, 0, [0.0] * len(between))


class TurnTokens:
    """Turns as tokens: what a chat template puts around them, without encoding anything twice."""

    _MARK = "\u241f"  # stands for the supporter's turn while the template is taken apart

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        self.tokenizer, self.ends = tokenizer, list(ends)
        self._words = ChatTokenizer(tokenizer)  # nobody can smuggle in control tokens

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


class TalkWeights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the two parts. A judge of weight 0 is not asked; the format is still checked for the log."""

    judge: float = 1.0
    emotion: float = 1.0

    def __post_init__(self) -> None:
        if self.judge == 0 and self.emotion == 0:
            raise UserError("The reward of a conversation has two parts, judge and emotion; both weights are 0.")


class TalkReward:
    """The reward of conversations, in TRL's signature. The rollout adds the column `talk` to each row."""

    __name__ = "reward"

    def __init__(
        self, composite: CompositeReward, weights: TalkWeights = TalkWeights(), rules: MoodRules = SAGE
    ) -> None:
        self.composite, self.weights, self.rules = composite, weights, rules
        if not weights.judge and composite.settings.source != "rules":
            rules_only = msgspec.structs.replace(composite.settings, source="rules")
            self.composite = CompositeReward(None, composite.embedder, rules_only, group=composite.group)
            self.composite.on_scored = lambda scored: composite.on_scored(scored) if composite.on_scored else None
        alone = msgspec.structs.replace(
            self.composite.settings, weights=composite.settings.weights | {"preference": 0.0}
        )
        self._later = CompositeReward(self.composite.judge, composite.embedder, alone)

    def __call__(
        self,
        prompts: Any = None,
        completions: Sequence[Any] = (),
        prompt_record: Sequence[str] = (),
        talk: Sequence[str] = (),
        *,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        talks = [from_json(one, Talk) for one in talk]
        if not len(talks) == len(prompt_record) == len(completions):
            raise UserError(
                f"{len(completions)} outputs came with {len(talks)} conversations and {len(prompt_record)} rows of "
                "`prompt_record`."
            )
        parts = {
            "judge": self._judged(talks, prompt_record, log_metric=log_metric, log_extra=log_extra),
            "emotion": self._relieved(talks, prompt_record),
        }
        if log_metric:
            means = {f"talk/{name}": sum(values) / max(1, len(values)) for name, values in parts.items()}
            for name, value in (means | summary(talks)).items():
                log_metric(name, value)
        pairs = zip(parts["judge"], parts["emotion"], strict=True)
        return [self.weights.judge * judge + self.weights.emotion * emotion for judge, emotion in pairs]

    def _judged(self, talks: list[Talk], prompt_record: Sequence[str], **logging: Any) -> list[float]:
        """The judge's part: the mean over the turns, each as a share of the most that a turn can earn."""
        first = self.composite(None, [one.exchanges[0].output for one in talks], prompt_record, **logging)
        earned = [[reward / _most(self.composite)] for reward in first]
        later = [(row, turn) for row, one in enumerate(talks) for turn in range(1, len(one.exchanges))]
        groups = [
            (_moment(talks[row], turn, prompt_record[row]), [talks[row].exchanges[turn].output]) for row, turn in later
        ]
        for (row, _), scored in zip(later, self._later.score(groups) if groups else [], strict=True):
            if scored.failure is None:
                earned[row].append(scored.reward / _most(self._later))
        return [sum(shares) / len(shares) for shares in earned]

    def _relieved(self, talks: list[Talk], prompt_record: Sequence[str]) -> list[float]:
        """The emotion's part; where a seeker never reacted, the mean of its group."""
        groups = groupby(zip(prompt_record, talks, strict=True), lambda row: row[0])
        return [value for _, rows in groups for value in filled([talk.relief(self.rules) for _, talk in rows])]


def _moment(talk: Talk, turn: int, prompt_record: str) -> PromptRecord:
    """The prompt of a later turn: everything that was said before it."""
    name = read_record(prompt_record).id
    return PromptRecord(f"{name}/turn-{turn + 1}", talk.language, tuple(talk.said(turn)), "")


def _most(composite: CompositeReward) -> float:
    """The most that a turn can earn: the sum of the weights."""
    names = dict.fromkeys([*PARTS, *composite.settings.weights])
    return sum(abs(composite.settings.weight(name)) for name in names) or 1.0
