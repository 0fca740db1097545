"""compeer annotate and compeer arena: labels and comparisons by people, without the studio.

compeer annotate create items.jsonl --name pilot
compeer annotate invite anna ben cleo
compeer annotate agreement --judgements scores.jsonl
compeer annotate export --out labelled.jsonl

compeer arena cases dialogues.jsonl --out cases.jsonl --count 200 --pictures
compeer arena generate cases.jsonl --model ours=hf:runs/grpo --model base=openai:qwen --out replies --images pictures
compeer arena import answers.jsonl --cases cases.jsonl --as gpt-4o --out replies/gpt-4o.jsonl
compeer arena create cases.jsonl replies/*.jsonl --name pilot --images pictures
compeer arena results --figure pilot.svg

Both groups work on one database of people and share `invite`, `pause` and `status`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compeer.cli.options import (
    BaseUrl,
    Concurrency,
    Json,
    Limit,
    MaxTokens,
    Seed,
    Temperature,
    check_choice,
    option_groups,
    print_json,
)

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.people.projects import Project, ProjectKind
    from compeer.people.store import Store

annotate_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
arena_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

DATABASE = "annotation.db"
Database = Annotated[
    str,
    typer.Option(
        "--db", envvar="COMPEER_ANNOTATION_DB", help="Database: a SQLite file or postgresql://USER@HOST/NAME."
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the project, where the database has several.")]
People = Annotated[list[str], typer.Argument(help="Names of people.", show_default=False)]
Lease = Annotated[float, typer.Option(min=0.1, help="Minutes after which idle work goes back to the queue.")]
DrawnSeed = Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Random seed. Default: drawn.")]
Format = Annotated[str, typer.Option("--format", help="Format: cer, label-studio or potato.")]
ADDRESS = "http://127.0.0.1:8030"
Address = Annotated[str, typer.Option(help="Address of the studio, for the links.")]
ExportForm = Annotated[
    str, typer.Option("--format", help="Format: cer, labels-csv, votes-csv, label-studio or potato.")
]
Quota = Annotated[int | None, typer.Option(min=1, help="Most comparisons per person. Default: no limit.")]
Cases = Annotated[Path, typer.Argument(help="Cases, JSON lines.", show_default=False)]
CaseImages = Annotated[
    Path | None, typer.Option("--images", help="Folder of the pictures. Default: that of the cases.")
]


def _check_installed() -> None:
    """Say what to install before anything is imported that needs it."""
    from importlib.util import find_spec

    from compeer.errors import UserError

    if find_spec("sqlalchemy") is None:
        raise UserError('This needs sqlalchemy: pip install "compeer-esc[studio]"')


@dataclass
class ProjectOptions:
    """The options by which a command finds its project or arena."""

    name: Name = None
    db: Database = DATABASE
    as_json: Json = False

    def open(self, kind: ProjectKind) -> tuple[Store, Project]:
        """The database, which must exist, and the project in it."""
        _check_installed()
        from compeer.people.projects import project_by_name
        from compeer.people.store import open_store

        store = open_store(self.db, create=False)
        return store, project_by_name(store, kind, self.name)

    def print_tables(self, result: Any, tables: Callable[[], Any]) -> None:
        """A record as JSON, or as tables for a terminal."""
        if self.as_json:
            print_json(result)
        else:
            from rich.console import Console

            Console().print(*tables(), sep="\n")


def _print(result: Any, as_json: bool, lines: list[str]) -> None:
    """What a command has done, as JSON or in words."""
    print_json(result) if as_json else typer.echo("\n".join(lines))


def _add_people_commands(app: typer.Typer, kind: ProjectKind) -> None:
    """`invite` and `pause`, which both groups have."""

    @app.command()
    @option_groups
    def invite(
        at: ProjectOptions,
        people: People,
        role: Annotated[str, typer.Option(help="Role: annotator or coordinator.")] = "annotator",
        new_link: Annotated[bool, typer.Option("--new-link", help="Replace a person's link.")] = False,
        revoke: Annotated[bool, typer.Option("--revoke", help="End a person's access; their votes stay.")] = False,
        address: Address = ADDRESS,
        languages: Annotated[
            list[str] | None,
            typer.Option("--language", help="Language they read: en or zh. Default: all."),
        ] = None,
        csv: Annotated[Path | None, typer.Option("--csv", help="Output file for the links as a table.")] = None,
    ) -> None:
        """Make personal links. Each is shown once: only its hash is kept. Whoever has one already uses that."""
        store, project = at.open(kind)
        from compeer.people import invitations
        from compeer.reasoning.ontology import LANGUAGES

        check_choice("--role", role, "annotator", "coordinator")
        for language in languages or ():
            check_choice("--language", language, *LANGUAGES)
        if revoke:
            for person in people:
                invitations.revoke(store, project.id, person)
            _print({"revoked": people}, at.as_json, [f"The links of {', '.join(people)} no longer work."])
            return
        made = [
            invitations.new_link(store, project.id, person)
            if new_link
            else invitations.invite(store, project.id, person, role, languages or ())  # type: ignore[arg-type]
            for person in people
        ]
        base = address.rstrip("/")
        rows = [
            {"name": one.name, "role": one.role, "link": f"{base}/enter/{token}" if token else None}
            for one, token in made
        ]
        if csv is not None:
            from compeer.people.exchange import csv_lines

            linked = [(row["name"], row["link"]) for row in rows if row["link"]]
            csv.write_text("".join(csv_lines([("name", "link"), *linked])), encoding="utf-8-sig", newline="")
        _print(rows, at.as_json, [f"{row['name']}: {row['link'] or 'uses the link they have'}" for row in rows])

    @app.command()
    @option_groups
    def limits(
        at: ProjectOptions,
        people: Annotated[list[str] | None, typer.Argument(help="Names of people. Default: the whole project.")] = None,
        quota: Annotated[int | None, typer.Option(min=1, help="Most that a person gets. Default: no limit.")] = None,
        languages: Annotated[
            list[str] | None, typer.Option("--language", help="Language they read: en or zh; may be repeated.")
        ] = None,
    ) -> None:
        """Limit how much people get, and in which languages."""
        store, project = at.open(kind)
        from compeer.errors import UserError
        from compeer.people import invitations
        from compeer.people.projects import set_quota
        from compeer.reasoning.ontology import LANGUAGES

        for language in languages or ():
            check_choice("--language", language, *LANGUAGES)
        if languages and not people:
            raise UserError("Languages are a person's: name the people.")
        for person in people or ():
            invitations.set_limits(store, project.id, person, languages=languages, quota=quota)  # type: ignore[arg-type]
        if not people:
            set_quota(store, project.id, quota)
        said = f"{', '.join(people or [project.name])}: {f'at most {quota:,}' if quota else 'no limit'}."
        _print({"people": people, "quota": quota, "languages": languages}, at.as_json, [said])

    @app.command()
    @option_groups
    def remind(at: ProjectOptions, address: Address = ADDRESS) -> None:
        """Texts to remind people by, ready for e-mail. Nothing is sent."""
        store, project = at.open(kind)
        from compeer.people.arena import ArenaQueue
        from compeer.people.labelling import LabellingQueue
        from compeer.people.work_queue import reminders

        with store.read() as db:
            queue = LabellingQueue(store) if kind == "labelling" else ArenaQueue(store)
            found = reminders(project, queue.people_progress(db, project.id), address)
        rows = [{"name": one.name, "subject": one.subject, "text": one.text, "mailto": one.mailto} for one in found]
        _print(rows, at.as_json, [f"{one.name}\n\n{one.text}\n" for one in found] or ["There is no one to remind."])

    @app.command()
    @option_groups
    def pause(
        at: ProjectOptions,
        people: People,
        resume: Annotated[bool, typer.Option("--resume", help="Give them work again.")] = False,
    ) -> None:
        """Pause people: they get no new work. What they hold goes back to the queue."""
        store, project = at.open(kind)
        from compeer.people import invitations

        for person in people:
            invitations.pause(store, project.id, person, not resume)
        said = f"{', '.join(people)}: {'resumed' if resume else 'paused'}."
        _print({"people": people, "paused": not resume}, at.as_json, [said])


@annotate_app.command("create")
def create_labelling(
    source: Annotated[Path, typer.Argument(help="CER items with candidates, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Name of the project.")] = "labels",
    db: Database = DATABASE,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures. Default: that of the items.")] = None,
    guideline: Annotated[str, typer.Option(help="Version of the guideline, recorded with every vote.")] = "1",
    lease: Lease = 15.0,
    audit: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of closed items that are audited.")] = 0.05,
    seed: DrawnSeed = None,
    votes: Annotated[bool, typer.Option("--votes", help="Import the votes that the items carry.")] = False,
    as_json: Json = False,
) -> None:
    """Make a labelling project from items."""
    _check_installed()
    from compeer.cer.item import image_folder, read_items
    from compeer.people.exchange import import_votes, votes_of_items
    from compeer.people.labelling import create_project
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
    _print(result, as_json, [said])


_add_people_commands(annotate_app, "labelling")


@annotate_app.command("status")
@option_groups
def labelling_status(at: ProjectOptions) -> None:
    """Progress of the labelling, by question and by person."""
    store, project = at.open("labelling")
    from compeer.people.labelling_results import labelling_progress
    from compeer.people.terminal_tables import labelling_status

    now = labelling_progress(store, project.id)
    at.print_tables(now, lambda: labelling_status(now))


@annotate_app.command("quality")
@option_groups
def labelling_quality(
    at: ProjectOptions,
    gold_share: Annotated[float | None, typer.Option(help="Share of gold items, from 0 to 0.5.")] = None,
    floor_seconds: Annotated[float | None, typer.Option(help="Shortest plausible median per item, in seconds.")] = None,
    gold_right: Annotated[float | None, typer.Option(help="Expected share of right answers to gold items.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Expected kappa with the others.")] = None,
    hold: Annotated[bool | None, typer.Option("--hold/--no-hold", help="Hold the labels of flagged people.")] = None,
) -> None:
    """Speed, gold answers and kappa per person, with flags. Options change what is checked from now on."""
    store, project = at.open("labelling")
    import msgspec

    from compeer.people.quality import quality_of_people, set_settings, settings_of
    from compeer.people.terminal_tables import quality_tables

    given = {"gold_share": gold_share, "floor_seconds": floor_seconds, "gold_right": gold_right, "kappa": kappa,
             "hold": hold}  # fmt: skip
    if changed := {name: value for name, value in given.items() if value is not None}:
        set_settings(store, project.id, msgspec.structs.replace(settings_of(store, project.id), **changed))
    people = quality_of_people(store, project.id)
    result = {"settings": settings_of(store, project.id), "people": people}
    at.print_tables(result, lambda: quality_tables(people))


@annotate_app.command("known")
@option_groups
def add_known_items(
    at: ProjectOptions,
    source: Annotated[Path, typer.Argument(help="CER items with labels, JSON lines.", show_default=False)],
    use: Annotated[str, typer.Option(help="Use: gold or practice.")] = "gold",
) -> None:
    """Add gold items, mixed in blind, or practice items, explained before the first item."""
    store, project = at.open("labelling")
    from compeer.cer.item import read_items
    from compeer.people.quality import add_known

    check_choice("--use", use, "gold", "practice")
    count = add_known(store, project.id, read_items(source, resolve_images=False), use)  # type: ignore[arg-type]
    _print({"items": count, "use": use}, at.as_json, [f"{count:,} {use} items were added to {project.name}."])


@annotate_app.command("hold")
@option_groups
def hold_labels(
    at: ProjectOptions,
    people: People,
    reason: Annotated[str, typer.Option(help="Reason, kept with the hold.")] = "Held by the coordinator",
) -> None:
    """Withhold people's labels: they count for nothing until they are released or discarded."""
    from compeer.people.quality import Flag, hold

    flag = Flag("coordinator", {"words": reason})
    _decide(at, people, lambda store, project, name: hold(store, project, name, [flag]), "on hold")


