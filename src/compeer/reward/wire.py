"""Pictures on their way to the service and back: data URLs outside, files inside.

A service never opens a file because a request names it. A picture comes inside the request, or lies below the one
folder that the operator allowed; everything else is refused, and nothing is fetched from an address.

What travels between the judge's service and those who ask it, and what makes an answer usable.

Everything is JSON. A reply carries the fingerprint of the judge that gave it, so that a service that was started
again with other weights is noticed at once and not after a week of training.

A judgement that could not be had says why in `failure`, as "KIND: what happened", so that it reads as a sentence and
counts as a category.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from compeer.cer.item import Said
from compeer.errors import UserError
from compeer.models.request import ModelError
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders
from compeer.reward.verdict import Kind

_SUFFIXES = {"png": ".png", "jpeg": ".jpg", "jpg": ".jpg", "webp": ".webp", "gif": ".gif", "bmp": ".bmp"}
_DATA = re.compile(r"data:image/([a-z]+);base64,", re.IGNORECASE)


class PictureRefused(UserError):
    """A picture that cannot be used."""


def enclosed(case: Case) -> Case:
    """The case with its pictures inside it, as data URLs."""
    return _with_pictures(case, _as_data)


def unpacked(cases: Sequence[Case], folder: Callable[[], Path], allowed: Path | None) -> list[Case]:
    """The cases with pictures as files: enclosed ones are written into `folder()`, others must lie in `allowed`."""

    def as_file(said: str) -> str:
        if said[:5].lower() == "data:":
            return _written(said, folder())
        return _allowed(said, allowed)

    return [_with_pictures(case, as_file) for case in cases]


def _with_pictures(case: Case, change: Callable[[str], str]) -> Case:
    if not any(turn.images for turn in case.history):
        return case
    history = [Said(turn.speaker, turn.text, tuple(map(change, turn.images))) for turn in case.history]
    return msgspec.structs.replace(case, history=tuple(history))


def _as_data(path: str) -> str:
    if _DATA.match(path):
        return path
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PictureRefused(f"The image {path:.200} cannot be read: {reason}.") from None
    suffix = Path(path).suffix.lower()
    kind = next((name for name, ending in _SUFFIXES.items() if ending == suffix), "png")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _written(url: str, folder: Path) -> str:
    head = _DATA.match(url)
    if head is None or head.group(1).lower() not in _SUFFIXES:
        kinds = ", ".join(sorted(_SUFFIXES))
        raise PictureRefused(f"A picture begins data:image/KIND;base64, with KIND one of {kinds}; not {url[:40]!r}.")
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise PictureRefused("A picture's data is no base64.") from None
    path = folder / (hashlib.sha256(data).hexdigest()[:32] + _SUFFIXES[head.group(1).lower()])
    if not path.exists():
        path.write_bytes(data)
    return str(path)


def _allowed(said: str, allowed: Path | None) -> str:
    if allowed is None:
        raise PictureRefused("This service opens no files; send pictures as data:image/…;base64,… inside the request.")
    try:
        path = (allowed / said).resolve()
        inside = path.is_relative_to(allowed.resolve()) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:  # whether the file exists elsewhere is nobody's business
        raise PictureRefused(f"There is no picture {said[:200]!r} in the folder that this service may read.")
    return str(path)


#: time: no answer soon enough; connection: nobody there, or it broke off; nonsense: an answer that is no judgement;
#: refused: it answered that it will not; judge: it tried and says itself that it could not
FailureKind = Literal["time", "connection", "nonsense", "refused", "judge"]
KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
Again = Literal["later", "smaller", "never"]
#: how `models.endpoint` says what went wrong
_WORDS: tuple[tuple[str, FailureKind], ...] = (
    ("it did not answer within", "time"),
    ("the connection failed", "connection"),
    ("its answer makes no sense", "nonsense"),
    (": it answered ", "refused"),
)


class JudgeError(ModelError):
    """A judge that gave no answer to a whole request. `again`: whether asking again may help, or asking for less."""

    def __init__(self, kind: FailureKind, message: str, again: Again = "later") -> None:
        super().__init__(message)
        self.kind, self.again = kind, again

    def __reduce__(self) -> tuple[Any, ...]:
        return JudgeError, (self.kind, str(self), self.again)


class JudgeRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Cases to be judged, those of one group next to each other. `orders` None: as the service was started."""

    cases: list[Case]
    orders: Orders | None = None


