"""What people are asked: the guideline's text in versions, and questions of a project's own beside the paper's four.

**Guideline.** For each question and language a rule, a right and a wrong example, and why the wrong one is wrong, all
in Markdown. A coordinator's text is saved as a new version; votes keep the version that was shown when they were given.
A project without a text of its own shows guideline.json, under the version that the project was created with.

**Own questions.** A question has an id, a text, and a closed list of answers, in English, Chinese or both. They are
answered, decided and measured like the others: two votes, a third where they differ. In an export they are in
`trace.annotation.questions`, so that whoever reads CER items is not disturbed. As YAML or JSON:

    questions:
      - id: warmth
        text: {en: "How warm is the better reply?", zh: 较好的回复有多温暖？}
        answers:
          - {id: cold, text: Cold}
          - {id: warm, text: {en: Warm, zh: 温暖}}

They can be changed until the first item is given out; after that only their texts can, because votes refer to the ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select, update

from compeer.cer.item import QUESTIONS
from compeer.errors import UserError
from compeer.people.store import Store, transaction
from compeer.people.tables import guidelines, items, leases, projects
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.typed import from_json, from_plain

_ID = re.compile(r"[a-z][a-z0-9_]{0,19}")
_RESERVED = {*QUESTIONS, "unsure", "true", "false", "candidate", "reference", "first", "second"}
_LONGEST_TEXT = 20_000
_LONGEST_IDS = 60  # of all ids together: a column of the store holds those of one item


class QuestionGuide(msgspec.Struct, frozen=True, omit_defaults=True):
    """The guideline of one question in one language, in Markdown. What is empty is not shown."""

    rule: str = ""
    right: str = ""
    wrong: str = ""
    why: str = ""


class Guideline(msgspec.Struct, frozen=True, omit_defaults=True):
    """A guideline: texts by question and language, and the message that its examples are about."""

    message: dict[Language, str] = {}
    questions: dict[str, dict[Language, QuestionGuide]] = {}

    def guide(self, question: str, language: Language) -> QuestionGuide:
        """The text in this language, else in the other."""
        texts = self.questions.get(question, {})
        return next((texts[one] for one in (language, *LANGUAGES) if texts.get(one, _NOTHING) != _NOTHING), _NOTHING)


_NOTHING = QuestionGuide()


class GuidelineVersion(msgspec.Struct, frozen=True):
    """A guideline with its version; `at` is when it was saved, None for the one that comes with COMPEER."""

    version: str
    guideline: Guideline
    at: float | None = None


@cache
def default_guideline() -> Guideline:
    """The guideline that comes with COMPEER."""
    return from_json((Path(__file__).parent / "guideline.json").read_bytes(), Guideline)


def guideline_versions(store: Store, project: int) -> list[GuidelineVersion]:
    """All versions of a project's guideline, the newest first; the first that votes could refer to is last."""
    saved = select(guidelines).where(guidelines.c.project == project).order_by(guidelines.c.id.desc())
    with store.read() as db:
        rows = db.execute(saved).all()
        now = db.execute(select(projects.c.guideline).where(projects.c.id == project)).scalar_one()
    found = [GuidelineVersion(row.version, from_json(row.content, Guideline), row.at) for row in rows]
    return found or [GuidelineVersion(now, default_guideline())]


def current_guideline(store: Store, project: int) -> GuidelineVersion:
    """The version that people see now."""
    return guideline_versions(store, project)[0]


def save_guideline(store: Store, project: int, guideline: Guideline, version: str = "") -> GuidelineVersion:
    """Save a text as a new version, which people see from now on. Without a name it is numbered."""
    known = guideline_versions(store, project)
    if known[0].guideline == guideline and version in ("", known[0].version):
        return known[0]  # nothing was changed
    texts = [*guideline.message.values()]
    guides = [guide for one in guideline.questions.values() for guide in one.values()]
    texts += [text for guide in guides for text in msgspec.structs.astuple(guide)]
    if any(len(text) > _LONGEST_TEXT for text in texts):
        raise UserError(f"A text of the guideline has at most {_LONGEST_TEXT:,} characters.")
    taken = {one.version for one in known}
    name = version.strip() or next(str(n) for n in range(len(known) + 1, len(known) + 1000) if str(n) not in taken)
    if name in taken or not (len(name) <= 100 and name.isprintable()):
        raise UserError(
            f"Choose a version of at most 100 characters that does not exist yet; {name[:100]!r} does not fit."
        )
    at = store.clock()

    def work(db: Any) -> None:
        if known[0].at is None:  # what was shown so far becomes the first of the saved versions
            first = msgspec.json.encode(known[0].guideline).decode()
            db.execute(insert(guidelines).values(project=project, version=known[0].version, at=at, content=first))
        text = msgspec.json.encode(guideline).decode()
        db.execute(insert(guidelines).values(project=project, version=name, at=at, content=text))
        db.execute(update(projects).where(projects.c.id == project).values(guideline=name))

    store.write(work)
    return GuidelineVersion(name, guideline, at)


