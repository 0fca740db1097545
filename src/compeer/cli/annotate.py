"""compeer annotate: labelling by people without the page.

compeer annotate create items.jsonl --name pilot
compeer annotate invite anna ben cleo
compeer annotate status
compeer annotate agreement --judgements scores.jsonl
compeer annotate export --out labelled.jsonl
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.annotation.project import Project
    from compeer.annotation.store import Store

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Db = Annotated[
    str, typer.Option("--db", envvar="COMPEER_ANNOTATION_DB", help="A SQLite file, or postgresql://USER@HOST/NAME.")
]
Name = Annotated[str | None, typer.Option("--name", help="The project, where the database holds several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[str, typer.Option("--format", help="cer, label-studio or potato.")]
_DB = "annotation.db"


@app.command()
def create(
    source: Annotated[Path, typer.Argument(help="CER items with candidates, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="What the project is called.")] = "labels",
    db: Db = _DB,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures. Default: that of the items.")] = None,
    guideline: Annotated[str, typer.Option(help="Version of the guideline, noted on every vote.")] = "1",
    lease: Annotated[float, typer.Option(min=0.1, help="Minutes an item stays with somebody who does nothing.")] = 15.0,
    audit: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share that goes out again when it is closed.")] = 0.05,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="For the orders and the audit draw.")] = None,
    votes: Annotated[bool, typer.Option("--votes", help="Take over the votes that the items carry.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a labelling project from items."""
    _ready()
    from compeer.annotation.importing import import_votes, votes_of_items
    from compeer.annotation.project import create_project
    from compeer.annotation.store import open_store
    from compeer.cer.item import Item
    from compeer.dialogue import read_rows

    items = list(read_rows(source, Item))
    store = open_store(db)
    folder = images or (None if str(source) == "-" else source.parent)
    made = create_project(
        store, name, items, images=folder, guideline=guideline, lease_minutes=lease, audit_share=audit, seed=seed
    )
    result: dict[str, Any] = {"project": name, "db": db, "items": made.items, "left_out": made.left_out}
    if votes:
        result["votes"] = import_votes(store, made.project.id, votes_of_items(items)).votes
    left = f" {made.left_out:,} without a candidate are left out." if made.left_out else ""
    said = f"The project {name} has {made.items:,} items in {db}.{left} Next: compeer annotate invite NAME"
    _print(result, as_json, [said])


