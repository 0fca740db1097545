"""Scoring a file of items: rows in the order of the input, in bounded memory, resumable at any time.

    summary = score("items.jsonl", "scores.jsonl", judge, orders="both")

A row is {id, judgement, parts, total}. Items are judged a window at a time, and the files are valid up to the last
whole window (`compeer.pipeline.ledger`). A run that was killed repeats at most one window. Windows are always cut at
the same places, so it ends with the same bytes as an undisturbed run. A window ends where the history changes, so that
the candidates of one moment are judged together.

An item without a candidate, or an unreadable line, goes to the rejects. What the judge could not judge stays in the
output, marked, and is judged again when the finished run is repeated; everything else is then taken from the old
output. When the judge is gone, so that it does not answer a small case either, the run stops instead of marking all
remaining items as not judged.

The summary gives the means of the reward's parts, what was not judged and why, and, where both orders were asked, how
much the order matters: how often the verdict depended on it, and how often the first place won among the showings in
which one place won. Without a bias that is one half, since every reply stood in both places.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import compeer
from compeer.cer.item import decode_item
from compeer.dialogue import read_rows, write_json
from compeer.errors import UserError
from compeer.pipeline.ledger import Done, Ledger, Manifest, NoAnswers
from compeer.pipeline.runner import begin, under_way
from compeer.pipeline.stage import Progress, Reject
from compeer.pipeline.work import read_lines
from compeer.reward.case import Case, case_of
from compeer.reward.client import JudgeClient
from compeer.reward.judge import Judge, Judgement, Orders, Scored, failure_kind, score_of
from compeer.reward.remote_judge import UNREADABLE, RemoteJudge
from compeer.reward.verdict import Kind, choice_of
from compeer.statistics import Figure, share_figure
from compeer.typed import from_json

_REMOTE_BUDGET = 300.0  # seconds per window of a judge behind HTTP; a judge in this process has no limit
_REQUESTS = 4  # in flight to a judge behind HTTP


class OrderEffect(msgspec.Struct, frozen=True):
    """How much the order of the replies matters, from pairs that were judged in both orders."""

    swayed: Figure  # share of pairs
    first_won: Figure  # share of showings in which one place won


class ScoreSummary(msgspec.Struct, kw_only=True):
    """The result of scoring a file. Means are over the judged items."""

    out: str = ""
    judge: str = ""
    identity: dict[str, Any] = {}
    orders: str = "one"
    items: int = 0
    judged: int = 0
    unjudged: dict[str, int] = {}
    examples: dict[str, str] = {}  # one failure of each kind
    rejected: dict[str, int] = {}
    means: dict[str, float] = {}
    totals: dict[int, int] = {}
    tokens: int = 0
    places: OrderEffect | None = None

    def lines(self) -> list[str]:
        told = [f"{self.judged:,} of {self.items:,} items judged by {self.judge}, written to {self.out}"]
        told += [
            f"  not judged {count:,}: {kind} ({self.examples[kind][:160]})" for kind, count in self.unjudged.items()
        ]
        told += [f"  rejected {count:,}: {reason}" for reason, count in self.rejected.items()]
        if self.means:
            told.append("  mean " + ", ".join(f"{part} {value:+.3f}" for part, value in self.means.items()))
        if self.places is not None:
            swayed, first = self.places.swayed, self.places.first_won
            told.append(
                f"  verdict depends on the order: {swayed.text(1, scale=100)} % of {swayed.n:,} pairs (unbiased: 0 %)"
            )
            told.append(
                f"  first place won: {first.text(1, scale=100)} % of {first.n:,} showings (unbiased: 50 %)",
            )
        return told


def summarised(rows: Iterable[Scored], **known: Any) -> ScoreSummary:
    """The figures over all rows, with what the caller knows besides."""
    sums: Counter[str] = Counter()
    totals: Counter[int] = Counter()
    unjudged: Counter[str] = Counter()
    examples: dict[str, str] = {}
    tokens = 0
    swayed: list[bool] = []  # one per pair that was shown in both orders
    first_won: list[bool] = []  # one per showing of such a pair in which a place won
    for row in rows:
        judgement = row.judgement
        tokens += judgement.tokens
        if judgement.failure is not None or row.parts is None or row.total is None:
            kind = failure_kind(judgement.failure or "judge: no parts")
            unjudged[kind] += 1
            examples.setdefault(kind, judgement.failure or "")
            continue
        totals[row.total] += 1
        sums.update({**row.parts, "total": row.total})
        if judgement.swayed is not None:
            swayed.append(judgement.swayed)
            won = [pair for pair in judgement.pairs if pair.preference in ("candidate", "reference")]
            first_won += [
                choice_of(pair.preference, pair.candidate_first) == "first" for pair in won if pair.preference
            ]
    judged = totals.total()
    effect = OrderEffect(share_figure("swayed", swayed), share_figure("first won", first_won))
    return ScoreSummary(
        judged=judged,
        unjudged=dict(unjudged),
        examples=examples,
        means={part: round(value / judged, 6) for part, value in sums.items()},
        totals=dict(sorted(totals.items())),
        tokens=tokens,
        places=effect if swayed else None,
        **known,
    )


class _PendingItem(msgspec.Struct):
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
    kind: Kind | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Judge the items of `source` into `out`.

    `budget`: seconds per window; what is left then is marked. `kind`: what the judge must be, if that matters.
    `settings`: further settings that the rows depend on.
    """
    progress = progress or Progress()
    if Path(out).resolve() == Path(source).resolve():
        raise UserError(f"{out} is the input itself; choose another --out.")
    remote = isinstance(judge, RemoteJudge)
    seconds = budget or (_REMOTE_BUDGET if remote else math.inf)
    # a service gets several pieces of a window at once, a judge in this process whole windows
    concurrency, chunk = (_REQUESTS, max(1, window // _REQUESTS)) if remote else (1, 2 * window)
    client = JudgeClient(judge, budget=seconds, chunk=chunk, concurrency=concurrency, orders=orders)
    try:
        identity = client.identity(wait=10.0)
        if kind is not None and client.judge.kind != kind:
            raise UserError(f"{client.judge.name} is a judge of the kind {client.judge.kind}; {kind} is wanted.")
        params = {
            "orders": orders,
            **(settings or {}),
            **{f"judge's {name}": value for name, value in identity.items()},
        }
        state, total = begin("score", source, params, limit, version=compeer.__version__)
        ledger = Ledger(out, state, every=math.inf)  # noted at the end of each window, and nowhere else
        found = ledger.open(fresh=fresh)
        if isinstance(found, Manifest):
            progress.say(f"score: nothing to do, {out} is finished.")
            return _summary(ledger, found, client.judge.name, identity, orders)
        known = None if fresh else _earlier_rows(ledger)
        progress.say(f"score: {found}" if found and known is None else "")
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
    left = None if state.limit is None else state.limit - state.counts.rows_in
    with under_way(ledger, total, progress):
        client.warm()
        for items in _windows(_pending_items(source, state.lines, left, known or iter(())), window):
            asked = [item for item in items if item.case is not None and item.judgement is None]
            _judge(client, asked, state.counts.rows_in)
            state.spent.tokens_read += sum(item.judgement.tokens for item in asked if item.judgement is not None)
            state.spent.asked += len(asked)
            for item in items:
                ledger.take(_done(item))
            ledger.note()
            progress.tick(state.counts, state.spent)
        return ledger.finish()


def _judge(client: JudgeClient, items: list[_PendingItem], done: int) -> None:
    """Judge a window. If the judge disappears in the middle, ask once more or stop the run."""
    for _ in range(2):  # a judge that answers, and still cannot judge these, has given its answer
        left = [item for item in items if item.judgement is None or item.judgement.failure is not None]
        for item, answer in zip(left, client.judge_all([item.case for item in left if item.case]), strict=True):
            item.judgement = answer
        if client.dead is None:
            return
        if not client.alive():
            raise NoAnswers(
                f"Stopped after {done:,} items: the judge does not answer. The last time: {client.dead}\n"
                "When it is back, run the same command again to continue."
            )


def _pending_items(
    source: str | Path, after: int, limit: int | None, known: Iterator[Scored]
) -> Iterator[_PendingItem]:
    """The items of the input with the judgements that an earlier run has; both files are in the same order."""
    for number, data in read_lines(source, after=after, limit=limit):
        try:
            item = decode_item(data, source)
        except UNREADABLE as problem:
            text = data.decode("utf-8", "replace").rstrip("\n")
            yield _PendingItem(number, reject=Reject(f"line {number}", "unreadable", str(problem), text))
            continue
        if item.candidate is None:
            detail = "there is nothing to judge; compeer cer reason or label adds a candidate"
            yield _PendingItem(number, reject=Reject(item.id, "no-candidate", detail, item))
        else:
            case, row = case_of(item), next(known, None)
            judged = row is not None and row.id == case.id and row.judgement.failure is None
            yield _PendingItem(number, case=case, judgement=row.judgement if row and judged else None)


def _windows(items: Iterator[_PendingItem], size: int) -> Iterator[list[_PendingItem]]:
    """Items in windows of about `size`, cut where the history changes, or at twice the size."""
    window: list[_PendingItem] = []
    for item in items:
        last = window[-1].case if window else None
        same = last is not None and item.case is not None and last.history == item.case.history
        if len(window) >= size and (not same or len(window) >= 2 * size):
            yield window
            window = []
        window.append(item)
    if window:
        yield window


def _earlier_rows(ledger: Ledger) -> Iterator[Scored] | None:
    """Rows of an earlier, finished run with the same settings, after those that this one has already written."""
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


def _done(item: _PendingItem) -> Done:
    if item.reject is not None:
        return Done(item.number, rejects=msgspec.json.encode(item.reject) + b"\n", reasons=(item.reject.reason,))
    assert item.judgement is not None
    # counted as a reject though it is in the output: a manifest with unanswered rows is not final
    reasons = ("no-answer",) if item.judgement.failure is not None else ()
    return Done(item.number, msgspec.json.encode(score_of(item.judgement)) + b"\n", rows=1, reasons=reasons)


def _summary(ledger: Ledger, manifest: Manifest, judge: str, identity: dict[str, Any], orders: Orders) -> ScoreSummary:
    """The summary, made from the output so that interruptions do not change it, and written beside it."""
    summary = summarised(
        read_rows(manifest.output, Scored),
        out=manifest.output,
        judge=judge,
        identity=identity,
        orders=orders,
        items=manifest.counts.rows_in,
        rejected={reason: count for reason, count in manifest.counts.rejected.items() if reason != "no-answer"},
    )
    beside = ledger.manifest_path.with_name(ledger.manifest_path.name.replace(".manifest.", ".summary."))
    write_json(beside, summary)
    return summary
