"""Scoring a file of items: `score` (resumable, in order) and its summary, `tally`.

What many judgements come to: means of the reward's parts, what was not judged and why, and the sway of places.

A judge that reads the replies prefers the same one in whichever order they are shown. Where both orders were asked,
`Places` says how often the verdict hung on the order, and how often the first place won among the showings in which
one place won: without a bias that is one half, since every reply stood in both places. Intervals are Wilson's, 95 %.

Judge a file of items: rows in the order of the input, in bounded memory, to be stopped and run again at any time.

    summary = score("items.jsonl", "scores.jsonl", judge, orders="both")

A row is {id, judgement, parts, total}. Items are judged a window at a time, and the files are good up to the last
whole window (`compeer.pipeline.ledger`): a run that was killed does at most one window again, and since windows are cut at
the same places every time, it ends with the same bytes as an undisturbed one. A window ends where the history
changes, so that the candidates of one moment are judged together.

An item without a candidate, or a line that cannot be read, goes to the rejects. What the judge could not judge stays
in the output, marked, and is judged again when the finished run is repeated; everything else is then taken from the
old output. When the judge is gone, so that it does not answer a small question either, the run stops before it marks
a whole corpus as not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import compeer
from compeer.cer.item import decode_item
from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.pipeline.ledger import Done, Fingerprint, Ledger, Manifest, NoAnswers, State, measure
from compeer.pipeline.runner import Interrupted
from compeer.pipeline.stage import Progress, Reject
from compeer.pipeline.work import read_lines
from compeer.reward.case import Case, case_of
from compeer.reward.client import JudgeClient
from compeer.reward.judge import PARTS, Judge, Judgement, Orders
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.verdict import Kind, choice_of
from compeer.reward.wire import Scored, failure_kind, score_of
from compeer.typed import from_json


class Share(msgspec.Struct, frozen=True):
    """So many of so many, and the interval in which the true share lies."""

    count: int
    of: int
    share: float
    low: float
    high: float


class Places(msgspec.Struct, frozen=True):
    """How far the place of a reply sways the judge; only from pairs that were judged in both orders."""

    swayed: Share  # of pairs
    first_won: Share  # of showings in which one place won


class Summary(msgspec.Struct, kw_only=True):
    """What a scoring came to. Means are over what was judged."""

    out: str = ""
    judge: str = ""
    identity: dict[str, Any] = {}
    orders: str = "one"
    items: int = 0
    judged: int = 0
    unjudged: dict[str, int] = {}
    examples: dict[str, str] = {}  # of what was not judged, one for each kind
    rejected: dict[str, int] = {}
    means: dict[str, float] = {}
    totals: dict[int, int] = {}
    tokens: int = 0
    places: Places | None = None


class Tally:
    """Takes rows one at a time, and holds no more than their sums."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*PARTS, "total"), 0.0)
        self._totals = dict.fromkeys(range(-5, 6), 0)
        self._unjudged: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._judged = self._tokens = 0
        self._pairs = self._swayed = self._won = self._first = 0

    def take(self, row: Scored) -> None:
        judgement = row.judgement
        self._tokens += judgement.tokens
        if judgement.failure is not None or row.parts is None or row.total is None:
            kind = failure_kind(judgement.failure or "judge: no parts")
            self._unjudged[kind] = self._unjudged.get(kind, 0) + 1
            self._examples.setdefault(kind, judgement.failure or "")
            return
        self._judged += 1
        self._totals[row.total] += 1
        for part, value in [*row.parts.items(), ("total", float(row.total))]:
            self._sums[part] += value
        self._take_places(judgement)

    def _take_places(self, judgement: Judgement) -> None:
        if judgement.swayed is None:
            return
        self._pairs += 1
        self._swayed += judgement.swayed
        for pair in judgement.pairs:
            if pair.preference in ("candidate", "reference"):
                self._won += 1
                self._first += choice_of(pair.preference, pair.candidate_first) == "first"

    def summary(self, **known: Any) -> Summary:
        """The figures so far, with what the caller knows besides."""
        places = Places(share(self._swayed, self._pairs), share(self._first, self._won)) if self._pairs else None
        means = {part: round(value / self._judged, 6) for part, value in self._sums.items()} if self._judged else {}
        return Summary(
            judged=self._judged,
            unjudged=dict(self._unjudged),
            examples=dict(self._examples),
            means=means,
            totals={total: count for total, count in self._totals.items() if count},
            tokens=self._tokens,
            places=places,
            **known,
        )