@annotate_app.command("release")
@option_groups
def release_labels(at: ProjectOptions, people: People) -> None:
    """Count labels that are on hold."""
    from compeer.people.quality import release

    _decide(at, people, release, "released")


@annotate_app.command("discard")
@option_groups
def discard_labels(at: ProjectOptions, people: People) -> None:
    """Discard labels that are on hold. They are kept, never count, and somebody else is asked."""
    from compeer.people.quality import discard

    _decide(at, people, discard, "discarded")


def _decide(at: ProjectOptions, people: list[str], work: Callable[[Store, int, str], int], said: str) -> None:
    store, project = at.open("labelling")
    counts = {name: work(store, project.id, name) for name in people}
    _print(counts, at.as_json, [f"{name}: {count:,} items {said}." for name, count in counts.items()])


@annotate_app.command("agreement")
@option_groups
def labelling_agreement(
    at: ProjectOptions,
    judgements: Annotated[
        Path | None, typer.Option(help="File of compeer reward score, to compare a judge with the audit.")
    ] = None,
) -> None:
    """Agreement between people. Also how often the audit and a judge confirm the labels."""
    store, project = at.open("labelling")
    from compeer.people.labelling_results import agreement, audit, pair_agreement, read_judgements
    from compeer.people.terminal_tables import agreement_tables

    found, pairs = agreement(store, project.id), pair_agreement(store, project.id)
    confirmed = audit(store, project.id, read_judgements(judgements)) if judgements else found.audit
    result = {"questions": found.questions, "labels": found.labels, "pairs": pairs, "audit": confirmed}
    at.print_tables(result, lambda: agreement_tables(found, pairs, confirmed))


