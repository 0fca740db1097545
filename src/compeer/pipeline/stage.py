"""What a stage is: a plain async function, a row in, a row (or several) or a rejection out.

The function knows nothing of files, resuming, progress or clusters; that is the runner's. It gets its
tools: the models it may ask, a seed that depends only on the row, and options from the configuration.

Also here, what a person sees of it. Before a run: `prompts` runs the function with models that write down what they are
asked and answer nothing, and `estimate` makes calls and tokens of that for the whole input. During a run: `Progress`
shows a live bar on a terminal, and elsewhere a plain line every ten seconds, on the standard error.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from compeer.models.request import Answer, Model, Request, parts_of
from compeer.pipeline.ledger import Counts, Spent
from compeer.typed import known

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Reject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that goes no further: a short reason for counting, and a sentence for reading."""

    id: str
    reason: str
    detail: str = ""
    row: Any = None  # the row itself, so that nothing is lost


class Tools(msgspec.Struct):
    """What a stage function may use."""

    models: dict[str, Model] = {}  # by role, e.g. "judge", "generator"
    seed: int = 0
    options: dict[str, Any] = {}

    def rng(self, *parts: object) -> random.Random:
        """A random stream for one row: the same whatever was drawn before, on whichever worker."""
        text = "\x1f".join(map(str, (self.seed, *parts)))
        return random.Random(hashlib.sha256(text.encode()).digest())


StageFunction = Callable[[Any, Tools], Awaitable[Any]]


class Stage(msgspec.Struct, frozen=True):
    """A named stage: its function, what it reads and writes, the roles it needs, the prompts it uses."""

    name: str
    function: StageFunction  # importable by name, so that a cluster's workers find it
    reads: type
    writes: type
    roles: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()  # their text; hashed into the manifest
    calls_per_row: float = 0.0  # for the estimate before spending
    tokens_per_call: tuple[int, int] = (0, 0)  # read, written; likewise
    options: type | None = None  # the shape of tools.options; checked once, before the run
    decode: Callable[..., Any] | None = None  # of a line and its file, where a row has more than one form

    def decoder(self, source: str) -> Callable[[bytes], Any]:
        """What makes rows of the lines of a file."""
        if self.decode is not None:
            return partial(self.decode, source=source)
        return msgspec.json.Decoder(known(self.reads)).decode


_PICTURE = 800  # tokens, about, of an image of usual size


class Prompt(msgspec.Struct, frozen=True):
    """The first request of a stage for a row. Later requests depend on the answer, so they cannot be shown."""

    row: str
    role: str
    request: Request

    def __str__(self) -> str:
        parts = [f"=== {self.row}, asks the {self.role} ==="]
        for message in self.request.messages:
            shown = [part.get("text") or f"[image {part.get('path', '')}]" for part in parts_of(message)]
            parts += [f"--- {message['role']} ---", *shown]
        if self.request.schema is not None:
            parts.append("--- answer: JSON of this schema ---\n" + msgspec.json.encode(self.request.schema).decode())
        return "\n".join(parts)


class Estimate(msgspec.Struct, frozen=True):
    """Calls and tokens of a run. A token is taken as four letters, or one and a half Chinese characters."""

    rows: int
    calls: int
    tokens_read: int
    tokens_written: int

    def __str__(self) -> str:
        tokens = f"{short(self.tokens_read)} tokens read and {short(self.tokens_written)} written"
        return f"{self.rows:,} rows, about {self.calls:,} calls, {tokens}"


def prompts(stage: Stage, rows: Iterable[Any], tools: Tools) -> list[Prompt]:
    """The first requests of each row; no model is called."""
    found: list[Prompt] = []

    async def look() -> None:
        for number, row in enumerate(rows, start=1):
            name = identity(row) or f"row {number}"
            roles = {*stage.roles, *tools.models}
            recorders: dict[str, Model] = {role: _Recorder(role, name, found) for role in sorted(roles)}
            try:
                await stage.function(row, msgspec.structs.replace(tools, models=recorders))
            except Exception:  # _NotAsked, or what a function does about it; a real failure shows in the run
                continue

    asyncio.run(look())
    return found


def estimate(stage: Stage, rows: int, sample: Iterable[Any] = (), tools: Tools | None = None) -> Estimate:
    """Calls and tokens for `rows` rows, from a sample of the input if there is one, else from the stage's figures."""
    sample = list(sample)
    first = prompts(stage, sample, tools or Tools())
    asking = len({prompt.row for prompt in first}) or 1
    share = asking / len(sample) if first else 1.0  # some rows are turned away before anyone is asked
    calls = rows * share * max(stage.calls_per_row, len(first) / asking)
    read, written = stage.tokens_per_call
    if first:
        read = sum(tokens(prompt.request) for prompt in first) // len(first)
        written = written or max(prompt.request.max_tokens for prompt in first)
    return Estimate(rows, round(calls), round(calls * read), round(calls * written))