def share(count: int, of: int) -> Share:
    """The share with Wilson's interval; of nothing, anything is possible.

    >>> share(5, 10).low < 0.5 < share(5, 10).high, share(0, 0).high
    (True, 1.0)
    """
    if of == 0:
        return Share(0, 0, 0.0, 0.0, 1.0)
    z = 1.959964
    rate = count / of
    middle = rate + z * z / (2 * of)
    half = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    whole = 1 + z * z / of
    low, high = max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)
    return Share(count, of, round(rate, 6), round(low, 6), round(high, 6))


def lines(summary: Summary) -> list[str]:
    """The summary for people."""
    told = [f"{summary.judged:,} of {summary.items:,} items judged by {summary.judge}, written to {summary.out}"]
    told += [
        f"  not judged {count:,}: {kind} ({summary.examples[kind][:160]})" for kind, count in summary.unjudged.items()
    ]
    told += [f"  rejected {count:,}: {reason}" for reason, count in summary.rejected.items() if reason != "no-answer"]
    if summary.means:
        told.append("  mean " + ", ".join(f"{part} {value:+.3f}" for part, value in summary.means.items()))
    if summary.places is not None:
        swayed, first = summary.places.swayed, summary.places.first_won
        told.append(f"  the order swayed {_percent(swayed)} of {swayed.of:,} pairs; without a sway it is 0")
        told.append(f"  the first place won {_percent(first)} of {first.of:,} showings; without a bias it is 50 %")
    return told


def _percent(share: Share) -> str:
    return f"{share.share:.1%} (95 % interval {share.low:.1%} to {share.high:.1%})"


_REMOTE_BUDGET = 300.0  # seconds for a window of a judge behind HTTP; one in this process takes what it takes


class Line(msgspec.Struct):
    """A line of the input: a case, or why there is none; its judgement once it has one."""

    number: int
    case: Case | None = None
    reject: Reject | None = None
    judgement: Judgement | None = None


