"""Pictures in a request: data URLs outside, files in memory inside.

Models take pictures as files. A conversation is never written to disk, so the files lie in shared memory where the
system has it, in a folder that only this user can open and that is gone with the answer. No address is fetched and no
file is opened because a request names it.

From a client's messages to one request for a reasoned turn.

The contract's instructions come first; what a client gives as system message follows them. Past reasoning is left out,
as in training: a `<think>` block in an old reply is removed. Old turns are left out where the conversation outgrows
what a model reads, and the answer says how many. Several messages of one person in a row become one.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.conversation.wire import ChatRequest, Message, Refused, Settings, Wishes, bad
from compeer.models import Request, request_for
from compeer.reasoning import LABELS, STEPS, Control, ControlError, Pins, parse
from compeer.reasoning.ontology import Language, detect, words

_DATA = re.compile(r"data:image/([a-z+]+);base64,", re.IGNORECASE)
#: how the files of each kind begin
_BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    ".png": (b"\x89PNG\r\n\x1a\n",),
    ".jpg": (b"\xff\xd8\xff",),
    ".gif": (b"GIF87a", b"GIF89a"),
    ".webp": (b"RIFF",),
    ".bmp": (b"BM",),
}
_MEMORY = Path("/dev/shm")


class Album:
    """The pictures of one request. Close it when the answer is written."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def add(self, url: object, param: str) -> str:
        """The path of the picture in a data URL."""
        head = _DATA.match(url) if isinstance(url, str) else None
        if head is None or not isinstance(url, str):
            raise bad("A picture is sent inside the request, as data:image/png;base64,…; none is fetched.", param)
        try:
            data = base64.b64decode(url[head.end() :], validate=True)
        except (binascii.Error, ValueError):
            raise bad("The picture's data is no base64.", param) from None
        suffix = next((name for name, begins in _BEGINNINGS.items() if data.startswith(begins)), None)
        if suffix is None:
            raise bad("The picture is no PNG, JPEG, GIF, WebP or BMP.", param)
        if self._folder is None:
            place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
            self._folder = tempfile.TemporaryDirectory(prefix="compeer-", dir=place)
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}{suffix}"
        path.write_bytes(data)
        return str(path)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
Content = str | list[dict[str, Any]]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One turn to be written, and how it is to be told."""

    request: Request
    control: Control
    language: Language
    said: tuple[str, ...]  # everything the person has said, oldest first
    replied: tuple[str, ...]  # what they were answered
    stops: tuple[str, ...]
    stream: bool
    usage: bool  # in the stream
    show: bool  # the thinking
    country: str | None
    dropped: int  # turns that were left out
    ignored: tuple[str, ...]  # fields that were


def asked(
    chat: ChatRequest, settings: Settings, album: Album, sees: bool, cleaned: Callable[[str], str] = str
) -> Asked:
    """Read a request; Refused says what is wrong with it. `cleaned` takes what we added ourselves off an old reply."""
    wishes = chat.compeer or Wishes()
    system, turns = _conversation(chat.messages, settings, album, sees, cleaned)
    said = tuple(_text(content) for role, content in turns if role == "user")
    language = wishes.language or detect(next((text for text in reversed(said) if words(text)), said[-1]))
    control = _control(wishes)
    kept = _kept(turns, settings.history)
    request = request_for(
        [{"role": role, "content": content} for role, content in kept],
        language,
        control,
        length=settings.prompt,
        max_tokens=min(settings.most_tokens, chat.max_completion_tokens or chat.max_tokens or settings.most_tokens),
        temperature=settings.temperature if chat.temperature is None else chat.temperature,
        top_p=settings.top_p if chat.top_p is None else chat.top_p,
        penalty=settings.penalty if chat.repetition_penalty is None else chat.repetition_penalty,
        seed=None if chat.seed is None else chat.seed % 2**31,
    )
    if system:
        first, *rest = request.messages
        told = {**first, "content": "\n\n".join([str(first["content"]), *system])}
        request = msgspec.structs.replace(request, messages=[told, *rest])
    stops = (chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ())
    return Asked(
        request=request,
        control=control,
        language=language,
        said=said,
        replied=tuple(_text(content) for role, content in turns if role == "assistant"),
        stops=stops,
        stream=bool(chat.stream),
        usage=bool(chat.stream_options and chat.stream_options.include_usage),
        show=wishes.show,
        country=wishes.country or settings.country,
        dropped=sum(role == "user" for role, _ in turns) - sum(role == "user" for role, _ in kept),
        ignored=tuple(chat.ignored),
    )


def _conversation(
    messages: Sequence[Message], settings: Settings, album: Album, sees: bool, cleaned: Callable[[str], str]
) -> tuple[list[str], list[tuple[str, Content]]]:
    """System texts, and turns that alternate, ending with the person's."""
    if len(messages) > settings.most_messages:
        raise Refused(413, f"{len(messages)} messages; at most {settings.most_messages} are read.", param="messages")
    system: list[str] = []
    turns: list[tuple[str, Content]] = []
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        role = _ROLES.get(message.role)
        if role is None:
            raise bad(f"A message is of system, user or assistant, not of {message.role[:40]!r}.", f"{place}.role")
        content = _content(message, album, sees, place)
        if role == "assistant":
            content = cleaned(parse(_text(content)).response)
        if not content:
            continue
        if role == "system":
            system.append(_text(content))
        elif turns and turns[-1][0] == role:
            turns[-1] = (role, _joined(turns[-1][1], content))
        elif turns or role == "user":  # a greeting before the first word of the person is left out
            turns.append((role, content))
    if not turns or turns[-1][0] != "user":
        raise bad("The last message must be the person's, with some text in it.", "messages")
    return system, turns


