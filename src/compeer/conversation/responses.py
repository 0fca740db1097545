"""OpenAI's Responses API (`/v1/responses`): its requests, the conversations it continues, its answers.

A request here is `input` (a text, or a list of messages) and `instructions`; with `previous_response_id` it continues
an earlier answer. It becomes the same `ChatRequest` that /v1/chat/completions reads, so control, safety and errors are
the same. The thinking is an output item `reasoning`, the reply an output item `message`; what only this server knows is
in the response's `compeer`. While risk is high the message comes first and begins with the emergency number, and there
is no reasoning item.

Events of a stream, in order:

    response.created, response.in_progress
    per item: response.output_item.added, response.content_part.added,
              response.reasoning_text.delta … .done  or  response.output_text.delta … .done,
              response.content_part.done, response.output_item.done
    response.completed, or response.incomplete (cut at the token limit), or response.failed

Departures from OpenAI's server: conversations to continue are kept in memory only, for two hours, within a fixed number
of bytes, and only for the key that began them; `store: false` keeps nothing. Past reasoning is not read, as in
training. `reasoning_tokens` is estimated from the length of the thinking.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from compeer.conversation.replies import Delta, EventStream, ReplyEnd
from compeer.conversation.requests import (
    PROTOCOLS,
    ApiError,
    ChatMessage,
    ChatRequest,
    Tokens,
    TurnFields,
    bad_request,
    read_fields,
)
from compeer.http_service import json_response

#: how long a conversation that nobody continues is kept, and how much all of them may take
KEPT_SECONDS, KEPT_BYTES = 2 * 3600.0, 64 << 20


class ResponsesRequest(TurnFields, kw_only=True):
    """The fields of a request to /v1/responses that mean something here."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    max_output_tokens: Tokens | None = None


def read_responses_request(data: bytes) -> ResponsesRequest:
    """The request in a body; ApiError says which field is wrong."""
    return read_fields(data, ResponsesRequest, PROTOCOLS["responses"])


class KeptConversations:
    """Conversations that a client may continue by the id of their last answer, in memory."""

    def __init__(self, seconds: float = KEPT_SECONDS, most_bytes: int = KEPT_BYTES) -> None:
        self._seconds, self._most = seconds, most_bytes
        self._kept: OrderedDict[tuple[str, str], tuple[float, int, tuple[ChatMessage, ...]]] = OrderedDict()
        self._bytes = 0

    def keep(self, key: str, name: str, messages: Sequence[ChatMessage]) -> None:
        """Keep a conversation under the name of its last answer; the oldest ones make room for it."""
        size = sum(len(msgspec.json.encode(message)) for message in messages)
        self._kept[key, name] = (time.monotonic(), size, tuple(messages))
        self._bytes += size
        self._make_room()

    def find(self, key: str, name: str) -> tuple[ChatMessage, ...]:
        """The conversation up to an answer; ApiError where it is not kept, or belongs to another key."""
        self._make_room()
        if (key, name) not in self._kept:
            message = f"Previous response with id {name[:80]!r} not found. Send the conversation as `input`."
            raise bad_request(message, "previous_response_id", "previous_response_not_found")
        return self._kept[key, name][2]

    def forget(self, key: str, name: str) -> bool:
        """Delete a conversation; whether there was one."""
        found = self._kept.pop((key, name), None)
        self._bytes -= found[1] if found else 0
        return found is not None

    def _make_room(self) -> None:
        oldest = time.monotonic() - self._seconds
        while self._kept and (self._bytes > self._most or next(iter(self._kept.values()))[0] < oldest):
            self._bytes -= self._kept.popitem(last=False)[1][1]


def chat_request(asked: ResponsesRequest, earlier: Sequence[ChatMessage]) -> ChatRequest:
    """The same request as /v1/chat/completions would get it. Instructions are not part of what is kept."""
    shared = {name: getattr(asked, name) for name in TurnFields.__struct_fields__}
    told = [ChatMessage("system", asked.instructions)] if asked.instructions else []
    messages = [*told, *earlier, *input_messages(asked.input)]
    return ChatRequest(messages=messages, max_tokens=asked.max_output_tokens, **shared)


def input_messages(given: str | list[dict[str, Any]]) -> list[ChatMessage]:
    """The messages in `input`. Reasoning items of earlier answers are left out."""
    if isinstance(given, str):
        return [ChatMessage("user", given)]
    found: list[ChatMessage] = []
    for number, item in enumerate(given):
        place, kind = f"input[{number}]", item.get("type", "message")
        if kind == "reasoning":
            continue
        role, content = item.get("role"), item.get("content")
        if kind != "message" or not isinstance(role, str):
            raise bad_request(f"An item of `input` is a message with a role, not {str(kind)[:40]!r}.", place)
        if isinstance(content, list):
            content = [_part(part, f"{place}.content[{index}]") for index, part in enumerate(content)]
        elif content is not None and not isinstance(content, str):
            raise bad_request("The content of a message is a text or a list of parts.", f"{place}.content")
        found.append(ChatMessage(role, content))
    return found


