"""The coordinator's pages that set a project up: the guideline's text in versions, own questions, a preview.

What a coordinator writes is Markdown without HTML, pictures or links that run anything; it is rendered here and nowhere
else. The preview is the annotator's page with an item of the project: its answers go nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Query, UploadFile
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.cer.item import QUESTIONS
from compeer.config import read_yaml
from compeer.errors import UserError
from compeer.people import guideline
from compeer.people.projects import Project
from compeer.people.store import Store
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.studio.pages import Say, pages, say_in
from compeer.studio.rooms.workplace.coordinator import CoordinatorPages, received, sent_fields

PARTS = guideline.QuestionGuide.__struct_fields__
_EMPTY_QUESTIONS = 2  # rows of the form that are still to be filled in


#: what stands before the name of a form's field for a question of the project's own
OWN_FIELD = "own:"
_SENT: dict[str, bool] = {"true": True, "false": False}


async def sent_answers(request: Request) -> dict[str, Any]:
    """The answers that a form sends, by question."""
    sent = (await sent_fields(request)).items()
    given = [(name, value) for name, value in sent if name in QUESTIONS or name.startswith(OWN_FIELD)]
    return {name.removeprefix(OWN_FIELD): _SENT.get(value, value) for name, value in given}


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable("image").enable("table")


@cache
def markdown(text: str) -> Markup:
    """Markdown as HTML. Tags in the text are shown as they are typed, and links only lead to pages.

    >>> print(markdown("**Only** the <b>reply</b>, see [x](javascript:alert(1))"), end="")
    <p><strong>Only</strong> the &lt;b&gt;reply&lt;/b&gt;, see [x](javascript:alert(1))</p>
    """
    return Markup(_MARKDOWN.render(text))


class QuestionNames:
    """Names of questions and answers: the interface's for the paper's questions, the project's for its own."""

    def __init__(self, own: Sequence[guideline.OwnQuestion], say: Say) -> None:
        self._own, self._say = {one.id: one for one in own}, say

    def question(self, name: str) -> str:
        mine = self._own.get(name)
        return guideline.in_language(mine.text, self._say.language) if mine else self._say(f"workplace.ask.{name}")

    def answer(self, name: str, value: str) -> str:
        mine = {one.id: one.text for one in self._own[name].answers} if name in self._own else {}
        return (
            guideline.in_language(mine[value], self._say.language)
            if value in mine
            else self._say(f"label.value.{value}")
        )


def question_names(request: Request, store: Store, project: int) -> QuestionNames:
    return QuestionNames(guideline.own_questions(store, project), say_in(request))


