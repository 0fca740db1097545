"""What an arena compares: cases, and each model's reply to each case.

A case is a conversation up to the point where somebody needs an answer, text and pictures, one row of JSON lines:

    {"id": "mesc/12#3", "language": "en", "history": [{"speaker": "seeker", "text": "…", "images": ["12/face.png"]}]}

Pictures are paths below one folder, which is named when the file is used. Dialogues of any corpus become cases by
cutting them at a round drawn by the paper's equation 1, so earlier and later moments come up as they do in CER.

Replies are generated in reasoning mode or imported. All models reason, as in the paper: without it a model's style
gives it away. Generation is a stage of the runner: it resumes where it was stopped, asks nothing twice, and writes what
failed beside the output with a reason. A model that cannot see is asked without the pictures, and its replies say so.
Replies of other programs come as JSON lines with `case` and either `raw`, the whole output with its reasoning, or
`response`, the reply alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from compeer.cer.item import PastTurn, said
from compeer.cer.sample import sample_rounds
from compeer.dialogue import Dialogue, messages, read_rows, rounds
from compeer.errors import UserError
from compeer.models.ask import reason, request_for
from compeer.people.projects import check_unique
from compeer.pipeline.ledger import Manifest
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Progress, Reject, Stage, Tools
from compeer.pipeline.work import ModelSpec
from compeer.reasoning import Reasoning, parse
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words
from compeer.typed import from_plain


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation to be answered; it ends with the seeker."""

    id: Annotated[str, Meta(min_length=1, max_length=500)]
    language: Language = "en"
    history: Annotated[tuple[PastTurn, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.history[-1].speaker != "seeker":
            raise ValueError("the last turn must be the seeker's, since a reply follows it")

    @property
    def images(self) -> list[str]:
        """All pictures, in the order in which they are shown."""
        return [path for turn in self.history for path in turn.images]


def read_cases(path: str | Path) -> list[Case]:
    """All cases of a file; an id may occur once."""
    found = list(read_rows(path, Case))
    if not found:
        raise UserError(f"There are no cases in {path}.")
    check_unique([case.id for case in found], f"The case {{}} stands twice in {path}; each must have an id of its own.")
    return found


def cases_of(
    dialogues: Iterable[Dialogue], *, count: int | None = None, pictures: bool = False, seed: int = 0
) -> Iterator[Case]:
    """A case from each dialogue, at most `count`; with `pictures` only those whose history shows one.

    The round is drawn for each dialogue by itself, so more dialogues change nothing about the others' cases.
    """
    made = 0
    for dialogue in dialogues:
        if count is not None and made >= count:
            return
        usable = [one for one in rounds(dialogue) if one.seeker is not None]
        if not usable:
            continue
        digest = hashlib.sha256(f"{seed}\x1f{dialogue.id}".encode()).digest()
        moment = usable[sample_rounds(len(usable), 1, Random(digest))[0] - 1]
        told = tuple(map(said, moment.history))
        case = Case(id=f"{dialogue.id}#{moment.index}", language=dialogue.language, history=told)
        if case.images or not pictures:
            made += 1
            yield case


SUPPORTER = "supporter"
WITHOUT_PICTURES = "the pictures were not shown to this model"


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model's answer to one case. `notes` say what is wrong with it; people who compare never see them."""

    case: Annotated[str, Meta(min_length=1)]
    model: Annotated[str, Meta(min_length=1, max_length=200)]
    response: str
    reasoning: Reasoning | None = None
    notes: tuple[str, ...] = ()


class ImportedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as another program wrote it."""

    case: str
    model: str | None = None
    response: str | None = None
    raw: str | None = None


class GenerationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How models are asked; the same for all of them."""

    name: str = ""
    images: str = ""
    temperature: Annotated[float, Meta(ge=0)] = 0.7
    max_tokens: Annotated[int, Meta(ge=1)] = 2_000
    attempts: Annotated[int, Meta(ge=1)] = 3
    grammar: bool = True
    length: Length = "full"


async def answer(case: Case, tools: Tools) -> Reply | Reject:
    """One reasoned turn."""
    options = from_plain(tools.options, GenerationOptions)
    model = tools.models[SUPPORTER]
    request = request_for(
        messages(case.history, images=model.sees, folder=Path(options.images) if options.images else None),
        case.language,
        length=options.length,
        grammar=options.grammar,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        seed=tools.rng(case.id).getrandbits(31),
    )
    turn = await reason(model, request, attempts=options.attempts)
    response = turn.parsed.response.strip()
    if not has_words(response):
        return Reject(case.id, "empty", "there is no reply to compare")
    notes = (WITHOUT_PICTURES,) if case.images and not model.sees else ()
    return Reply(
        case=case.id,
        model=options.name,
        response=response,
        reasoning=turn.parsed.reasoning if turn.parsed.complete else None,
        notes=(*notes, *map(str, turn.problems)),
    )


STAGE = Stage(
    name="arena replies",
    function=answer,
    reads=Case,
    writes=Reply,
    roles=(SUPPORTER,),
    calls_per_row=1.1,
    tokens_per_call=(900, 350),
    options=GenerationOptions,
)


def generate(
    cases: Path,
    out: Path,
    spec: ModelSpec,
    options: GenerationOptions,
    *,
    seed: int = 0,
    concurrency: int = 16,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Let one model answer all cases into `out`; run it again to go on."""
    options = msgspec.structs.replace(options, name=options.name or spec.spec)
    return run_stage(
        STAGE,
        cases,
        out,
        Tools(seed=seed, options=msgspec.to_builtins(options)),
        model_specs={SUPPORTER: spec},
        concurrency=concurrency,
        limit=limit,
        progress=progress,
    )


def read_replies(paths: Iterable[str | Path]) -> list[Reply]:
    """Replies of several files."""
    return [reply for path in paths for reply in read_rows(path, Reply)]


def import_replies(path: Path, cases: Sequence[Case], model: str | None = None) -> list[Reply]:
    """Replies that another program wrote, checked against the cases. `model` names those that say no name."""
    known, found = {case.id for case in cases}, []
    for number, row in enumerate(read_rows(path, ImportedReply), start=1):
        where = f"{path}, reply {number} (case {row.case})"
        name = row.model or model
        if not name:
            raise UserError(f"{where}: which model wrote it? Name it in the file, or with --as.")
        if row.case not in known:
            raise UserError(f"{where}: there is no such case.")
        if (row.raw is None) == (row.response is None):
            raise UserError(f"{where}: give the whole output as `raw`, or the reply alone as `response`.")
        found.append(_read(row, name))
        if not has_words(found[-1].response):
            raise UserError(f"{where}: there is no reply to compare.")
    if not found:
        raise UserError(f"There are no replies in {path}.")
    names = (f"{reply.model}'s reply to {reply.case}" for reply in found)
    check_unique(names, f"{{}} stands twice in {path}.")
    return found


def missing_replies(cases: Sequence[Case], replies: Sequence[Reply]) -> Counter[str]:
    """How many cases each model has left unanswered."""
    names, known = {reply.model for reply in replies}, {case.id for case in cases}
    answered = Counter(reply.model for reply in replies if reply.case in known)
    return Counter({name: len(known) - answered[name] for name in sorted(names) if answered[name] < len(known)})


def _read(row: ImportedReply, name: str) -> Reply:
    if row.raw is None:
        return Reply(case=row.case, model=name, response=(row.response or "").strip())
    parsed = parse(row.raw)
    reasoning = parsed.reasoning if parsed.complete else None
    notes = tuple(map(str, parsed.problems))
    return Reply(case=row.case, model=name, response=parsed.response.strip(), reasoning=reasoning, notes=notes)
