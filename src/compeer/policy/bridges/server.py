"""The environment over HTTP, for clients of OpenEnv and for OpenRLHF: `python -m compeer.policy.bridges.server`.

    GET  /ws                      a session of OpenEnv: one conversation at a time (WebSocket)
    GET  /health, /metadata, /schema        what OpenEnv's tools ask first
    POST /get_reward              OpenRLHF's remote reward: {"query": […], "prompts": […], "labels": […]}

The protocol of OpenEnv's sessions is spoken here (read against 0.10.0) instead of importing its server, which needs
gradio and fastmcp and does not install beside the versions that this project is tested with. A message is {"type": …,
"data": …}: `reset`, `step`, `state` or `close`.

A **group** is named when a session is reset: {"group": "step 3, prompt 7", "size": 4}. Sessions of one group may be on
several connections and in several processes. Without a name it is the prompt, without a size the `group` of the
configuration. The last step of a conversation answers once the whole group has ended. A client that plays one
conversation after another resets with {"wait": false}: the last step answers at once, without a reward, and `state`
holds the reward as soon as the group is complete; {"type": "state", "data": {"wait": true}} answers then.

OpenRLHF sends one output at a time, with the `prompt_record` as its label. Outputs with one label wait for one another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from compeer import __version__
from compeer.errors import UserError
from compeer.http_service import (
    Handler,
    has_json_body,
    has_key,
    json_response,
    require_key_if_exposed,
    run_until_stopped,
)
from compeer.policy.bridges.environment import PATIENCE, Meeting, Support
from compeer.policy.multi_turn import Talk
from compeer.typed import from_json, from_plain

#: markers that a tokenizer leaves at the end of a decoded output
_ENDINGS = re.compile(r"(?:\s*(?:<\|[a-z_]+\|>|</s>|<eos>|<end_of_turn>))+\s*$")


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversation begins: a prompt of the server's file by its index, or one that the client brings."""

    index: int | None = None
    prompt_record: str | None = None
    group: str | None = None
    size: int | None = None
    wait: bool = True
    seed: int | None = None
    episode_id: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One whole output of the supporter, reasoning and reply; `leave` ends the conversation where it stands."""

    output: str = ""
    leave: bool = False
    metadata: dict[str, Any] = {}


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What the supporter sees: the prompt at first, then what the seeker says."""

    messages: list[dict[str, Any]] = []
    prompt_record: str = ""
    said: str = ""
    end: str = ""
    metadata: dict[str, Any] = {}


class SessionState(msgspec.Struct, kw_only=True):
    """The state of a session. `reward` is set once its group is complete."""

    episode_id: str | None = None
    step_count: int = 0
    group: str = ""
    size: int = 0
    mood: float = 0.0
    end: str = ""
    reward: float | None = None
    parts: dict[str, float] = {}


Members = Meeting[tuple[str, Talk], dict[str, float]]