@app.command()
def invite(
    people: Annotated[list[str], typer.Argument(help="One name or more.", show_default=False)],
    role: Annotated[str, typer.Option(help="annotator or coordinator.")] = "annotator",
    new_link: Annotated[bool, typer.Option("--new-link", help="Replace the link of somebody who is in.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="End somebody's access; their votes stay.")] = False,
    address: Annotated[str, typer.Option(help="Where the studio is reached, for the links.")] = "http://127.0.0.1:8030",
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Make personal links. Each is shown once: only its hash is kept."""
    _ready()
    from compeer.annotation import people as access
    from compeer.errors import UserError

    if role not in ("annotator", "coordinator"):
        raise UserError(f"--role is annotator or coordinator, not {role!r}.")
    store, project = _open(db, name)
    if revoke:
        for person in people:
            access.revoke(store, project.id, person)
        _print({"revoked": people}, as_json, [f"The links of {', '.join(people)} no longer work."])
        return
    rows = []
    for person in people:
        if new_link:
            invitation = access.new_link(store, project.id, person)
        else:
            invitation = access.invite(store, project.id, person, role)  # type: ignore[arg-type]
        link = f"{address.rstrip('/')}/enter/{invitation.token}"
        rows.append({"name": invitation.person.name, "role": invitation.person.role, "link": link})
    _print(rows, as_json, [f"{row['name']}: {row['link']}" for row in rows])


@app.command()
def pause(
    people: Annotated[list[str], typer.Argument(help="One name or more.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Let them go on.")] = False,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Give somebody no more items for now. What they hold goes back to the queue."""
    _ready()
    from compeer.annotation.people import pause as change

    store, project = _open(db, name)
    for person in people:
        change(store, project.id, person, not resume)
    said = f"{', '.join(people)}: {'at work again' if resume else 'paused'}."
    _print({"people": people, "paused": not resume}, as_json, [said])


@app.command()
def status(name: Name = None, db: Db = _DB, as_json: AsJson = False) -> None:
    """How far the labelling is, by question and by person."""
    _ready()
    import msgspec

    from compeer.annotation.progress import progress
    from compeer.annotation.tables_shown import status_tables

    store, project = _open(db, name)
    now = progress(store, project.id)
    if as_json:
        _print(msgspec.to_builtins(now), True, [])
    else:
        _show(status_tables(now))


@app.command()
def agreement(
    judgements: Annotated[
        Path | None, typer.Option(help="What compeer reward score wrote, to set a judge beside the audit.")
    ] = None,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """How far people agree on the two first votes, and how often the audit and a judge confirm the labels."""
    _ready()
    import msgspec

    from compeer.annotation.reliability import agreement as measure
    from compeer.annotation.reliability import audit, read_judgements
    from compeer.annotation.tables_shown import agreement_tables

    store, project = _open(db, name)
    found = measure(store, project.id)
    confirmed = audit(store, project.id, read_judgements(judgements) if judgements else None)
    if as_json:
        _print({**msgspec.to_builtins(found), "audit": msgspec.to_builtins(confirmed)}, True, [])
    else:
        _show(agreement_tables(found, confirmed))


@app.command("export")
def export_(
    out: Annotated[Path, typer.Option("--out", "-o", help="A file; a folder for label-studio and potato.")],
    form: Format = "cer",
    everything: Annotated[bool, typer.Option("--all", help="Open items too.")] = False,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names.")] = False,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Write the labels: CER items with labels, votes and status; or tasks for another tool, which are all items."""
    _ready()
    from compeer.annotation.export import labelled
    from compeer.annotation.formats import label_studio, potato
    from compeer.dialogue import write_rows

    store, project = _open(db, name)
    _known(form)
    items = labelled(store, project.id, everything=everything or form != "cer", anonymous=anonymous)
    if form == "cer":
        count = write_rows(out, items)
    elif form == "label-studio":
        count = label_studio.write(out, items, project.seed)
    else:
        count = potato.write(out, items, project.seed, title=project.name)
    if str(out) != "-":
        _print({"items": count, "out": str(out), "format": form}, as_json, [f"{count:,} items are in {out}."])


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="Labelled CER items, or another tool's answers.", show_default=False)],
    form: Format = "cer",
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Read votes on this project's items from elsewhere. Reading a file twice changes nothing."""
    _ready()
    import msgspec

    from compeer.annotation.ballots import records
    from compeer.annotation.formats import label_studio, potato
    from compeer.annotation.importing import import_votes, votes_of_items
    from compeer.cer.item import Item
    from compeer.dialogue import read_rows

    store, project = _open(db, name)
    _known(form)
    if form == "cer":
        votes: Any = votes_of_items(read_rows(source, Item))
    else:
        names = [record.item.id for record in records(store, project.id)]
        votes = (label_studio if form == "label-studio" else potato).read(source, names, project.seed)
    done = import_votes(store, project.id, votes)
    said = [f"{done.votes:,} votes on {done.items:,} items came in, {done.people} people were new."]
    said += [f"  left out, {why}: {count:,}" for why, count in done.left_out.items()]
    _print(msgspec.to_builtins(done), as_json, said)


def _known(form: str) -> None:
    from compeer.errors import UserError

    if form not in ("cer", "label-studio", "potato"):
        raise UserError(f"--format is cer, label-studio or potato, not {form!r}.")


def _open(db: str, name: str | None) -> tuple[Store, Project]:
    from compeer.annotation.project import project_named
    from compeer.annotation.store import open_store

    store = open_store(db, create=False)
    return store, project_named(store, name)


def _ready() -> None:
    """Say what to install before anything is imported that needs it."""
    from importlib.util import find_spec

    from compeer.errors import UserError

    if missing := [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]:
        raise UserError(f'Labelling needs {" and ".join(missing)}: pip install "compeer[studio]"')


def _show(tables: Any) -> None:
    from rich.console import Console

    Console().print(*tables, sep="\n")


def _print(result: Any, as_json: bool, said: list[str]) -> None:
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False) if as_json else "\n".join(said))