def _content(message: Message, album: Album, sees: bool, place: str) -> Content:
    if message.content is None or isinstance(message.content, str):
        return (message.content or "").strip()
    parts: list[dict[str, Any]] = []
    for number, part in enumerate(message.content):
        where = f"{place}.content[{number}]"
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif part.get("type") == "image_url":
            if message.role != "user":
                raise bad("Pictures belong into the person's messages.", where)
            if not sees:
                raise bad(
                    "This model cannot see pictures; leave them out, or serve a vision model.", where, "no_vision"
                )
            picture = part.get("image_url")
            parts.append({"type": "image", "path": album.add(_url(picture), where)})
        else:
            raise bad(f"A part of a message is text or image_url, not {str(part.get('type'))[:40]!r}.", where)
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts).strip()
    return parts


def _url(picture: object) -> object:
    return picture.get("url") if isinstance(picture, dict) else picture


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


def _joined(before: Content, after: Content) -> Content:
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}\n{after}"
    both = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in (before, after)]
    return [*both[0], *both[1]]


def _kept(turns: list[tuple[str, Content]], budget: int) -> list[tuple[str, Content]]:
    """The last message, and as many of the latest turns before it as the budget of words allows, the person's first."""
    left = budget - len(words(_text(turns[-1][1])))
    first = len(turns) - 1
    for place in range(len(turns) - 3, -1, -2):
        left -= len(words(_text(turns[place][1]))) + len(words(_text(turns[place + 1][1])))
        if left < 0:
            break
        first = place
    return turns[first:]


def _control(wishes: Wishes) -> Control:
    """Pins and given steps. A step may be the object of an earlier answer, its labels then count as pins."""
    given: dict[str, str] = {}
    pins: dict[str, str | int] = {}
    for step, value in wishes.steps.items():
        if step not in STEPS:
            raise bad(f"There is no step {step[:40]!r}; the steps are {', '.join(STEPS)}.", "compeer.steps")
        fields = {"text": value} if isinstance(value, str) else value
        for name, entry in fields.items():
            if name == "text" and isinstance(entry, str):
                given[step] = entry
            elif name in LABELS[step] and isinstance(entry, str | int):
                pins[name] = entry
            elif entry is not None:
                known = ", ".join(("text", *LABELS[step]))
                raise bad(f"The step {step} has {known}; {name[:40]!r} cannot be read.", f"compeer.steps.{step}")
    try:
        # what an earlier answer concluded stands even where its sentiment and emotion do not fit; pins must
        kept = {name: value for label in pins for name, value in Pins.of({label: pins[label]}).items()}
        return Control(Pins(**(kept | dict(Pins.of(wishes.pin).items()))), given)  # type: ignore[arg-type]
    except ControlError as problem:
        raise bad(f"The control cannot be kept: {problem}", "compeer") from None