class Session:
    """One client's conversation."""

    def __init__(self, support: Support, meeting: Members) -> None:
        self.support, self.meeting = support, meeting
        self.state = SessionState()
        self._talk: Talk | None = None
        self._record, self._reset = "", Reset()
        self._count = 0
        self._waiting: asyncio.Task[dict[str, float]] | None = None

    def reset(self, data: dict[str, Any]) -> dict[str, Any]:
        """Begin a conversation."""
        reset = from_plain(data, Reset)
        messages: list[dict[str, Any]] = []
        if (record := reset.prompt_record) is None:
            if not (tasks := self.support.tasks):
                raise UserError("The server was started without prompts; reset with a prompt_record.")
            number = reset.index if reset.index is not None else reset.seed if reset.seed is not None else self._count
            record, messages = tasks[number % len(tasks)].prompt_record, tasks[number % len(tasks)].prompt
        self._talk, self._record, self._reset = self.support.begin(record), record, reset
        self._count, self._waiting = self._count + 1, None
        size = self.support.group if reset.size is None else reset.size
        self.state = SessionState(
            episode_id=reset.episode_id, group=reset.group or record, size=max(1, size), mood=self._talk.mood
        )
        said = self._talk.history[-1].text if self._talk.history else ""
        return _answer(Observation(messages=messages, prompt_record=record, said=said))

    async def step(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add one output, and return the observation that follows."""
        talk, action = self._talk, from_plain(data, Action)
        if talk is None or self._waiting is not None:
            raise UserError("There is no conversation to answer in; reset begins one.")
        said = None
        if action.leave:
            talk.end = talk.end or "turns"
        else:
            seed = None if self._reset.seed is None else self._reset.seed + self.state.step_count
            said = await self.support.answer(talk, action.output, seed)
        self.state.step_count, self.state.mood, self.state.end = self.state.step_count + 1, talk.mood, talk.end or ""
        if said is not None:
            return _answer(Observation(said=said))
        self._waiting = asyncio.create_task(self._scored(self.state, talk))
        if not self._reset.wait:
            return _answer(Observation(end=self.state.end), done=True)
        found = await self._waiting
        return _answer(Observation(end=self.state.end, metadata={"parts": found}), found["score"], done=True)

    async def _scored(self, state: SessionState, talk: Talk) -> dict[str, float]:
        state.parts = await self.meeting.join(state.group, state.size, (self._record, talk))
        state.reward = state.parts["score"]
        return state.parts

    async def current_state(self, wait: bool = False) -> dict[str, Any]:
        """The state as plain values; with `wait`, once the reward is known. Raises what scoring the group raised."""
        if self._waiting is not None and (wait or self._waiting.done()):
            await asyncio.shield(self._waiting)
        return dict(msgspec.to_builtins(self.state))


def _answer(observation: Observation, reward: float | None = None, done: bool = False) -> dict[str, Any]:
    return {"observation": msgspec.to_builtins(observation), "reward": reward, "done": done}


def meeting_of(support: Support, patience: float = PATIENCE) -> Members:
    """Where the conversations of a group meet, all of which must have the same prompt."""

    def score(name: str, members: list[tuple[str, Talk]]) -> list[dict[str, float]]:
        if len({record for record, _ in members}) > 1:
            raise UserError(f"The group {name[:80]!r} has conversations with different prompts; name groups apart.")
        return support.score(members[0][0], [talk for _, talk in members])

    return Meeting(score, patience)


class RewardRequest(msgspec.Struct, frozen=True):
    """What OpenRLHF posts: prompts with their outputs, the prompts, and the labels of the dataset."""

    query: list[str]
    prompts: list[str]
    labels: list[str]


def output_of(query: str, prompt: str) -> str:
    """The output in a text that begins with its prompt, without the end markers of a tokenizer.

    >>> output_of("<|user|>Hi<|assistant|>Hello.<|im_end|>", "<|user|>Hi<|assistant|>")
    'Hello.'
    """
    if not query.startswith(prompt):
        raise UserError("A query does not begin with its prompt, so its output cannot be told apart.")
    return _ENDINGS.sub("", query[len(prompt) :])


def application(support: Support, keys: Sequence[str] = (), patience: float = PATIENCE) -> web.Application:
    """The service: routes, keys, and errors that name what was wrong."""
    meeting = meeting_of(support, patience)
    waiting: set[web.WebSocketResponse] = set()

    async def session(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=30, max_msg_size=100 * 2**20)
        await socket.prepare(request)
        waiting.add(socket)
        messages: asyncio.Queue[str] = asyncio.Queue()
        working = asyncio.create_task(_answered(Session(support, meeting), messages, socket))
        try:  # read on while a step waits for its group: whoever does not read does not answer pings either
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    messages.put_nowait(message.data)
        finally:
            waiting.discard(socket)
            working.cancel()
            await socket.close()
        return socket

    async def get_reward(request: web.Request) -> web.Response:
        body = from_json(await request.read(), RewardRequest)
        if not len(body.query) == len(body.prompts) == len(body.labels):
            raise UserError("query, prompts and labels differ in length.")
        talks = [support.begin(label) for label in body.labels]
        for talk, query, prompt in zip(talks, body.query, body.prompts, strict=True):
            talk.answered(output_of(query, prompt), ended=True)
        rows = await asyncio.gather(
            *(meeting.join(label, support.group, (label, talk)) for label, talk in zip(body.labels, talks, strict=True))
        )
        scores = [row["score"] for row in rows]
        logs = {name: [row[name] for row in rows] for name in rows[0] if name != "score"} if rows else {}
        return json_response({"rewards": scores, "scores": scores, "extra_logs": logs})

    async def health(request: web.Request) -> web.Response:
        return json_response({"status": "healthy", "waiting": meeting.waiting})

    async def metadata(request: web.Request) -> web.Response:
        about = "Peer support: a seeker who reacts, a judge of reasoning and reply, redundancy over the group."
        return json_response({"name": "compeer", "description": about, "version": __version__})

    async def schema(request: web.Request) -> web.Response:
        kinds = {"action": Action, "observation": Observation, "state": SessionState}
        return json_response({name: msgspec.json.schema(kind) for name, kind in kinds.items()})

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not has_key(request, keys):
            return json_response({"error": {"message": "The key is missing or wrong."}}, 401)
        if not has_json_body(request):
            return json_response({"error": {"message": "Send the body as application/json."}}, 415)
        try:
            return await handler(request)
        except (UserError, msgspec.MsgspecError) as error:
            return json_response({"error": {"message": str(error)}}, 400)

    async def leave(app: web.Application) -> None:
        for socket in set(waiting):
            await socket.close(code=1001, message=b"the server stops")

    made = web.Application(middlewares=[guard], client_max_size=64 * 2**20)
    made.router.add_get("/ws", session)
    made.router.add_post("/get_reward", get_reward)
    for path, handler in (("/health", health), ("/metadata", metadata), ("/schema", schema)):
        made.router.add_get(path, handler)
    made.on_shutdown.append(leave)
    return made


async def _answered(session: Session, messages: asyncio.Queue[str], socket: web.WebSocketResponse) -> None:
    """Answer the messages of one session, one after another."""
    while (answer := await _reply(session, await messages.get())) is not None:
        await socket.send_str(answer)
    await socket.close()


async def _reply(session: Session, text: str) -> str | None:
    """The answer to one message of a session; None when the client closes it."""
    try:
        message = from_json(text, dict[str, Any])
        kind, data = message.get("type"), message.get("data") or {}
        if kind == "close":
            return None
        if kind == "reset":
            answer = {"type": "observation", "data": session.reset(data)}
        elif kind == "step":
            answer = {"type": "observation", "data": await session.step(data)}
        elif kind == "state":
            answer = {"type": "state", "data": await session.current_state(bool(data.get("wait")))}
        else:
            answer = _error("UNKNOWN_TYPE", f"Unknown message type: {kind}")
    except msgspec.DecodeError as error:
        answer = _error(
            "VALIDATION_ERROR" if isinstance(error, msgspec.ValidationError) else "INVALID_JSON", str(error)
        )
    except Exception as error:  # the session goes on; the client hears why
        answer = _error("EXECUTION_ERROR", str(error))
    return msgspec.json.encode(answer).decode()


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message}}


async def serve(support: Support, host: str, port: int, keys: Sequence[str], patience: float) -> None:
    """Serve until SIGTERM or Ctrl-C."""

    async def load() -> str:
        return f"{len(support.tasks):,} prompts, groups of {support.group}, {support.turns} turns"

    made = application(support, keys, patience)
    await run_until_stopped(made, host, port, load=load, finish=support.close)


def main(words: Sequence[str]) -> None:
    """CONFIG [PROMPTS]: serve the environment of a GRPO configuration; the key is COMPEER_API_KEY."""
    options = argparse.ArgumentParser(prog="python -m compeer.policy.bridges.server", description=main.__doc__)
    options.add_argument("config", help="a configuration of compeer policy grpo")
    options.add_argument("prompts", nargs="?", help="prompts, from compeer cer export --format trl-grpo")
    options.add_argument("--languages", default="en", help="of the prompts that clients bring: en, zh or en,zh")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8030)
    options.add_argument(
        "--patience", type=float, default=PATIENCE, help="seconds that a group waits for its last member"
    )
    given = options.parse_args(words)
    keys = [key for key in [os.environ.get("COMPEER_API_KEY", "")] if key]
    try:
        require_key_if_exposed(given.host, keys, "COMPEER_API_KEY")
        named = [] if given.prompts else given.languages.split(",")
        support = Support(given.config, given.prompts, languages=named)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(support, given.host, given.port, keys, given.patience))
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
