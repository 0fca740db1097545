"""The environment for TRL's `environment_factory` (1.16): a client of `compeer.policy.bridges.server`.

TRL makes one environment per output, shows its public methods to the model as tools, and plays the conversation itself.
Here the tool is `say`: the model passes a whole output, reasoning and reply, and gets the seeker's words back. So the
model needs a chat template with tools. The reward is not the environment's own `get_reward`, which TRL asks for one
output at a time: it is a reward function, which sees all environments of a batch, so that groups meet.

    trainer = GRPOTrainer(
        model, reward_funcs=group_reward, args=GRPOConfig(num_generations=4, …), train_dataset=…,  # trl-grpo
        environment_factory=SupportEnvironment.at("http://127.0.0.1:8030", group=4),
    )
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import aiohttp

from compeer.errors import UserError
from compeer.policy.composite import text_of
from compeer.reward.background_loop import BackgroundLoop

_PROCESS = uuid.uuid4().hex  # groups of two processes never meet
_background = BackgroundLoop("environment")


class SupportEnvironment:
    """One conversation. Names that begin with an underscore are no tools."""

    _groups: ClassVar[Counter[str]] = Counter()  # how often each prompt was begun in this process

    def __init__(self, url: str, group: int, timeout: float = 660.0) -> None:
        self._url, self._group, self._timeout = url, group, timeout
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._over = self._said = False

    @classmethod
    def at(cls, url: str, group: int) -> Callable[[], SupportEnvironment]:
        """What `environment_factory` takes; `group` is num_generations."""
        return lambda: cls(url, group)

    def reset(self, prompt_record: str = "", **row: Any) -> None:
        """Begin the conversation of a row; the prompt is complete, so nothing is added to it."""
        if not prompt_record:
            raise UserError("A row has no prompt_record. Make the dataset with compeer cer export --format trl-grpo.")
        number = self._groups[prompt_record] // self._group
        self._groups[prompt_record] += 1
        self._ask(
            "reset",
            {
                "prompt_record": prompt_record,
                "size": self._group,
                "wait": False,
                "group": f"{_PROCESS}/{number}/{prompt_record}",
            },
        )
        self._over = self._said = False

    def say(self, output: str) -> str:
        """Say something to the person, and hear what they answer.

        Args:
            output: The three steps of thinking in <think> tags, then the words for the person.

        Returns:
            The person's words, or a note that the conversation is over.
        """
        if self._over:
            return "The conversation is over."
        self._said = True
        answer = self._ask("step", {"output": output})
        self._over = answer["done"]
        return "The conversation is over." if self._over else str(answer["observation"]["said"])

    def _finish(self, text: str) -> float:
        """The reward of the conversation, once its group is complete."""
        if not self._over and not self._said:
            self.say(text)  # a model that did not call the tool has answered all the same
        if not self._over:
            self._ask("step", {"leave": True})
            self._over = True
        return float(self._ask("state", {"wait": True})["reward"])

    def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return _background.submit(self._sent(kind, data)).result(self._timeout)

    async def _sent(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        if self._socket is None or self._socket.closed:
            key = os.environ.get("COMPEER_API_KEY")
            self._http = aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"} if key else None)
            self._socket = await self._http.ws_connect(f"{self._url.rstrip('/')}/ws", max_msg_size=0)
        await self._socket.send_json({"type": kind, "data": data})
        answer = await self._socket.receive_json(timeout=self._timeout)
        if answer["type"] == "error":
            raise UserError(f"{self._url}: {answer['data']['message']}")
        found: dict[str, Any] = answer["data"]
        return found


def group_reward(environments: Sequence[SupportEnvironment], completions: Sequence[Any], **columns: Any) -> list[float]:
    """TRL's reward function: ends every conversation, then asks for the rewards of whole groups."""
    texts = [text_of(one) for one in completions]
    with ThreadPoolExecutor(max_workers=max(1, len(texts))) as pool:  # members of a group wait for one another
        return list(pool.map(SupportEnvironment._finish, environments, texts))