def score(
    source: str | Path,
    out: str | Path,
    judge: Judge,
    *,
    orders: Orders = "one",
    window: int = 64,
    limit: int | None = None,
    fresh: bool = False,
    budget: float | None = None,
    concurrency: int = 4,
    kind: Kind | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Judge the items of `source` into `out`; `budget` seconds for a window, then what is left is marked.

    `kind` is what the judge must be, if that matters; `settings` are further things on which the rows depend.
    """
    progress = progress or Progress()
    if Path(out).resolve() == Path(source).resolve():
        raise UserError(f"{out} is the input itself; choose another --out.")
    remote = isinstance(judge, RemoteJudge)
    seconds = budget or (_REMOTE_BUDGET if remote else math.inf)
    chunk = max(1, window // concurrency) if remote else 2 * window  # a judge in this process gets a window whole
    client = JudgeClient(judge, budget=seconds, chunk=chunk, concurrency=concurrency if remote else 1, orders=orders)
    try:
        identity = client.identity(wait=10.0)
        if kind is not None and client.judge.kind != kind:
            raise UserError(f"{client.judge.name} is a judge of the kind {client.judge.kind}; {kind} is wanted.")
        state, total = _begin(source, identity, {"orders": orders, **(settings or {})}, limit)
        ledger = Ledger(out, state, every=math.inf)  # noted at the end of each window, and nowhere else
        told = ledger.open(fresh=fresh)
        if isinstance(told, Manifest):
            progress.say(f"score: nothing to do, {out} is finished.")
            return _summary(ledger, told, client.judge.name, identity, orders)
        known = None if fresh else _known(ledger)
        progress.say(f"score: {told}" if told and known is None else "")
        manifest = _run(client, ledger, known, source, window, total, progress)
        return _summary(ledger, manifest, client.judge.name, identity, orders)
    finally:
        client.close()


def _run(
    client: JudgeClient,
    ledger: Ledger,
    known: Iterator[Scored] | None,
    source: str | Path,
    window: int,
    total: int,
    progress: Progress,
) -> Manifest:
    state = ledger.state
    progress.start("score", total, state.counts)
    left = None if state.limit is None else state.limit - state.counts.rows_in
    try:
        client.warm()
        for lines in _windows(_lines(source, state.lines, left), window):
            _recall(lines, known)
            asked = [line for line in lines if line.case is not None and line.judgement is None]
            _judge(client, asked, state.counts.rows_in)
            state.spent.tokens_read += sum(line.judgement.tokens for line in asked if line.judgement is not None)
            state.spent.asked += len(asked)
            for line in lines:
                ledger.take(_done(line))
            ledger.note()
            progress.tick(state.counts, state.spent)
        return ledger.finish()
    except KeyboardInterrupt:
        raise Interrupted(
            f"Stopped after {state.counts.rows_in:,} of {total:,} items; nothing is lost. "
            "Run the same command again to go on."
        ) from None
    finally:
        progress.stop()
        ledger.close()


def _judge(client: JudgeClient, lines: list[Line], done: int) -> None:
    """Judge a window. A judge that went away in the middle of it is asked once more, or ends the run."""
    for _ in range(2):  # a judge that is there, and still cannot judge these, has said its word
        left = [line for line in lines if line.judgement is None or line.judgement.failure is not None]
        for line, answer in zip(left, client.judge_all([line.case for line in left if line.case]), strict=True):
            line.judgement = answer
        if client.dead is None:
            return
        if not client.alive():
            raise NoAnswers(
                f"Stopped after {done:,} items: the judge does not answer. The last time: {client.dead}\n"
                "When it is back, run the same command again to go on."
            )


def _begin(
    source: str | Path, identity: dict[str, Any], settings: dict[str, Any], limit: int | None
) -> tuple[State, int]:
    """The state of a run that has done nothing yet, and how many lines there are."""
    digest, lines = measure(source)
    known = {**settings, **{f"judge's {name}": value for name, value in identity.items()}}
    fingerprint = Fingerprint(
        stage="score",
        input=digest,
        prompts="",  # part of the judge's identity
        models={},  # where the judge lives does not matter, only what it is
        params=msgspec.json.decode(msgspec.json.encode(known, enc_hook=str)),
        seed=0,
    )
    state = State(
        stage="score",
        fingerprint=fingerprint,
        input=str(source),
        limit=limit,
        engine="local",
        version=compeer.__version__,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return state, lines if limit is None else min(lines, limit)


def _lines(source: str | Path, after: int, limit: int | None) -> Iterator[Line]:
    for number, data in read_lines(source, after=after, limit=limit):
        try:
            item = decode_item(data, source)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            text = data.decode("utf-8", "replace").rstrip("\n")
            yield Line(number, reject=Reject(f"line {number}", "unreadable", str(problem), text))
            continue
        if item.candidate is None:
            detail = "there is nothing to judge; compeer cer reason or label gives it a candidate"
            yield Line(number, reject=Reject(item.id, "no-candidate", detail, item))
        else:
            yield Line(number, case=case_of(item))


def _windows(lines: Iterator[Line], size: int) -> Iterator[list[Line]]:
    """Lines in windows of about `size`, cut where the history changes, or at twice the size."""
    window: list[Line] = []
    for line in lines:
        same = bool(window) and line.case is not None and _history(window[-1]) == line.case.history
        if len(window) >= size and (not same or len(window) >= 2 * size):
            yield window
            window = []
        window.append(line)
    if window:
        yield window


def _history(line: Line) -> Any:
    return line.case.history if line.case is not None else None


def _known(ledger: Ledger) -> Iterator[Scored] | None:
    """Rows of an earlier, finished run in the same way, behind those that this one has already written."""
    try:
        done = from_json(ledger.manifest_path.read_bytes(), Manifest)
    except (OSError, msgspec.MsgspecError):
        return None
    if done.fingerprint != ledger.state.fingerprint or not ledger.out.exists():
        return None
    rows = iter(read_rows(ledger.out, Scored))
    for _ in range(ledger.state.counts.rows_out):
        next(rows, None)
    return rows


def _recall(lines: list[Line], known: Iterator[Scored] | None) -> None:
    """Take what was judged before. Both files are in the order of the input, so they go side by side."""
    for line in lines if known is not None else []:
        row = next(known, None) if line.case is not None and known is not None else None
        if row is not None and line.case is not None and row.id == line.case.id and row.judgement.failure is None:
            line.judgement = row.judgement


def _done(line: Line) -> Done:
    if line.reject is not None:
        return Done(line.number, rejects=msgspec.json.encode(line.reject) + b"\n", reasons=(line.reject.reason,))
    assert line.judgement is not None
    # counted as a reject, though it stands in the output: a manifest with rows without an answer is not the last word
    reasons = ("no-answer",) if line.judgement.failure is not None else ()
    return Done(line.number, msgspec.json.encode(score_of(line.judgement)) + b"\n", rows=1, reasons=reasons)


def _summary(ledger: Ledger, manifest: Manifest, judge: str, identity: dict[str, Any], orders: Orders) -> Summary:
    """Read from the output, so that it is the same however often the run was stopped; it is written beside it."""
    tally = Tally()
    for row in read_rows(manifest.output, Scored):
        tally.take(row)
    summary = tally.summary(
        out=manifest.output,
        judge=judge,
        identity=identity,
        orders=orders,
        items=manifest.counts.rows_in,
        rejected={reason: count for reason, count in manifest.counts.rejected.items() if reason != "no-answer"},
    )
    beside = ledger.manifest_path.with_name(ledger.manifest_path.name.replace(".manifest.", ".summary."))
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2))
    return summary
