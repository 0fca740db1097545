"""llama.cpp's server in this process, through xllamacpp: opened, spoken to and closed in one place.

**Opening.** xllamacpp reports a server as ready before the loop of its task queue runs, and the first thing that loop
does is to set itself running (`server_queue::start_loop`). A stop that comes in between is lost, and the destructor
then waits for the loop forever. So a server counts as open only after its queue has answered a first task. Both
happen in a thread of their own: Ctrl-C in the middle must not drop a server whose loop has not begun.

**Closing.** `close()`, a `with` block, or the end of the program, whichever comes first.

**The port.** llama.cpp always listens on the loopback interface. The port is locked with a random key.

**Slots.** A conversation is read once, also when several people talk in turn. Each slot has the text that it has read
last. Left to itself llama.cpp gives a request the slot whose text begins most like it. With a long instruction all
conversations begin alike, so each would push another out of its slot, and read its own history again at every turn.
With `Slots` a request gets

    the slot that holds its conversation,        if one does: the request begins with what was said there;
    a slot that was never used,                  if there is one;
    the slot that was used longest ago,          else.

The instruction itself (`head`, the system message) is read once: its state is saved to a file, which holds nothing
that a person wrote, and restored into the next slot in milliseconds. The files are gone when the server closes.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import http.client
import itertools
import os
import secrets
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import msgspec

from compeer.models.request import ModelError

_OPEN: weakref.WeakSet[LlamaServer] = weakref.WeakSet()


class LlamaServer:
    """An open llama.cpp server with these weights and these adapters. The first one is at work where a request says
    nothing; another one, or none, where it says so (`at_work`).

    `context`: tokens of all slots together. `precise`: attention is computed and stored in 32-bit floats rather than
    16. `brief`: for a server that lives for seconds; it starts without a warm-up and keeps no prompts but those in its
    slots. `n_threads`: by default the cores that are free now. `own_slots`: whoever asks names the slot (`Slots`), and
    states of slots can be saved. `mapped`: the weights stay in the pages of their file, which all processes share.
    Otherwise llama.cpp keeps a second copy of most of them in an order that it writes a quarter faster with.
    """

    def __init__(
        self,
        weights: Path,
        adapters: Sequence[Path] = (),
        *,
        slots: int = 4,
        context: int = 8192,
        precise: bool = False,
        brief: bool = False,
        n_threads: int | None = None,
        own_slots: bool = False,
        mapped: bool = False,
    ) -> None:
        # OpenMP reads this when it is loaded. Its default is to spin at every barrier forever, which on busy cores
        # makes decoding tens of times slower; this much spinning costs nothing measurable on idle ones.
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")
        try:
            import xllamacpp
        except ImportError:
            raise ModelError('The embedded model needs xllamacpp: pip install "compeer-esc[embedded]".') from None
        self.slots, self.context, self.key = slots, context, secrets.token_hex(16)
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx, params.n_parallel, params.kv_unified = context, slots, True
        params.verbosity = -1
        params.api_keys = [self.key]
        params.endpoint_metrics = True  # the first task: see _opened
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = n_threads or free_cores()
        params.no_extra_bufts = mapped
        self._states = tempfile.TemporaryDirectory(prefix="compeer-slots-") if own_slots else None
        if self._states:
            params.slot_save_path = self._states.name + "/"
            params.cache_ram_mib, params.cache_idle_slots = 0, False
        if brief:
            params.warmup = params.fit_params = False
            params.cache_ram_mib = 0
        if precise:
            params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if adapters:
            params.lora_adapters = [
                xllamacpp.CommonAdapterLoraInfo(str(path), float(at == 0)) for at, path in enumerate(adapters)
            ]
        try:
            self._server: Any = _opened(xllamacpp.Server, params)
        except Exception as error:  # xllamacpp raises bare exceptions
            raise ModelError(f"llama.cpp could not load {weights}: {error}.") from error
        self.address = str(self._server.listening_address)
        self.busy = 0  # requests in `complete`
        self._change = threading.Condition()
        _OPEN.add(self)

    def complete(self, body: dict[str, Any], deliver: Callable[[dict[str, Any]], bool]) -> None:
        """Send a completion request. `deliver` gets the chunks in this thread; it returns True to stop."""
        server = self._running()
        with self._change:
            self.busy += 1
        try:
            server.handle_completions(body, lambda chunk: self._server is None or deliver(chunk))
            if self._server is None:
                raise ModelError("llama.cpp was closed while it answered.")
        finally:
            del server
            with self._change:
                self.busy -= 1
                self._change.notify_all()

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of the HTTP side, which offers more than `complete`, for example the ids of all tokens."""
        self._running()
        connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=3600)
        try:
            headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            connection.request(method, path, msgspec.json.encode(body) if body is not None else None, headers)
            answer = msgspec.json.decode(connection.getresponse().read())
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise ModelError(f"llama.cpp stopped answering: {error}.") from error
        finally:
            connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise ModelError(f"llama.cpp refused the request: {answer['error'].get('message')}.")
        return answer

    def close(self, wait: float = 0.0) -> None:
        """Stop the server, and every completion at its next token; `wait` at most so many seconds for them."""
        self._server = None  # the last completion to end takes the server with it
        if self._states:
            self._states.cleanup()
        with self._change:
            self._change.wait_for(lambda: not self.busy, wait)

    def _running(self) -> Any:
        if self._server is None:
            raise ModelError("This llama.cpp server is closed.")
        return self._server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(kind: Any, params: Any) -> Any:
    """A server of xllamacpp whose queue has answered."""
    opened: Future[Any] = Future()

    def work() -> None:
        try:
            server = kind(params)
            server.handle_metrics()  # answered by the queue
            opened.set_result(server)
        except BaseException as error:
            opened.set_exception(error)

    threading.Thread(target=work, name="llama.cpp-opening").start()
    return opened.result()  # Ctrl-C ends this wait; the server then ends with its thread


