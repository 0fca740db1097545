"""The coordinator's pages that are about labelling: making a project, and one with its progress by question."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from compeer.cer.item import Question
from compeer.people.labelling_project import Progress, Project, create_project, progress
from compeer.people.protocol import STATUSES
from compeer.people.store import Store
from compeer.studio.rooms.label.figures import Stretch, stretches
from compeer.studio.rooms.label.files import source
from compeer.studio.rooms.workplace.coordinate import Coordination, FormName, Lease, Named, Typed
from compeer.studio.words import Say

EMPTY = {"name": "", "path": "", "images": "", "guideline": "1", "lease": 15, "audit": 5}


class Counted(NamedTuple):
    """What takes a moment to count in a large project."""

    now: Progress
    bars: dict[Question, list[Stretch]]


def add(router: APIRouter, store: Store, coordination: Coordination[Project]) -> None:
    @router.get("/new")
    def new(request: Request) -> Response:
        return coordination.blank(request, EMPTY)

    @router.post("/new")
    def create(
        request: Request,
        form: FormName,
        name: Named = "",
        path: Typed = "",
        images: Typed = "",
        guideline: Annotated[str, Form(min_length=1, max_length=100)] = "1",
        lease: Lease = 15.0,
        audit: Annotated[float, Form(ge=0, le=100)] = 5.0,
        file: Annotated[UploadFile | None, File()] = None,
    ) -> Response:
        given = {"name": name, "path": path, "images": images, "guideline": guideline, "lease": lease, "audit": audit}

        def make(say: Say) -> int:
            found = source(coordination.settings, say, file, path.strip(), images.strip())
            made = create_project(
                store, name, found.items, images=found.images, guideline=guideline, lease_minutes=lease,
                audit_share=audit / 100,
            )  # fmt: skip
            return made.project.id

        return coordination.create(request, form, given, make)

    def overview(request: Request, found: Project, wrong: str | None) -> Response:
        def count() -> Counted:
            now, order = progress(store, found.id), STATUSES[1:] + STATUSES[:1]
            bars = {name: stretches((one, counts[one]) for one in order) for name, counts in now.questions.items()}
            return Counted(now, bars)

        return coordination.overview(request, found, wrong, count)

    coordination.add(router, overview)