def read_guideline(data: Any, questions: Sequence[str]) -> Guideline:
    """A guideline from YAML or JSON: as it is saved, or with plain texts, which are rules, instead of parts."""
    if not isinstance(data, Mapping):
        raise UserError("A guideline has message and questions.")
    plain: dict[str, Any] = {"message": data.get("message", {}), "questions": {}}
    for name, texts in dict(data.get("questions", {})).items():
        if name not in questions:
            raise UserError(f"There is no question {name}; there are: {', '.join(questions)}.")
        by_language = texts if isinstance(texts, Mapping) else {"en": texts}
        plain["questions"][name] = {
            language: one if isinstance(one, Mapping) else {"rule": one} for language, one in by_language.items()
        }
    try:
        return from_plain(plain, Guideline)
    except msgspec.ValidationError as error:
        raise UserError(f"The guideline cannot be read: {error}") from None


class OwnAnswer(msgspec.Struct, frozen=True):
    """One of the answers to a question of a project's own."""

    id: str
    text: dict[Language, str]


class OwnQuestion(msgspec.Struct, frozen=True):
    """A question of a project's own."""

    id: str
    text: dict[Language, str]
    answers: tuple[OwnAnswer, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The ids of the answers."""
        return tuple(one.id for one in self.answers)


def in_language(text: Mapping[Language, str], language: Language) -> str:
    """A text in this language, else in the other.

    >>> in_language({"en": "Warm"}, "zh")
    'Warm'
    """
    return next((text[one] for one in (language, *LANGUAGES) if text.get(one)), "")


def read_questions(data: Any) -> tuple[OwnQuestion, ...]:
    """Questions from YAML, JSON or a form; UserError where they do not fit.

    >>> [one.id for one in read_questions([{"id": "tone", "text": "Tone?", "answers": ["cold", "warm"]}])]
    ['tone']
    """
    data = data.get("questions") if isinstance(data, Mapping) else data
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise UserError("questions is a list; each has an id, a text and answers.")
    try:
        found = from_plain([_question(one) for one in data], tuple[OwnQuestion, ...])
    except (msgspec.ValidationError, TypeError, AttributeError, KeyError) as error:
        raise UserError(
            f"A question has an id, a text and a list of answers, each with an id and a text: {error}"
        ) from None
    ids = [one.id for one in found]
    if len(set(ids)) < len(ids):
        raise UserError("Two questions have the same id.")
    if len(",".join(ids)) > _LONGEST_IDS:
        raise UserError(f"The ids of all questions together have at most {_LONGEST_IDS} characters.")
    for one in found:
        for name in (one.id, *one.values):
            if not _ID.fullmatch(name) or name in _RESERVED:
                raise UserError(
                    f"{name!r} cannot be an id: it has 1 to 20 lower-case letters, digits and _, begins with a letter, "
                    f"and is not one of {', '.join(sorted(_RESERVED))}."
                )
        if not 2 <= len(set(one.values)) == len(one.values) <= 8:
            raise UserError(f"The question {one.id} has {len(one.values)} answers; 2 to 8 different ones are needed.")
        if not all(in_language(text, "en").strip() for text in (one.text, *(each.text for each in one.answers))):
            raise UserError(f"The question {one.id} or one of its answers has no text.")
    return found


def _question(given: Any) -> dict[str, Any]:
    answers = [{"id": one, "text": one} if isinstance(one, str) else one for one in given["answers"]]
    return {
        "id": given["id"],
        "text": _by_language(given["text"]),
        "answers": [{"id": one["id"], "text": _by_language(one["text"])} for one in answers],
    }


def _by_language(text: Any) -> Any:
    return {"en": text} if isinstance(text, str) else {name: said for name, said in text.items() if said}


def own_questions(store: Store, project: int) -> tuple[OwnQuestion, ...]:
    """The questions of a project's own."""
    with store.read() as db:
        return stored_questions(db.execute(select(projects.c.questions).where(projects.c.id == project)).scalar_one())


def stored_questions(text: str | None) -> tuple[OwnQuestion, ...]:
    """The questions as the column of a project holds them."""
    return from_json(text, tuple[OwnQuestion, ...]) if text else ()


@transaction
def set_questions(store: Store, db: Connection, project: int, questions: Sequence[OwnQuestion]) -> None:
    """Ask these questions of every item. Once something was given out only the texts can be changed."""
    shape = [(one.id, one.values) for one in questions]
    text = db.execute(store.locked(select(projects.c.questions).where(projects.c.id == project))).scalar_one()
    before = stored_questions(text)
    begun = select(leases.c.id).join(items, items.c.id == leases.c.item).where(items.c.project == project)
    if shape != [(one.id, one.values) for one in before]:
        if db.execute(begun.limit(1)).first() is not None:
            raise UserError("Items have been given out already, so only the texts of questions can be changed.")
        kinds = db.execute(select(items.c.questions).where(items.c.project == project).distinct()).scalars().all()
        for kind in kinds:
            paper = [name for name in kind.split(",") if name in QUESTIONS]
            asked = ",".join([*paper, *(one.id for one in questions)])
            same = update(items).where(items.c.project == project, items.c.questions == kind)
            db.execute(same.values(questions=asked))
    kept = msgspec.json.encode(list(questions)).decode() if questions else None
    db.execute(update(projects).where(projects.c.id == project).values(questions=kept))