def _part(part: Any, place: str) -> dict[str, Any]:
    """A part of a message, as chat completions name it."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.get("text")}
    if kind == "input_image":
        return {"type": "image_url", "image_url": part.get("image_url")}
    raise bad_request(f"A part of a message is input_text or input_image, not {str(kind)[:40]!r}.", place)


class _Item:
    """An output item that is being written: `reasoning` or `message`."""

    def __init__(self, kind: str) -> None:
        self.kind, self.id = kind, ("rs_" if kind == "reasoning" else "msg_") + secrets.token_hex(12)
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def part(self, text: str) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def as_dict(self, status: str) -> dict[str, Any]:
        content = [] if status == "in_progress" else [self.part(self.text)]
        more: dict[str, Any] = {"summary": []} if self.kind == "reasoning" else {"role": "assistant"}
        return {"id": self.id, "type": self.kind, "status": status, "content": content} | more


class ResponsesReply:
    """An answer of /v1/responses. `keep` is given its name and the reply's text at the end. `request`: the one that is
    answered by a stream; None: everything in one piece."""

    def __init__(
        self,
        asked: ResponsesRequest,
        model: str,
        keep: Callable[[str, str], None] | None,
        request: web.Request | None = None,
    ) -> None:
        self.id = "resp_" + secrets.token_hex(24)
        self._stream = None if request is None else EventStream(request, self.id)
        self._keep, self._number = keep, 0
        self._items: list[_Item] = []
        asked_for = ("instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p")
        self._fields: dict[str, Any] = {
            **PROTOCOLS["responses"].answer,
            **{name: getattr(asked, name) for name in asked_for},
            "id": self.id,
            "created_at": int(time.time()),
            "status": "in_progress",
            "incomplete_details": None,
            "model": model,
            "output": [],
            "store": asked.store is not False,
            "usage": None,
        }

    async def open(self, compeer: dict[str, Any]) -> None:
        """Begin a stream at once, with what cannot wait for the model."""
        told = self._fields | ({"compeer": compeer} if compeer else {})
        await self._event("response.created", response=told)
        await self._event("response.in_progress", response=told)

    async def send(self, delta: Delta) -> None:
        for kind, text in (("reasoning", delta.reasoning), ("message", delta.content)):
            if text:
                await self._write(kind, text)

    async def end(self, end: ReplyEnd) -> web.StreamResponse:
        if not self._number:
            await self.open({})
        status = "incomplete" if end.finish == "length" else "completed"
        await self._close_item(status)
        if self._keep is not None:
            self._keep(self.id, "".join(item.text for item in self._items if item.kind == "message"))
        whole = self._fields | {
            "status": status,
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": [item.as_dict(status if item is self._items[-1] else "completed") for item in self._items],
            "usage": self._usage(end),
            "compeer": end.compeer,
        }
        if self._stream is not None:
            await self._event(f"response.{status}", response=whole)
            return await self._stream.end()
        response = json_response(whole)
        response.headers["X-Request-Id"] = self.id
        return response

    async def fail(self, failure: ApiError) -> web.StreamResponse:
        if self._stream is None or not self._stream.begun:
            raise failure
        await self._close_item("incomplete")
        error = {"code": failure.code or "server_error", "message": str(failure)}
        output = [item.as_dict("incomplete") for item in self._items]
        told = self._fields | {"status": "failed", "error": error, "output": output}
        await self._event("response.failed", response=told)
        return await self._stream.end()

    def _usage(self, end: ReplyEnd) -> dict[str, Any] | None:
        if (usage := end.usage) is None:
            return None
        thought = sum(len(item.text) for item in self._items if item.kind == "reasoning")
        written = sum(len(item.text) for item in self._items) or 1
        return {
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": round(usage.completion * thought / written)},
            "total_tokens": usage.prompt + usage.completion,
        }

    async def _write(self, kind: str, text: str) -> None:
        if not self._number:
            await self.open({})
        if not self._items or self._items[-1].kind != kind:
            await self._close_item("completed")
            self._items.append(_Item(kind))
            await self._event("response.output_item.added", item=self._items[-1].as_dict("in_progress"))
            await self._part_event("response.content_part.added", part=self._items[-1].part(""))
        self._items[-1].texts.append(text)
        name, more = _text_event(self._items[-1])
        await self._part_event(f"{name}.delta", delta=text, **more)

    async def _close_item(self, status: str) -> None:
        if not self._items:
            return
        item = self._items[-1]
        name, more = _text_event(item)
        await self._part_event(f"{name}.done", text=item.text, **more)
        await self._part_event("response.content_part.done", part=item.part(item.text))
        await self._event("response.output_item.done", item=item.as_dict(status))

    async def _part_event(self, kind: str, **fields: Any) -> None:
        await self._event(kind, item_id=self._items[-1].id, content_index=0, **fields)

    async def _event(self, kind: str, **fields: Any) -> None:
        place = {} if "response" in fields else {"output_index": len(self._items) - 1}
        data = {"type": kind, "sequence_number": self._number} | place | fields
        self._number += 1
        if self._stream is not None:
            await self._stream.send(data, kind)


def _text_event(item: _Item) -> tuple[str, dict[str, Any]]:
    return ("response.reasoning_text", {}) if item.kind == "reasoning" else ("response.output_text", {"logprobs": []})