@annotate_app.command("export")
@option_groups
def export_labels(
    at: ProjectOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file; for label-studio and potato a folder.")],
    form: ExportForm = "cer",
    everything: Annotated[bool, typer.Option("--all", help="Include open items.")] = False,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names.")] = False,
) -> None:
    """Write the labels. CER items with labels, votes and status; tables; or all items as tasks for another tool."""
    store, project = at.open("labelling")
    from compeer.dialogue import write_rows
    from compeer.people.exchange import labelled, labels_table, votes_table
    from compeer.people.labelling_results import labelling_progress
    from compeer.people.other_tools import write_label_studio, write_potato

    check_choice("--format", form, "cer", "labels-csv", "votes-csv", "label-studio", "potato")
    if form in ("labels-csv", "votes-csv"):
        labels = form == "labels-csv"
        rows = (labels_table(store, project.id, everything=everything, anonymous=anonymous) if labels
                else votes_table(store, project.id, anonymous=anonymous))  # fmt: skip
        count = _write_table(out, rows)
        said = f"{count:,} {'items' if labels else 'answers'} are in {out}."
        _print({"rows": count, "out": str(out), "format": form}, at.as_json, [said])
        return
    items = labelled(store, project.id, everything=everything or form != "cer", anonymous=anonymous)
    if form == "cer":
        count = write_rows(out, items)
    elif form == "label-studio":
        count = write_label_studio(out, items, project.seed)
    else:
        count = write_potato(out, items, project.seed, title=project.name)
    if str(out) != "-":
        withheld = labelling_progress(store, project.id).withheld
        said_now = [f"{count:,} items are in {out}."]
        said_now += [f"Items with labels on hold, which do not count: {withheld:,}."] if withheld else []
        _print({"items": count, "out": str(out), "format": form, "withheld": withheld}, at.as_json, said_now)


