"""What the bridges share: prompts, the reward of a configuration, the seeker, and the reward of a whole group.

Every trainer has its own idea of a reward and an environment, and the same things are behind all of ours:

**Reward** (`opened`). That of any configuration of `compeer policy grpo`; only `variant`, `reward`, `judge`,
`embedder`, `conversation` and `group` are read. The file is named by the caller or by the environment variable
COMPEER_REWARD, because most trainers make their reward functions without arguments. A process opens it once.

**Prompts.** `rows` are what GRPO here would ask (`policy.prompts`), in the form that ms-swift and verl share: text with
an `<image>` for each picture, and the pictures' paths in a list beside it. An environment takes those of `compeer cer
export --format trl-grpo` (`read_tasks`).

**Conversations** (`Support`). Without `conversation` in the configuration an episode is one output; with it the
simulated seeker of `policy.seeker` answers, and the reward is that of whole conversations (`policy.multi_turn`).

**Groups** (`Meeting`). Equation 5 compares the outputs of one group, so a group must be complete before any of its
members has a reward. Where a trainer hands over a whole group, `Support.score` takes it. Where it hands over one output
at a time, the members wait for one another.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from compeer.config import read_yaml
from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.models.embedding import Embedder
from compeer.models.request import parts_of
from compeer.policy.composite import CompositeReward, Scored, read_record
from compeer.policy.grpo.arguments import find_start
from compeer.policy.grpo.config import GrpoConfig, config_of
from compeer.policy.multi_turn import Exchange, Talk, TalkReward, exchange
from compeer.policy.prompts import encoded
from compeer.policy.seeker import SAGE, Seeker
from compeer.reasoning.ontology import Language

#: seconds that the first of a group waits for the last; then those that came are scored without the rest
PATIENCE = 600.0
PLACE = "<image>"
Guest = TypeVar("Guest")
Row = TypeVar("Row")


VARIABLE = "COMPEER_REWARD"
_READ = ("variant", "reward", "judge", "embedder", "conversation", "group")


def reward_file(path: str | None = None) -> str:
    """The path of this configuration, or of the one that COMPEER_REWARD names."""
    name = path or os.environ.get(VARIABLE)
    if not name:
        raise UserError(f"No reward is named: set {VARIABLE} to a configuration of compeer policy grpo.")
    return str(Path(name).resolve())


def opened(path: str | None = None) -> CompositeReward:
    """The reward of this file, or of the one that COMPEER_REWARD names; the same object every time."""
    return _opened(reward_file(path))


def read(path: str) -> GrpoConfig:
    """The settings of a configuration that concern the reward; the others are left empty."""
    values = read_yaml(path)
    kept = {name: values[name] for name in _READ if values.get(name) is not None}
    return config_of({"out": "-", "model": "-", "data": ["-"], **kept}, path)


@functools.cache
def _opened(path: str) -> CompositeReward:
    config = read(path)
    judge = config.judge.client() if config.judge and config.reward.source != "rules" else None
    return CompositeReward(judge, Embedder(config.embedder), config.reward)


def rows(config: GrpoConfig) -> Iterator[dict[str, Any]]:
    """The prompts of a GRPO configuration, shortened as they are there: `messages`, `images` and `prompt_record`."""
    from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
    from compeer.policy.prompts import fitting
    from compeer.policy.sft import items_of

    words = ChatTokenizer(*open_tokenizer(find_start(config).base))
    for one in fitting(items_of(config.data), words, config)[0]:
        messages, images = placed(one.messages)
        yield {"messages": messages, "images": images, "prompt_record": encoded(one.prompt_record)}


def placed(messages: list[dict[str, Any]]) -> tuple[list[dict[str, str]], list[str]]:
    """Messages as text with `<image>` for each picture, and the paths of the pictures.

    >>> parts = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "<image>?"}]
    >>> placed([{"role": "user", "content": parts}])
    ([{'role': 'user', 'content': '<image>< image>?'}], ['a.png'])
    """
    made, images = [], []
    for message in messages:
        parts = parts_of(message)
        images += [part["path"] for part in parts if part["type"] == "image"]
        text = "".join(PLACE if part["type"] == "image" else part["text"].replace(PLACE, "< image>") for part in parts)
        made.append({"role": message["role"], "content": text})
    return made, images


class Task(msgspec.Struct, frozen=True):
    """One prompt, as `compeer cer export --format trl-grpo` writes it."""

    prompt: list[dict[str, Any]]
    prompt_record: str


def read_tasks(path: str) -> list[Task]:
    """The prompts of a file. UserError when there are none."""
    found = list(read_rows(path, Task))
    if not found:
        raise UserError(f"{path} holds no prompts. Make it with compeer cer export --format trl-grpo.")
    return found


class Support:
    """The seeker and the reward of one configuration, and the prompts of a file, if one is given.

    The sentence embedders for `languages`, by default those of the prompts, are opened at once; others when needed.
    """

    def __init__(
        self, config: str | None = None, prompts: str | None = None, *, languages: Sequence[Language] = ()
    ) -> None:
        settings = read(reward_file(config))
        self.reward, self.group = opened(config), settings.group
        self.tasks = read_tasks(prompts) if prompts else []
        if self.reward.settings.reweight:
            # at once and in this thread: a model that is loaded in another one may wait for a lock of tqdm for ever
            spoken = {read_record(one.prompt_record).language for one in self.tasks}
            self.reward.embedder.open(languages or sorted(spoken))
        self.seeker: Seeker | None = None
        self.turns, self.rules = 1, SAGE
        self._talks: TalkReward | None = None
        if talks := settings.conversation:
            self.seeker = talks.open_seeker()
            self.turns, self.rules = talks.talks.turns, talks.settings.rules
            self._talks = TalkReward(self.reward, talks.weights, self.rules)

    def begin(self, prompt_record: str) -> Talk:
        """The conversation that this prompt begins."""
        record = read_record(prompt_record)
        return Talk(language=record.language, history=list(record.history), mood=self.rules.start)

    async def answer(self, talk: Talk, output: str, seed: int | None = None) -> str | None:
        """Add the supporter's output. What the seeker says to it; None when the conversation is over."""
        await exchange(talk, output, self.seeker, self.turns, seed=seed)
        return talk.said()[-1].text if talk.end is None else None

    def score(self, prompt_record: str, talks: Sequence[Talk]) -> list[dict[str, float]]:
        """The reward of every member of a group, as `score`, with further numbers. Waits for the judge."""
        for talk in talks:
            if not talk.exchanges:  # whoever said nothing has given an empty output
                talk.exchanges, talk.end = [Exchange("")], "incomplete"
        outputs = [talk.exchanges[0].output for talk in talks]
        if self._talks is None:
            return [reward_numbers(row) for row in self.reward.score([(read_record(prompt_record), outputs)])]
        written = [msgspec.json.encode(talk).decode() for talk in talks]
        rewards = self._talks(None, outputs, [prompt_record] * len(talks), written)
        return [
            {"score": reward, "mood": talk.mood, "turns": float(len(talk.exchanges))}
            for reward, talk in zip(rewards, talks, strict=True)
        ]

    async def close(self) -> None:
        """Close what the seeker has opened. The reward stays open: a process opens it once."""
        if self.seeker is not None:
            await self.seeker.model.close()