@atexit.register
def _close_all() -> None:
    for server in list(_OPEN):
        server.close(wait=2.0)


def free_cores() -> int:
    """How many threads to decode with: the cores that are free now; $COMPEER_THREADS overrides.

    llama.cpp's threads wait for one another at every layer. Where a thread has to share its core, all the others
    stand still with it: on two busy cores two threads are several times slower than one.
    """
    if chosen := os.environ.get("COMPEER_THREADS"):
        if not chosen.isdigit() or int(chosen) < 1:
            raise ModelError(f"COMPEER_THREADS is a whole number of threads; it says {chosen!r}.")
        return int(chosen)
    try:
        cores = len(os.sched_getaffinity(0))
        looks = []
        for _ in range(5):
            looks.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)  # not counting us
            time.sleep(0.01)
    except (AttributeError, OSError, ValueError):  # not Linux
        return os.cpu_count() or 1
    return max(1, cores - round(sum(looks) / len(looks)))


def at_work(adapter: int | None) -> dict[str, Any]:
    """The fields of a request that activate only this adapter, or none for None. The first is active by default.

    >>> at_work(0), at_work(None), at_work(2)
    ({}, {'lora': [{'id': 0, 'scale': 0.0}]}, {'lora': [{'id': 0, 'scale': 0.0}, {'id': 2, 'scale': 1.0}]})
    """
    if adapter == 0:
        return {}
    return {"lora": [{"id": 0, "scale": 0.0}, *([{"id": adapter, "scale": 1.0}] if adapter else [])]}


_SHORT_HEAD = 100  # characters; reading so little again takes no longer than restoring it


class Prompt(msgspec.Struct, frozen=True):
    """A conversation as a model reads it. `head`: the beginning that it shares with others. `said`: the beginning that
    every later turn of it has too, up to the last word of the person; behind it are questions about it, and the opening
    of an answer. `adapter`: the number of the one that it is read with (`at_work`); what was read with another is of
    no use."""

    text: str
    head: str = ""
    said: str = ""
    adapter: int | None = 0


class Slots:
    """The slots of a server, and what was read in each. Safe to use from several threads."""

    def __init__(self, count: int) -> None:
        self._texts = [""] * count
        self._said = [""] * count
        self._adapters: list[int | None] = [0] * count
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
            switched = self._adapters[slot] != prompt.adapter
            fresh = switched or not self._texts[slot].startswith(prompt.head)
            self._free.discard(slot)
            self._texts[slot], self._said[slot], self._adapters[slot] = prompt.text, prompt.said, prompt.adapter
        try:
            if fresh and len(prompt.head) > _SHORT_HEAD:
                with contextlib.suppress(ModelError):  # then it is read as part of the prompt
                    self._load_head(server, slot, prompt, switched)
            yield slot
        finally:
            with self._change:
                self._used[slot] = next(self._clock)
                self._free.add(slot)
                self._change.notify()

    def _chosen(self, prompt: Prompt) -> int:
        same = [slot for slot in self._free if self._said[slot] and self._adapters[slot] == prompt.adapter]
        here = [slot for slot in same if prompt.text.startswith(self._said[slot])]
        if here:
            return max(here, key=lambda slot: len(self._said[slot]))
        return min(self._free, key=lambda slot: (self._used[slot], slot))

    def _load_head(self, server: LlamaServer, slot: int, prompt: Prompt, switched: bool) -> None:
        name = f"{hashlib.sha256(prompt.head.encode()).hexdigest()[:16]}-{prompt.adapter}"
        if name in self._heads:
            if switched:  # a slot forgets what it holds when its adapter is switched, so that comes before
                switch = {"prompt": " ", "max_tokens": 0, "id_slot": slot}
                server.complete(switch | at_work(prompt.adapter), lambda _: False)
            server.request("POST", f"/slots/{slot}?action=restore", {"filename": name})
            return
        body = {"prompt": prompt.head, "max_tokens": 0, "id_slot": slot, "cache_prompt": True}
        server.complete(body | at_work(prompt.adapter), lambda _: False)
        server.request("POST", f"/slots/{slot}?action=save", {"filename": name})
        self._heads.add(name)