def tokens(request: Request) -> int:
    """Tokens of a request, roughly."""
    count = 0
    for message in request.messages:
        for part in parts_of(message):
            text = part.get("text", "")
            wide = sum(sign > "\u2e7f" for sign in text)
            count += 4 + int((len(text) - wide) / 4 + wide / 1.5) if "text" in part else _PICTURE
    return count


def identity(row: Any) -> str:
    """The row's id, or nothing."""
    found = row.get("id") if isinstance(row, dict) else getattr(row, "id", None)
    return str(found) if found is not None else ""


class LiveLine:
    """Progress of some work: a bar on a terminal, elsewhere a line of text every `every` seconds."""

    def __init__(self, *, quiet: bool = False, every: float = 10.0, unit: str = "rows") -> None:
        self.quiet, self.every, self.unit = quiet, every, unit
        self._bar: Bar | None = None
        self._live = not quiet and sys.stderr.isatty()
        self._next = 0.0

    def say(self, text: str) -> None:
        if not self.quiet and text:
            print(text, file=sys.stderr, flush=True)

    def begin(self, name: str, total: int | None, done: int) -> None:
        self._name, self._total = name, total
        self._next = time.monotonic() + (0.25 if self._live else self.every)
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            name_column, told_column = TextColumn("{task.description}"), TextColumn("{task.fields[told]}")
            columns = name_column, BarColumn(), MofNCompleteColumn(), told_column
            self._bar = Bar(*columns, console=Console(stderr=True), refresh_per_second=4)
            self._task = self._bar.add_task(name, total=total, completed=done, told="")
            self._bar.start()

    def due(self) -> float | None:
        """The current time when the next line is due, else None. Cheap enough to call for every row."""
        now = time.monotonic()
        if self.quiet or now < self._next:
            return None
        self._next = now + (0.25 if self._live else self.every)
        return now

    def show(self, done: int, told: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, told=told)
        else:
            of = "" if self._total is None else f" of {self._total:,}"
            self.say(", ".join(filter(None, [f"{self._name}: {done:,}{of} {self.unit}", told])))

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @contextmanager
    def over(self, name: str, total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
        """Show progress while the block runs. The yielded function takes the amount done. `total` may be unknown."""
        last = done

        def tell(done: int) -> None:
            nonlocal last
            last = done
            if self.due() is not None:
                self.show(done, "")

        self.begin(name, total, done)
        try:
            yield tell
        finally:
            if self._bar is not None:  # the bar stays on the terminal, so it ends with what was done
                self.show(last, "")
            self.stop()


class Progress(LiveLine):
    """Rows done, their rate, tokens, and the time left."""

    def start(self, name: str, total: int, counts: Counts) -> None:
        self._rows = total
        self._seen = deque([(time.monotonic(), counts.rows_in)], maxlen=120)  # the last half minute, for the rate
        self.begin(name, total, counts.rows_in)

    def tick(self, counts: Counts, spent: Spent) -> None:
        if (now := self.due()) is not None:
            self._seen.append((now, counts.rows_in))
            self.show(counts.rows_in, self._told(counts, spent))

    def _told(self, counts: Counts, spent: Spent) -> str:
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        rate = (done - before) / (now - then) if now > then else 0.0
        words = [f"{rate:,.1f} rows/s" if rate >= 1 else f"{duration(1 / rate)} per row"] if rate else []
        if spent.asked:
            words.append(f"{short(spent.tokens_read)} tokens read, {short(spent.tokens_written)} written")
        if counts.rejected:
            words.append(f"{sum(counts.rejected.values()):,} rejected")
        if rate:
            words.append(f"{duration((self._rows - done) / rate)} left")
        return ", ".join(words)


class _NotAsked(Exception):
    """Ends a stage function at the point where it would have to wait for an answer."""


class _Recorder:
    """A model that writes down what it is asked."""

    sees = True

    def __init__(self, role: str, row: str, prompts: list[Prompt]) -> None:
        self.name, self._row, self._prompts = role, row, prompts

    async def ask(self, request: Request) -> Answer:
        self._prompts.append(Prompt(self._row, self.name, request))
        raise _NotAsked

    async def stream(self, request: Request) -> AsyncIterator[str]:
        yield (await self.ask(request)).text

    def rendered(self, request: Request) -> bytes:
        return msgspec.json.encode(request)

    async def close(self) -> None:
        pass


def short(count: int) -> str:
    """
    >>> short(950), short(12_345), short(2_100_000)
    ('950', '12.3k', '2.1M')
    """
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            return f"{count / unit:.1f}{name}"
    return str(count)


def duration(seconds: float) -> str:
    """
    >>> duration(12), duration(200), duration(7500)
    ('12 s', '3 min 20 s', '2 h 05 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