@annotate_app.command("import")
@option_groups
def import_labels(
    at: ProjectOptions,
    source: Annotated[Path, typer.Argument(help="Labelled CER items, or another tool's answers.", show_default=False)],
    form: Format = "cer",
) -> None:
    """Import votes on this project's items from other tools. Reading a file twice changes nothing."""
    store, project = at.open("labelling")
    from compeer.cer.item import read_items
    from compeer.errors import UserError
    from compeer.people.exchange import import_votes, votes_of_items
    from compeer.people.labelling_results import records
    from compeer.people.other_tools import read_label_studio, read_potato

    check_choice("--format", form, "cer", "label-studio", "potato")
    if form == "cer":
        if source.suffix == ".json" and source.is_file() and source.read_bytes()[:64].lstrip().startswith(b"["):
            raise UserError(
                f"{source} is one JSON list; items are JSON lines. An export of Label Studio is read with "
                "--format label-studio."
            )
        votes: Any = votes_of_items(read_items(source))
    else:
        names = [record.item.id for record in records(store, project.id)]
        votes = (read_label_studio if form == "label-studio" else read_potato)(source, names, project.seed)
    done = import_votes(store, project.id, votes)
    said = [f"{done.votes:,} votes on {done.items:,} items were imported; {done.people} people were new."]
    said += [f"  left out, {why}: {count:,}" for why, count in done.left_out.items()]
    _print(done, at.as_json, said)


