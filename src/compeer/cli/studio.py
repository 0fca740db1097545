"""compeer studio: the web app with its rooms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.cores import left_to_the_model


def studio(
    host: Annotated[str, typer.Option(help="Other machines reach it only together with --public.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one; it is printed.")] = 8030,
    db: Annotated[
        str | None,
        typer.Option(help="Labels and votes: a SQLite file or a postgresql:// address. Without it: no labelling."),
    ] = None,
    items: Annotated[
        list[Path] | None,
        typer.Option(
            "--items", help="Folder with items and pictures to make labelling projects from; may be repeated."
        ),
    ] = None,
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", help="Folder with runs and evaluations; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Model to talk with, as for chat; may be repeated. Without: none."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Server of models named openai:NAME. Default: $OPENAI_BASE_URL.")
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(envvar="COMPEER_GUARD", help="A model that screens messages beside the word list, as for chat."),
    ] = None,
    country: Annotated[
        str | None,
        typer.Option(
            envvar="COMPEER_COUNTRY", help="Whose helplines are shown first, as in GB. Default: the browser's."
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(help="The address others use, as https://studio.example.org. Everybody needs a link then."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the studio keeps its own secret. Default: your data folder.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="COMPEER_STUDIO_TOKEN", help="Of the coordinator's link. Default: a new one.", show_default=False
        ),
    ] = None,
) -> None:
    """Open the studio in the browser: talk, label, compare, look at runs. docs/studio.md tells more."""
    left_to_the_model()
    import msgspec

    from compeer.errors import UserError

    try:
        from compeer.studio.serve import serve
        from compeer.studio.settings import Settings
    except ModuleNotFoundError as error:
        raise UserError(f"The studio needs {error.name}. Install it: pip install 'compeer[studio]'") from None
    for name, holds, folders in (("--runs", "runs", runs), ("--items", "items", items)):
        for folder in folders or []:
            if not folder.is_dir():
                raise UserError(f"{name} {folder} is no folder. Give one that holds {holds}, or leave it out.")
    settings = Settings(
        host=host,
        port=port,
        db=db,
        items=tuple(items or ()),
        runs=tuple(runs or ()),
        models=tuple(model or ()),
        base_url=base_url,
        guard=guard,
        country=country,
        public=public,
        token=token,
    )
    serve(msgspec.structs.replace(settings, data=data) if data is not None else settings)
