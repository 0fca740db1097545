"""What compeer annotate and compeer arena have in common: the database, personal links, pausing, how things are told.

Both work on one database of people. `add` gives a group of commands `invite` and `pause`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.people.projects import Founded
    from compeer.people.store import Store

Db = Annotated[
    str, typer.Option("--db", envvar="COMPEER_ANNOTATION_DB", help="A SQLite file, or postgresql://USER@HOST/NAME.")
]
DB = "annotation.db"
Name = Annotated[str | None, typer.Option("--name", help="Which one, where the database holds several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
People = Annotated[list[str], typer.Argument(help="One name or more.", show_default=False)]


def ready() -> None:
    """Say what to install before anything is imported that needs it."""
    from importlib.util import find_spec

    from compeer.errors import UserError

    if missing := [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]:
        raise UserError(f'This needs {" and ".join(missing)}: pip install "compeer[studio]"')


def add(app: typer.Typer, find: Callable[[Store, str | None], Founded]) -> None:
    """The commands about people; `find` is the project, or the arena, of a name."""

    @app.command()
    def invite(
        people: People,
        role: Annotated[str, typer.Option(help="annotator or coordinator.")] = "annotator",
        new_link: Annotated[bool, typer.Option("--new-link", help="Replace the link of somebody who is in.")] = False,
        revoke: Annotated[bool, typer.Option("--revoke", help="End somebody's access; their votes stay.")] = False,
        address: Annotated[
            str, typer.Option(help="Where the studio is reached, for the links.")
        ] = "http://127.0.0.1:8030",
        name: Name = None,
        db: Db = DB,
        as_json: AsJson = False,
    ) -> None:
        """Make personal links. Each is shown once: only its hash is kept."""
        store = opened(db)
        from compeer.errors import UserError
        from compeer.people import invitations as access

        if role not in ("annotator", "coordinator"):
            raise UserError(f"--role is annotator or coordinator, not {role!r}.")
        number = find(store, name).id
        if revoke:
            for person in people:
                access.revoke(store, number, person)
            tell({"revoked": people}, as_json, [f"The links of {', '.join(people)} no longer work."])
            return
        made = [
            access.new_link(store, number, person) if new_link else access.invite(store, number, person, role)  # type: ignore[arg-type]
            for person in people
        ]
        base = address.rstrip("/")
        rows = [{"name": one.person.name, "role": one.person.role, "link": f"{base}/enter/{one.token}"} for one in made]
        tell(rows, as_json, [f"{row['name']}: {row['link']}" for row in rows])

    @app.command()
    def pause(
        people: People,
        resume: Annotated[bool, typer.Option("--resume", help="Let them go on.")] = False,
        name: Name = None,
        db: Db = DB,
        as_json: AsJson = False,
    ) -> None:
        """Give somebody nothing more for now. What they hold goes back to the queue."""
        store = opened(db)
        from compeer.people.invitations import pause as change

        number = find(store, name).id
        for person in people:
            change(store, number, person, not resume)
        said = f"{', '.join(people)}: {'at work again' if resume else 'paused'}."
        tell({"people": people, "paused": not resume}, as_json, [said])


def opened(db: str) -> Store:
    """A database that is there already."""
    ready()
    from compeer.people.store import open_store

    return open_store(db, create=False)


def show(result: Any, as_json: bool, tables: Callable[[], Any]) -> None:
    """A record as JSON, or as tables for a terminal."""
    if as_json:
        import msgspec

        tell(msgspec.to_builtins(result), True)
    else:
        from rich.console import Console

        Console().print(*tables(), sep="\n")


def tell(result: Any, as_json: bool, said: list[str] | None = None) -> None:
    """What a command has done, as JSON or in words."""
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False) if as_json else "\n".join(said or []))