@annotate_app.command("guideline")
@option_groups
def guideline(
    at: ProjectOptions,
    source: Annotated[
        Path | None, typer.Argument(help="YAML or JSON with message and questions. Default: print the present one.")
    ] = None,
    version: Annotated[str, typer.Option(help="Name of the new version. Default: a number.")] = "",
) -> None:
    """Print the guideline, or save a new version of its text."""
    store, project = at.open("labelling")
    from msgspec import to_builtins

    from compeer.cer.item import QUESTIONS
    from compeer.config import dump_yaml, read_yaml
    from compeer.people.guideline import current_guideline, own_questions, read_guideline, save_guideline

    if source is not None:
        asked = [*QUESTIONS, *(one.id for one in own_questions(store, project.id))]
        saved = save_guideline(store, project.id, read_guideline(read_yaml(source), asked), version)
        _print(saved, at.as_json, [f"The guideline of {project.name} is now version {saved.version}."])
        return
    now = current_guideline(store, project.id)
    _print(now, at.as_json, [f"# version {now.version}", dump_yaml(to_builtins(now.guideline))])


@annotate_app.command("questions")
@option_groups
def questions(
    at: ProjectOptions,
    source: Annotated[Path | None, typer.Argument(help="YAML or JSON. Default: print the present ones.")] = None,
) -> None:
    """Print a project's own questions, or set them while nothing has been given out."""
    store, project = at.open("labelling")
    from msgspec import to_builtins

    from compeer.config import dump_yaml, read_yaml
    from compeer.people.guideline import own_questions, read_questions, set_questions

    if source is not None:
        set_questions(store, project.id, read_questions(read_yaml(source)))
    now = own_questions(store, project.id)
    text = dump_yaml({"questions": to_builtins(now)}) if now else "There are no questions beside the paper's four."
    _print(now, at.as_json, [text])


