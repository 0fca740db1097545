"""compeer annotate: labelling by people without the page.

compeer annotate create items.jsonl --name pilot
compeer annotate invite anna ben cleo
compeer annotate status
compeer annotate agreement --judgements scores.jsonl
compeer annotate export --out labelled.jsonl
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compeer.cli.people import DB, AsJson, Db, Name, add, opened, ready, show, tell

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.people.labelling_project import Project
    from compeer.people.store import Store

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Format = Annotated[str, typer.Option("--format", help="cer, label-studio or potato.")]


@app.command()
def create(
    source: Annotated[Path, typer.Argument(help="CER items with candidates, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="What the project is called.")] = "labels",
    db: Db = DB,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures. Default: that of the items.")] = None,
    guideline: Annotated[str, typer.Option(help="Version of the guideline, noted on every vote.")] = "1",
    lease: Annotated[float, typer.Option(min=0.1, help="Minutes an item stays with somebody who does nothing.")] = 15.0,
    audit: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share that goes out again when it is closed.")] = 0.05,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="For the orders and the audit draw.")] = None,
    votes: Annotated[bool, typer.Option("--votes", help="Take over the votes that the items carry.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a labelling project from items."""
    ready()
    from compeer.cer.item import image_folder, read_items
    from compeer.people.exchange import import_votes, votes_of_items
    from compeer.people.labelling_project import create_project
    from compeer.people.store import open_store

    items = list(read_items(source, resolve_images=False))
    store = open_store(db)
    folder = images or (None if str(source) == "-" else image_folder(source))
    made = create_project(
        store, name, items, images=folder, guideline=guideline, lease_minutes=lease, audit_share=audit, seed=seed
    )
    result: dict[str, Any] = {"project": name, "db": db, "items": made.items, "left_out": made.left_out}
    if votes:
        result["votes"] = import_votes(store, made.project.id, votes_of_items(items)).votes
    left = f" {made.left_out:,} without a candidate are left out." if made.left_out else ""
    said = f"The project {name} has {made.items:,} items in {db}.{left} Next: compeer annotate invite NAME"
    tell(result, as_json, [said])


def find(store: Store, name: str | None) -> Project:
    from compeer.people.labelling_project import project_named

    return project_named(store, name)


add(app, find)


@app.command()
def status(name: Name = None, db: Db = DB, as_json: AsJson = False) -> None:
    """How far the labelling is, by question and by person."""
    store = opened(db)
    from compeer.people.labelling_project import progress
    from compeer.people.labelling_tables import status_tables

    now = progress(store, find(store, name).id)
    show(now, as_json, lambda: status_tables(now))


@app.command()
def agreement(
    judgements: Annotated[
        Path | None, typer.Option(help="What compeer reward score wrote, to set a judge beside the audit.")
    ] = None,
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """How far people agree on the two first votes, and how often the audit and a judge confirm the labels."""
    store = opened(db)
    import msgspec

    from compeer.people.agreement import agreement as measure
    from compeer.people.agreement import audit, read_judgements
    from compeer.people.labelling_tables import agreement_tables

    number = find(store, name).id
    found = measure(store, number)
    confirmed = audit(store, number, read_judgements(judgements) if judgements else None)
    result = {**msgspec.to_builtins(found), "audit": confirmed}
    show(result, as_json, lambda: agreement_tables(found, confirmed))


@app.command("export")
def export_(
    out: Annotated[Path, typer.Option("--out", "-o", help="A file; a folder for label-studio and potato.")],
    form: Format = "cer",
    everything: Annotated[bool, typer.Option("--all", help="Open items too.")] = False,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names.")] = False,
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """Write the labels: CER items with labels, votes and status; or tasks for another tool, which are all items."""
    store = opened(db)
    from compeer.dialogue import write_rows
    from compeer.people import label_studio, potato
    from compeer.people.exchange import labelled

    project = find(store, name)
    _known(form)
    items = labelled(store, project.id, everything=everything or form != "cer", anonymous=anonymous)
    if form == "cer":
        count = write_rows(out, items)
    elif form == "label-studio":
        count = label_studio.write(out, items, project.seed)
    else:
        count = potato.write(out, items, project.seed, title=project.name)
    if str(out) != "-":
        tell({"items": count, "out": str(out), "format": form}, as_json, [f"{count:,} items are in {out}."])


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="Labelled CER items, or another tool's answers.", show_default=False)],
    form: Format = "cer",
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """Read votes on this project's items from elsewhere. Reading a file twice changes nothing."""
    store = opened(db)
    import msgspec

    from compeer.cer.item import read_items
    from compeer.people import label_studio, potato
    from compeer.people.exchange import import_votes, votes_of_items
    from compeer.people.labelling_votes import records

    project = find(store, name)
    _known(form)
    if form == "cer":
        votes: Any = votes_of_items(read_items(source))
    else:
        names = [record.item.id for record in records(store, project.id)]
        votes = (label_studio if form == "label-studio" else potato).read(source, names, project.seed)
    done = import_votes(store, project.id, votes)
    said = [f"{done.votes:,} votes on {done.items:,} items came in, {done.people} people were new."]
    said += [f"  left out, {why}: {count:,}" for why, count in done.left_out.items()]
    tell(msgspec.to_builtins(done), as_json, said)


def _known(form: str) -> None:
    from compeer.errors import UserError

    if form not in ("cer", "label-studio", "potato"):
        raise UserError(f"--format is cer, label-studio or potato, not {form!r}.")
