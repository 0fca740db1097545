"""What the judge's service and its clients exchange: requests, replies, images, and kinds of failure.

Everything is JSON. A reply carries the fingerprint of the judge that gave it, so that a service restarted with other
weights is noticed at once.

A judgement that is missing says why in `failure`, as "KIND: what happened": readable as a sentence and countable as a
category.

Images travel inside the request as data URLs. The service never opens a file because a request names it: an image
comes inside the request, or is in the one folder that the operator allowed. Nothing is fetched from an address.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.models.request import FailureKind, ModelError, NoAnswer, image_bytes
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders
from compeer.reward.verdict import Kind

FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


class JudgeError(NoAnswer):
    """No answer to a whole request, which may help later or with fewer cases."""


class JudgeRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Cases to judge, those of one group next to each other. `orders` None: the service's default."""

    cases: list[Case]
    orders: Orders | None = None


class JudgeReply(msgspec.Struct):
    """A judgement per case, in the order of the cases, and the fingerprint of the judge."""

    judgements: list[Judgement]
    judge: str = ""


class ModelOutput(msgspec.Struct, forbid_unknown_fields=True):
    """A model's output for a history, for callers without a dataset. The language is detected if not given."""

    history: tuple[PastTurn, ...]
    output: str
    reference: str
    language: Language | None = None
    id: str | None = None


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Items of the dataset, or outputs of a model, which have a field `output`."""

    items: list[msgspec.Raw]
    orders: Orders | None = None


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement with its reward. Both parts and total are None for a judgement that failed."""

    id: str
    judgement: Judgement
    parts: dict[str, float] | None
    total: int | None


class ScoreReply(msgspec.Struct):
    """A row per item, in the order of the items."""

    scores: list[Scored]
    judge: str = ""


class ServiceInfo(msgspec.Struct, kw_only=True):
    """Which judge is served, and what may be sent."""

    name: str
    kind: Kind
    identity: dict[str, Any]
    fingerprint: str
    orders: Orders
    most_cases: int
    most_bytes: int
    version: str


def score_of(judgement: Judgement) -> Scored:
    """The row that is written for a judgement."""
    failed = judgement.failure is not None
    parts, total = (None, None) if failed else (judgement.parts(), judgement.total)
    return Scored(id=judgement.id, judgement=judgement, parts=parts, total=total)


def fingerprint(identity: Mapping[str, Any]) -> str:
    """A short hash of a judge's identity, independent of the order of its fields.

    >>> fingerprint({"kind": "prm", "weights": "ab"}) == fingerprint({"weights": "ab", "kind": "prm"})
    True
    """
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()[:16]


def failed_judgement(case: Case, kind: FailureKind, why: str) -> Judgement:
    return Judgement(id=case.id, complete=case.complete, failure=f"{kind}: {why}")


def failure_kind(failure: str) -> FailureKind:
    """The category of a failure.

    >>> failure_kind("time: no answer within 60 s"), failure_kind("the history is too long")
    ('time', 'judge')
    """
    named = failure.partition(":")[0]
    return next((kind for kind in FAILURE_KINDS if kind == named), "judge")


def missing_answer(case: Case, judgement: Judgement, kind: Kind) -> JudgeError | None:
    """What a judgement lacks that asking again may bring: an answer from the model behind the judge, any verdict."""
    if judgement.failure is not None:
        reason = failure_kind(judgement.failure)
        passing = reason in ("time", "connection", "nonsense") or "No answer from" in judgement.failure
        return JudgeError(reason, judgement.failure.removeprefix(f"{reason}: ")) if passing else None
    asked = (kind != "orm" and any(case.steps)) or (kind != "prm" and case.comparable)
    given = [step.value for step in judgement.steps] + [pair.preference for pair in judgement.pairs]
    return JudgeError("nonsense", "it gave no verdict at all") if asked and set(given) <= {None} else None


def reply_problem(cases: Sequence[Case], judgements: Sequence[Judgement]) -> str | None:
    """Why these cannot be the judgements of these cases, or None.

    Whether the format is complete is known before the judge is asked; a judge cannot change it.
    """
    if len(judgements) != len(cases):
        return f"{len(judgements)} judgements for {len(cases)} cases"
    for case, judgement in zip(cases, judgements, strict=True):
        if judgement.id != case.id:
            return f"a judgement of {judgement.id!r:.80} where {case.id!r:.80} was asked about"
        if judgement.complete != case.complete:
            return f"{case.id!r:.80}: another result on the format than the parser's"
        known = [step.p for step in judgement.steps if step.p is not None]
        known += [value for pair in judgement.pairs for value in pair.p.values()]
        if not all(-1e-6 <= value <= 1 + 1e-6 for value in known):  # false for a NaN too
            return f"{case.id!r:.80}: a probability outside of 0 to 1"
        missing = [step is None for step in case.steps]
        if any(gone and step.value is not None for gone, step in zip(missing, judgement.steps, strict=True)):
            return f"{case.id!r:.80}: a verdict on a step that is not there"
    return None


_DATA_URL = re.compile(r"data:image/[a-z+]+;base64,", re.IGNORECASE)


class PictureRefused(UserError):
    """An image that cannot be used."""


def with_embedded_pictures(case: Case) -> Case:
    """The case with its images inside it, as data URLs."""
    return _with_pictures(case, _data_url)


def with_checked_pictures(cases: Sequence[Case], allowed: Path | None) -> list[Case]:
    """The cases as a service may judge them: images are data URLs of real images, or files in the folder `allowed`."""

    def checked(name: str) -> str:
        return _checked_data_url(name) if name[:5].lower() == "data:" else _allowed_file(name, allowed)

    return [_with_pictures(case, checked) for case in cases]


def _with_pictures(case: Case, change: Callable[[str], str]) -> Case:
    if not any(turn.images for turn in case.history):
        return case
    history = [msgspec.structs.replace(turn, images=tuple(map(change, turn.images))) for turn in case.history]
    return msgspec.structs.replace(case, history=tuple(history))


def _picture(name: str) -> tuple[bytes, str | None]:
    """An image and its media type by its first bytes."""
    from compeer.http_service import picture_type

    try:
        data = image_bytes(name)
    except ModelError as error:
        raise PictureRefused(str(error)) from None
    return data, picture_type(data)


def _data_url(path: str) -> str:
    if _DATA_URL.match(path):
        return path
    data, kind = _picture(path)
    return f"data:{kind or 'image/png'};base64,{base64.b64encode(data).decode()}"


def _checked_data_url(url: str) -> str:
    encoded = url.partition(",")[2]
    kind = _picture("data:," + encoded)[1] if _DATA_URL.match(url) else None
    if kind is None:
        raise PictureRefused("An image is a PNG, JPEG, GIF, WebP or BMP file, sent as data:image/png;base64,….")
    return f"data:{kind};base64,{encoded}"


def _allowed_file(name: str, allowed: Path | None) -> str:
    if allowed is None:
        raise PictureRefused("This service opens no files. Send images as data:image/…;base64,… inside the request.")
    try:
        path = (allowed / name).resolve()
        inside = path.is_relative_to(allowed.resolve()) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:  # do not tell whether the file exists elsewhere
        raise PictureRefused(f"There is no picture {name[:200]!r} in the folder that this service may read.")
    return str(path)