@arena_app.command("cases")
def make_cases(
    dialogues: Annotated[Path, typer.Argument(help="Dialogues, as compeer corpus import writes them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file, JSON lines.")],
    count: Annotated[int, typer.Option(min=1, help="Maximum number of cases.")] = 200,
    pictures: Annotated[bool, typer.Option("--pictures", help="Only moments whose history has a picture.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make cases from conversations. Each is cut where a supporter answers."""
    from compeer.dialogue import read, write_rows
    from compeer.errors import UserError
    from compeer.people.arena_cases import cases_of

    made = write_rows(out, cases_of(read(dialogues), count=count, pictures=pictures, seed=seed))
    if not made:
        out.unlink(missing_ok=True)
        raise UserError(f"{dialogues} gave no case" + (" with a picture." if pictures else "."))
    _print({"cases": made, "out": str(out)}, as_json, [f"{made:,} cases are in {out}."])


@arena_app.command("generate")
def generate_replies(
    source: Cases,
    model: Annotated[
        list[str], typer.Option("--model", "-m", help="Model: [NAME=]embedded, hf:… or openai:…. Repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the replies; run again to resume.")],
    images: CaseImages = None,
    base_url: BaseUrl = None,
    grammar: Annotated[bool, typer.Option(help="Enforce the reasoning format while decoding.")] = True,
    length: Annotated[
        str | None, typer.Option(help="Instructions: full or brief. Default: brief for embedded, else full.")
    ] = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 2000,
    concurrency: Concurrency = 16,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Let models answer the cases in reasoning mode. One file per model; what is done is not asked again."""
    from compeer.dialogue import read_rows
    from compeer.errors import UserError
    from compeer.models.spec import default_prompt
    from compeer.people.arena_cases import WITHOUT_PICTURES, GenerationOptions, Reply, generate, read_cases
    from compeer.pipeline.stage import Progress
    from compeer.pipeline.work import ModelSpec

    check_choice("--length", length, "full", "brief")
    read_cases(source)  # to report mistakes before the work begins
    named = [_model_name(one) for one in model]
    if len({_file_name(name) for name, _ in named}) < len(named):
        raise UserError("Two models have the same name; give each its own: --model NAME=SPEC.")
    done: list[dict[str, Any]] = []
    said: list[str] = []
    for name, spec in named:
        options = GenerationOptions(
            name=name,
            images=str((images or source.parent).resolve()),
            temperature=temperature,
            max_tokens=max_tokens,
            grammar=grammar,
            length=length or default_prompt(spec),  # type: ignore[arg-type]
        )
        target = out / f"{_file_name(name)}.jsonl"
        counts = generate(
            source, target, ModelSpec(spec, base_url, concurrency), options,
            seed=seed, concurrency=concurrency, limit=limit, progress=Progress(quiet=as_json),
        ).counts  # fmt: skip
        blind = sum(WITHOUT_PICTURES in reply.notes for reply in read_rows(target, Reply))
        failed = sum(counts.rejected.values())
        done.append({"model": name, "out": str(target), "replies": counts.rows_out, "rejected": dict(counts.rejected),
                     "without_pictures": blind})  # fmt: skip
        said.append(f"{name}: {counts.rows_out:,} replies in {target}" + (f", {failed} failed" if failed else ""))
        if blind:
            said.append(f"  This model takes no pictures: {blind} cases were asked without theirs.")
    _print(done, as_json, said)


@arena_app.command("import")
def import_replies(
    answers: Annotated[Path, typer.Argument(help="JSON lines with case, and raw or response.", show_default=False)],
    source: Annotated[Path, typer.Option("--cases", help="Cases that were answered.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file, JSON lines.")],
    model: Annotated[str | None, typer.Option("--as", help="Name of the model, where the file has none.")] = None,
    as_json: Json = False,
) -> None:
    """Import replies that another program wrote."""
    from compeer.dialogue import write_rows
    from compeer.people.arena_cases import import_replies, missing_replies, read_cases

    known = read_cases(source)
    found = import_replies(answers, known, model)
    write_rows(out, found)
    reasoned = sum(reply.reasoning is not None for reply in found)
    missing = missing_replies(known, found)
    said = [f"{len(found):,} replies are in {out}, {reasoned:,} of them with complete reasoning."]
    said += [f"  {name} has not answered {count:,} cases." for name, count in missing.items()]
    _print({"replies": len(found), "reasoned": reasoned, "missing": dict(missing), "out": str(out)}, as_json, said)


@arena_app.command("create")
def create_arena(
    source: Cases,
    replies: Annotated[list[Path], typer.Argument(help="Replies of the models, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Name of the arena.")] = "arena",
    db: Database = DATABASE,
    images: CaseImages = None,
    votes: Annotated[int, typer.Option(min=1, max=100, help="Votes per comparison.")] = 3,
    quota: Quota = None,
    focus: Annotated[
        str | None, typer.Option(help="Model that all others are compared with, as in the paper. Default: all pairs.")
    ] = None,
    show_reasoning: Annotated[bool, typer.Option("--show-reasoning", help="Show the models' reasoning.")] = False,
    lease: Lease = 15.0,
    seed: DrawnSeed = None,
    as_json: Json = False,
) -> None:
    """Make an arena from cases and replies."""
    _check_installed()
    from compeer.people.arena import create_arena
    from compeer.people.arena_cases import read_cases, read_replies
    from compeer.people.store import open_store

    cases, answers = read_cases(source), read_replies(replies)
    made = create_arena(
        open_store(db), name, cases, answers, images=images or source.parent, votes=votes, quota=quota,
        focus=focus, show_reasoning=show_reasoning, lease_minutes=lease, seed=seed,
    )  # fmt: skip
    left = f" {made.left_out:,} cases that some model has not answered are left out." if made.left_out else ""
    said = (
        f"The arena {name} has {made.comparisons:,} comparisons of {len(made.models)} models on {made.cases:,} cases "
        f"in {db}.{left} Next: compeer arena invite NAME, and compeer studio --db {db}"
    )
    _print(made, as_json, [said])


_add_people_commands(arena_app, "arena")


@arena_app.command("status")
@option_groups
def arena_status(at: ProjectOptions) -> None:
    """Progress of an arena, as a whole and by person."""
    store, project = at.open("arena")
    from compeer.people.arena import arena_progress
    from compeer.people.terminal_tables import arena_status

    now = arena_progress(store, project.id)
    at.print_tables(now, lambda: arena_status(now))


@arena_app.command("close")
@option_groups
def close_arena(
    at: ProjectOptions,
    reopen: Annotated[bool, typer.Option("--reopen", help="Open it again.")] = False,
) -> None:
    """End an arena early. Everybody in it then sees the results; nothing is lost."""
    store, project = at.open("arena")
    from compeer.people.arena import close_arena

    close_arena(store, project.id, not reopen)
    _print({"closed": not reopen}, at.as_json, [f"The arena {project.name} is {'open again' if reopen else 'closed'}."])


@arena_app.command("results")
@option_groups
def arena_results(
    at: ProjectOptions,
    figure: Annotated[Path | None, typer.Option(help="Output file for the stacked bars, .svg or .png.")] = None,
    draws: Annotated[int, typer.Option(min=100, help="Rounds of the bootstrap.")] = 2000,
    seed: Seed = 0,
) -> None:
    """Win, tie and loss by pair, and a ranking. The 95 % intervals are from a paired bootstrap over cases."""
    store, project = at.open("arena")
    from compeer.people.arena_figure import draw
    from compeer.people.arena_results import results_of
    from compeer.people.terminal_tables import arena_results

    found = results_of(store, project.id, draws=draws, seed=seed)
    at.print_tables(found, lambda: arena_results(found) if found.votes else ["There are no votes yet."])
    if figure is not None:
        draw(found, figure)


@arena_app.command("export")
@option_groups
def export_votes(
    at: ProjectOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file: .csv for a table, else JSON lines.")],
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names, no notes.")] = False,
) -> None:
    """Write every vote that counts. Case, the models on both sides, the choice, who, when, how long."""
    store, project = at.open("arena")
    from compeer.dialogue import write_rows
    from compeer.people.arena_results import counted_votes, vote_rows

    votes = counted_votes(store, project.id, anonymous=anonymous)
    count = _write_table(out, vote_rows(votes)) if out.suffix == ".csv" else write_rows(out, votes)
    if str(out) != "-":
        _print({"votes": count, "out": str(out)}, at.as_json, [f"{count:,} votes are in {out}."])


def _write_table(out: Path, rows: Iterable[Sequence[Any]]) -> int:
    """Write a table as CSV, for spreadsheets; how many rows it has without its head."""
    from compeer.people.exchange import csv_lines

    lines = list(csv_lines(rows))
    out.write_text("".join(lines), encoding="utf-8-sig", newline="")
    return len(lines) - 1


def _model_name(given: str) -> tuple[str, str]:
    """NAME=SPEC, or a spec that is its own name."""
    name, equals, spec = given.partition("=")
    return (name.strip(), spec) if equals and name.strip() and ":" not in name else (given, given)


def _file_name(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