class JudgeReply(msgspec.Struct):
    """A judgement for each case, in their order, and whose they are."""

    judgements: list[Judgement]
    judge: str = ""


class Output(msgspec.Struct, forbid_unknown_fields=True):
    """What a model wrote in answer to a history, for who has no dataset. The language is found out if not given."""

    history: tuple[Said, ...]
    output: str
    reference: str
    language: Language | None = None
    id: str | None = None


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Items of the dataset, or outputs of a model; each is told apart by its field `output`."""

    items: list[msgspec.Raw]
    orders: Orders | None = None


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement with what it is worth. One that failed is worth nothing that could be counted: both are None."""

    id: str
    judgement: Judgement
    parts: dict[str, float] | None
    total: int | None


class ScoreReply(msgspec.Struct):
    """A row for each item, in their order."""

    scores: list[Scored]
    judge: str = ""


class About(msgspec.Struct, kw_only=True):
    """Who judges, and what may be sent."""

    name: str
    kind: Kind
    identity: dict[str, Any]
    fingerprint: str
    orders: Orders
    most_cases: int
    most_bytes: int
    version: str


def scored(judgement: Judgement) -> Scored:
    """The row that is written for a judgement."""
    failed = judgement.failure is not None
    parts, total = (None, None) if failed else (judgement.parts(), judgement.total)
    return Scored(id=judgement.id, judgement=judgement, parts=parts, total=total)


def fingerprint(identity: Mapping[str, Any]) -> str:
    """A short hash of what a judge says it is; the order of the fields and the way through JSON do not matter.

    >>> fingerprint({"kind": "prm", "weights": "ab"}) == fingerprint({"weights": "ab", "kind": "prm"})
    True
    """
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()[:16]


def failed(case: Case, kind: FailureKind, why: str) -> Judgement:
    """The judgement of a case that could not be judged."""
    return Judgement(id=case.id, complete=case.complete, failure=f"{kind}: {why}")


def failure_kind(failure: str) -> FailureKind:
    """The category of a failure, also of one that a judge reports in the words of the model behind it.

    >>> failure_kind("time: no answer within 60 s"), failure_kind("the history is too long")
    ('time', 'judge')
    >>> failure_kind("No answer from qwen at http://127.0.0.1:8000/v1: the connection failed: nobody there.")
    'connection'
    """
    said = failure.partition(":")[0]
    for kind in KINDS:
        if kind == said:
            return kind
    return next((kind for words, kind in _WORDS if words in failure), "judge")


def lack(case: Case, judgement: Judgement, kind: Kind) -> JudgeError | None:
    """What a judgement lacks that asking again may bring: an answer from the model behind the judge, any verdict."""
    if judgement.failure is not None:
        reason = failure_kind(judgement.failure)
        passing = reason in ("time", "connection", "nonsense") or "No answer from" in judgement.failure
        return JudgeError(reason, judgement.failure.removeprefix(f"{reason}: ")) if passing else None
    asked = (kind != "orm" and any(case.steps)) or (kind != "prm" and case.comparable)
    said = [step.value for step in judgement.steps] + [pair.preference for pair in judgement.pairs]
    return JudgeError("nonsense", "it gave no verdict at all") if asked and set(said) <= {None} else None


def problem_with(cases: Sequence[Case], judgements: Sequence[Judgement]) -> str | None:
    """Why these cannot be the judgements of these cases, or None.

    Whether the format is complete was found out before anybody was asked; a judge cannot change it.
    """
    if len(judgements) != len(cases):
        return f"{len(judgements)} judgements for {len(cases)} cases"
    for case, judgement in zip(cases, judgements, strict=True):
        if judgement.id != case.id:
            return f"a judgement of {judgement.id!r:.80} where {case.id!r:.80} was asked about"
        if judgement.complete != case.complete:
            return f"{case.id!r:.80}: another word on the format than the parser's"
        known = [step.p for step in judgement.steps if step.p is not None]
        known += [value for pair in judgement.pairs for value in pair.p.values()]
        if not all(-1e-6 <= value <= 1 + 1e-6 for value in known):  # false for a NaN too
            return f"{case.id!r:.80}: a probability outside of 0 to 1"
        missing = [step is None for step in case.steps]
        if any(gone and step.value is not None for gone, step in zip(missing, judgement.steps, strict=True)):
            return f"{case.id!r:.80}: a verdict on a step that is not there"
    return None