def add(router: APIRouter, coordinator: CoordinatorPages) -> None:
    store, project = coordinator.store, coordinator.project

    @router.get("/projects/{number}/guideline")
    def look(
        request: Request, version: Annotated[str, Query(max_length=100)] = "", found: Project = Depends(project)
    ) -> Response:
        return guideline_page(request, found, version=version)

    @router.post("/projects/{number}/guideline")
    def write(
        request: Request, sent: Annotated[dict[str, str], Depends(sent_fields)], found: Project = Depends(project)
    ) -> Response:
        coordinator.forms.use(sent.get("form", ""))
        given = guideline_of(sent, asked(found))
        try:
            guideline.save_guideline(store, found.id, given, sent.get("version", ""))
        except UserError as error:
            return guideline_page(request, found, given, str(error))
        return RedirectResponse(f"{coordinator.at(found.id)}/guideline?saved=1", 303)

    def asked(found: Project) -> list[str]:
        """All questions of a project, the paper's first."""
        return [*QUESTIONS, *(one.id for one in guideline.own_questions(store, found.id))]

    def guideline_page(
        request: Request,
        found: Project,
        given: guideline.Guideline | None = None,
        wrong: str | None = None,
        version: str = "",
    ) -> Response:
        known = guideline.guideline_versions(store, found.id)
        shown = next((one for one in known if one.version == version), known[0])
        values = coordinator.about(found, known=known, shown=shown, text=given or shown.guideline, wrong=wrong)
        values |= {"asked": asked(found), "names": question_names(request, store, found.id), "parts": PARTS}
        saved = "saved" in request.query_params
        return pages(request).page(request, "label/guideline.html", saved=saved, **values)

    @router.get("/projects/{number}/questions")
    def questions(request: Request, found: Project = Depends(project)) -> Response:
        return questions_page(request, found, _rows(guideline.own_questions(store, found.id)))

    @router.post("/projects/{number}/questions")
    def ask(
        request: Request,
        sent: Annotated[dict[str, str], Depends(sent_fields)],
        file: Annotated[UploadFile | None, File()] = None,
        found: Project = Depends(project),
    ) -> Response:
        coordinator.forms.use(sent.get("form", ""))
        rows = rows_of(sent)
        try:
            plain: Any = [_plain(row) for row in rows if any(row.values())]
            if file is not None and file.filename:
                with received(file) as (copy,):
                    plain = read_yaml(copy)
            guideline.set_questions(store, found.id, guideline.read_questions(plain))
        except UserError as error:
            return questions_page(request, found, rows, str(error))
        return RedirectResponse(coordinator.at(found.id), 303)

    def questions_page(
        request: Request, found: Project, rows: list[dict[str, str]], wrong: str | None = None
    ) -> Response:
        filled = [row for row in rows if any(row.values())]
        empty = [dict.fromkeys(_FIELDS, "") for _ in range(_EMPTY_QUESTIONS)]
        values = coordinator.about(found, rows=filled + empty, wrong=wrong)
        return pages(request).page(request, "label/questions.html", **values)


def guideline_of(sent: Mapping[str, str], questions: Sequence[str]) -> guideline.Guideline:
    """The guideline that a form sends: fields such as history.en.rule, and message.en."""

    def text(name: str) -> str:
        return sent.get(name, "").replace("\r\n", "\n").strip()

    found: dict[str, dict[Language, guideline.QuestionGuide]] = {}
    for name in questions:
        guides = {one: guideline.QuestionGuide(*(text(f"{name}.{one}.{part}") for part in PARTS)) for one in LANGUAGES}
        found[name] = {one: guide for one, guide in guides.items() if guide != guideline.QuestionGuide()}
    return guideline.Guideline(
        {one: said for one in LANGUAGES if (said := text(f"message.{one}"))},
        {name: guides for name, guides in found.items() if guides},
    )


_FIELDS = ("id", "en", "zh", "answers")


def rows_of(sent: Mapping[str, str]) -> list[dict[str, str]]:
    """The rows of the form of questions: fields such as id.0, en.0, zh.0, answers.0."""
    numbers = sorted({int(name[3:]) for name in sent if name.startswith("id.") and name[3:].isdigit()})
    return [{field: sent.get(f"{field}.{n}", "").strip() for field in _FIELDS} for n in numbers[:20]]


def _plain(row: Mapping[str, str]) -> dict[str, Any]:
    """A row in the form that YAML files have. Answers are lines such as: warm | Warm | 温暖"""
    answers = []
    for line in filter(None, map(str.strip, row["answers"].splitlines())):
        name, *texts = (part.strip() for part in line.split("|"))
        said = dict(zip(LANGUAGES, texts, strict=False)) if texts else {"en": name}
        answers.append({"id": name, "text": said})
    return {"id": row["id"], "text": {"en": row["en"], "zh": row["zh"]}, "answers": answers}


def _rows(questions: Sequence[guideline.OwnQuestion]) -> list[dict[str, str]]:
    def line(texts: Mapping[Language, str], name: str) -> str:
        return " | ".join([name, *(texts.get(one, "") for one in LANGUAGES)]).rstrip(" |")

    return [
        {
            "id": one.id,
            "en": one.text.get("en", ""),
            "zh": one.text.get("zh", ""),
            "answers": "\n".join(line(each.text, each.id) for each in one.answers),
        }
        for one in questions
    ]
