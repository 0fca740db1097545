"""The environment for verifiers: `vf-eval compeer-esc` (written for verifiers.v1 of 0.4.0).

verifiers' own groups are independent episodes, which equation 5 cannot use. Here an **episode is a group**: its agent
`supporter` plays the same prompt `group` times, and `finalize` scores all of them together and records each reward on
its own trace. So set the group with `--env.group`, and leave `-r`, the number of episodes per prompt, at 1.

The supporter runs in verifiers' harness `null` in a plain subprocess: it only writes. With `conversation` in the
configuration the seeker of `policy.seeker` is the user of the exchange; it belongs to the environment and is no agent,
so nothing of it is trained. What it felt and said is in `trace.info["talk"]`.

    COMPEER_REWARD=reward.yaml vf-eval compeer-esc --env.taskset.prompts prompts.jsonl -m MODEL …
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import verifiers.v1 as vf
from pydantic import Field

from compeer.policy.bridges.environment import Support, read_tasks
from compeer.policy.multi_turn import Talk
from compeer.typed import from_plain

__all__ = ["SupportEnv", "SupportTaskset"]


class SupportData(vf.TaskData):  # type: ignore[misc]
    """A prompt with the record that the reward needs."""

    prompt_record: str = ""


class SupportTask(vf.Task[SupportData]):  # type: ignore[misc]
    """A prompt. It has no rewards of its own: they are the group's."""


class SupportTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    prompts: str = ""
    """Prompts, from `compeer cer export --format trl-grpo`."""


class SupportTaskset(vf.Taskset[SupportTask, SupportTasksetConfig]):  # type: ignore[misc]
    """The prompts of a file."""

    def load(self) -> Iterator[SupportTask]:
        for task in read_tasks(self.config.prompts):
            system = [message["content"] for message in task.prompt if message["role"] == "system"]
            yield SupportTask(
                SupportData(
                    prompt=[message for message in task.prompt if message["role"] != "system"],
                    system_prompt="\n\n".join(system) or None,
                    prompt_record=task.prompt_record,
                ),
                self.config.task,
            )


class SupportEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    supporter: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())
    """The policy."""
    group: int = Field(4, ge=1)
    """Outputs to one prompt, scored together by equation 5."""
    reward: str | None = None
    """Configuration of `compeer policy grpo` (default: the one that COMPEER_REWARD names)."""


class SupportEnv(vf.Env[SupportEnvConfig]):  # type: ignore[misc]
    """A group of conversations with one seeker, scored together."""

    async def start(self) -> None:
        self.support = Support(self.config.reward, self.config.taskset.prompts)

    async def stop(self) -> None:
        if support := getattr(self, "support", None):
            await support.close()

    async def run(self, task: SupportTask, agents: vf.Agents) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self.config.group):
                group.create_task(self._talk(task, agents))

    async def _talk(self, task: SupportTask, agents: vf.Agents) -> None:
        talk = self.support.begin(task.data.prompt_record)
        async with agents.supporter.interaction(task) as held:
            segment = await held.turn()
            while not segment.terminated:
                said = await self.support.answer(talk, segment.last_reply)
                if said is None:
                    break
                segment = await held.turn(said)
            talk.end = talk.end or "turns"
            held.trace.info["talk"] = msgspec.to_builtins(talk)

    async def finalize(self, task: SupportTask, episode: vf.Episode) -> None:
        """Equation 5 over the episode. Where a supporter could not be asked there is no group, and no reward."""
        failed = [trace for trace in episode.traces if not trace.ok or "talk" not in trace.info]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(episode.traces)} supporters failed; a group needs all of them.")
        talks = [from_plain(trace.info["talk"], Talk) for trace in episode.traces]
        found = await asyncio.to_thread(self.support.score, task.data.prompt_record, talks)
        for trace, parts in zip(episode.traces, found, strict=True):
            trace.record_reward("empathy", parts["score"])
            trace.record_metrics({name: value for name, value in parts.items() if name != "score"})
