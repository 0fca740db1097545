"""Conversations for trainers that sample outputs themselves: prompts, the seeker, and the reward of a whole group.

Every trainer has its own idea of an environment, and the same three things are behind all of ours (`Support`): prompts
from `compeer cer export --format trl-grpo`, the simulated seeker of `policy.seeker`, and the reward of a configuration
of `compeer policy grpo`. Without `conversation` in that file an episode is one output; with it the seeker answers, and
the reward is that of whole conversations (`policy.multi_turn`).

Equation 5 compares the outputs of one group, so a group must be complete before any of its members has a reward. Where
a trainer hands over a whole group, `Support.score` takes it. Where it hands over one output at a time, the members wait
for one another (`Meeting`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.policy.bridges.files import opened, read, reward_file
from compeer.policy.composite import Scored, read_record
from compeer.policy.multi_turn import Exchange, Talk, TalkReward
from compeer.policy.seeker import SAGE, Seeker
from compeer.reasoning.ontology import Language

#: seconds that the first of a group waits for the last; then those that came are scored without the rest
PATIENCE = 600.0
Guest = TypeVar("Guest")
Row = TypeVar("Row")


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
    """The seeker and the reward of one configuration, and prompts where a file of them is given.

    Sentence embedders are opened for the languages of the prompts, or for those that are named; others when needed.
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
        talk.answered(output, ended=True)
        if talk.end is None and self.seeker is not None:
            talk.reacted(await self.seeker.react(talk.said(), talk.mood, talk.language, seed), self.rules)
        if talk.end is None and len(talk.exchanges) >= self.turns:
            talk.end = "turns"
        return talk.said()[-1].text if talk.end is None else None

    def score(self, prompt_record: str, talks: Sequence[Talk]) -> list[dict[str, float]]:
        """The reward of every member of a group as `score`, with what went into it. Waits for the judge."""
        for talk in talks:
            if not talk.exchanges:  # whoever said nothing has given an empty output
                talk.exchanges, talk.end = [Exchange("")], "incomplete"
        outputs = [talk.exchanges[0].output for talk in talks]
        if self._talks is None:
            return [told(row) for row in self.reward.score([(read_record(prompt_record), outputs)])]
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


def told(row: Scored) -> dict[str, float]:
    """Numbers, the same names for every row: trainers make arrays of them and log their means."""
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
    """Where the members of a group wait until all of them are there. `score` gets the group's name and its members."""

    def __init__(self, score: Callable[[str, list[Guest]], list[Row]], patience: float = PATIENCE) -> None:
        self.score, self.patience = score, patience
        self.incomplete = 0  # groups that were scored without all of their members
        self._tables: dict[str, _Table[Guest, Row]] = {}

    @property
    def waiting(self) -> int:
        """How many members wait for the rest of their groups."""
        return sum(len(table.seats) for table in self._tables.values())

    async def join(self, name: str, size: int, guest: Guest) -> Row:
        """This member's row, once its group is complete or its patience is over."""
        loop = asyncio.get_running_loop()
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table(name, size)
            table.timer = loop.call_later(self.patience, self._rise, table)
        seat: asyncio.Future[Row] = loop.create_future()
        table.seats.append((guest, seat))
        if len(table.seats) >= size:
            self._rise(table)
        return await seat

    def _rise(self, table: _Table[Guest, Row]) -> None:
        """Nobody joins this table any more; its members are scored, elsewhere, because that takes a while."""
        if self._tables.get(table.name) is table:
            del self._tables[table.name]
            if table.timer is not None:
                table.timer.cancel()
            self.incomplete += len(table.seats) < table.size
            table.work = asyncio.get_running_loop().create_task(self._served(table))

    async def _served(self, table: _Table[Guest, Row]) -> None:
        try:
            rows = await asyncio.to_thread(self.score, table.name, [guest for guest, _ in table.seats])
        except Exception as error:  # everybody who waits must hear of it
            for _, seat in table.seats:
                if not seat.done():
                    seat.set_exception(error)
            return
        for (_, seat), row in zip(table.seats, rows, strict=True):
            if not seat.done():
                seat.set_result(row)


class _Table(Generic[Guest, Row]):
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.seats: list[tuple[Guest, asyncio.Future[Row]]] = []
        self.timer: asyncio.TimerHandle | None = None
        self.work: asyncio.Task[None] | None = None
