"""Prefixes kept in llama.cpp's slots: a conversation is read once, also when several people talk in turn.

llama.cpp has a number of slots, each with the text that it has read last. Left to itself it gives a request the slot
whose text begins most like it. With a long instruction all conversations begin alike, so each would push another out
of its slot, and read its own history again at every turn. Here a request gets

    the slot that holds its conversation,        if one does: the request begins with what was said there;
    a slot that was never used,                  if there is one;
    the slot that was used longest ago,          else.

The instruction itself (`head`, the system message) is read once: its state is saved to a file, which holds nothing
that a person wrote, and restored into the next slot in milliseconds. The files are gone when the server closes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Iterator

import msgspec

from compeer.models.llama_server import LlamaServer
from compeer.models.request import ModelError

#: what a body says where the adapter is left out
WITHOUT_ADAPTER = {"lora": [{"id": 0, "scale": 0.0}]}

_SHORT_HEAD = 100  # characters; reading so little again takes no longer than restoring it


class Prompt(msgspec.Struct, frozen=True):
    """A conversation as a model reads it. `head`: the beginning that it shares with others. `said`: the beginning that
    every later turn of it has too, up to the last word of the person; behind it are questions about it, and the opening
    of an answer. `plain`: it is read without the adapter, so nothing that was read with it can be used."""

    text: str
    head: str = ""
    said: str = ""
    plain: bool = False


class Slots:
    """The slots of a server, and what was read in each. Safe to use from several threads."""

    def __init__(self, count: int) -> None:
        self._texts = [""] * count
        self._said = [""] * count
        self._plain = [False] * count
        self._used = [0] * count
        self._free = set(range(count))
        self._clock = itertools.count(1)
        self._change = threading.Condition()
        self._heads: set[str] = set()

    @contextlib.contextmanager
    def taken(self, server: LlamaServer, prompt: Prompt) -> Iterator[int]:
        """The slot for a prompt, taken until the block ends."""
        with self._change:
            self._change.wait_for(lambda: self._free)
            slot = self._chosen(prompt)
            fresh = self._plain[slot] != prompt.plain or not self._texts[slot].startswith(prompt.head)
            self._free.discard(slot)
            self._texts[slot], self._said[slot], self._plain[slot] = prompt.text, prompt.said, prompt.plain
        try:
            if fresh and len(prompt.head) > _SHORT_HEAD:
                with contextlib.suppress(ModelError):  # then it is read as part of the prompt
                    self._load_head(server, slot, prompt)
            yield slot
        finally:
            with self._change:
                self._used[slot] = next(self._clock)
                self._free.add(slot)
                self._change.notify()

    def _chosen(self, prompt: Prompt) -> int:
        same = [slot for slot in self._free if self._said[slot] and self._plain[slot] == prompt.plain]
        here = [slot for slot in same if prompt.text.startswith(self._said[slot])]
        if here:
            return max(here, key=lambda slot: len(self._said[slot]))
        return min(self._free, key=lambda slot: (self._used[slot], slot))

    def _load_head(self, server: LlamaServer, slot: int, prompt: Prompt) -> None:
        name = hashlib.sha256(prompt.head.encode()).hexdigest()[:16] + "-plain" * prompt.plain
        if name in self._heads:
            server.request("POST", f"/slots/{slot}?action=restore", {"filename": name})
            return
        body = {"prompt": prompt.head, "max_tokens": 0, "id_slot": slot, "cache_prompt": True}
        server.complete(body | (WITHOUT_ADAPTER if prompt.plain else {}), lambda _: False)
        server.request("POST", f"/slots/{slot}?action=save", {"filename": name})
        self._heads.add(name)