def reward_numbers(row: Scored) -> dict[str, float]:
    """The reward as `score`, and what went into it. All rows have the same names, because trainers make arrays of them
    and log their means."""
    return {
        "score": row.reward,
        "total": row.total,
        "s_in": row.s_in,
        "s_hi": row.s_hi,
        "tau": row.tau,
        "complete": float(row.complete),
        "judged": float(row.failure is None),
    }


class Meeting(Generic[Guest, Row]):
    """Collects the members of groups. When a group is complete, `score` gets its name and its members."""

    def __init__(self, score: Callable[[str, list[Guest]], list[Row]], patience: float = PATIENCE) -> None:
        self.score, self.patience = score, patience
        self.incomplete = 0  # groups that were scored without all of their members
        self._tables: dict[str, _Table[Guest, Row]] = {}  # those that are waited for

    @property
    def waiting(self) -> int:
        """Number of members that wait for the rest of their groups."""
        return sum(len(table.guests) for table in self._tables.values())

    async def join(self, name: str, size: int, guest: Guest) -> Row:
        """This member's row, once its group is complete or `patience` seconds have passed."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table()
            table.rows = asyncio.create_task(self._scored(name, table))
        place = len(table.guests)
        table.guests.append(guest)
        if len(table.guests) >= size:  # who comes now begins another group
            self._tables.pop(name).complete.set()
        return (await asyncio.shield(table.rows))[place]  # who leaves does not take the others' rows along

    async def _scored(self, name: str, table: _Table[Guest, Row]) -> list[Row]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await table.complete.wait()
        if not table.complete.is_set():
            del self._tables[name]
            self.incomplete += 1
        return await asyncio.to_thread(self.score, name, table.guests)  # that takes a while


class _Table(Generic[Guest, Row]):
    """One group: who has come, and the task that scores them."""

    rows: asyncio.Task[list[Row]]

    def __init__(self) -> None:
        self.guests: list[Guest] = []
        self.complete = asyncio.Event()
