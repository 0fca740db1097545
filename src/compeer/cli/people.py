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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from compeer.cli.options import AnswerOptions, CommandGroup, print_json, print_result
from compeer.errors import UserError

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.people.projects import Project, ProjectKind
    from compeer.people.store import Store

annotate_app = CommandGroup("annotate")
arena_app = CommandGroup("arena")

DATABASE = "annotation.db"
ADDRESS = "http://127.0.0.1:8030"


def _check_installed() -> None:
    """Say what to install before anything is imported that needs it."""
    from importlib.util import find_spec

    if find_spec("sqlalchemy") is None:
        raise UserError('This needs sqlalchemy: pip install "compeer-esc[studio]"')


@dataclass
class ProjectOptions:
    """The options by which a command finds its project or arena."""

    name: str | None = None
    db: str = DATABASE
    as_json: bool = False

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


def _add_people_commands(app: CommandGroup, kind: ProjectKind) -> None:
    """The commands that both groups have."""

    @app.add("status")
    def status(at: ProjectOptions) -> None:
        """Show progress: in total, by person and, for a labelling project, by question."""
        store, project = at.open(kind)
        from compeer.people import terminal_tables
        from compeer.people.arena import arena_progress
        from compeer.people.labelling_results import labelling_progress

        if kind == "labelling":
            items = labelling_progress(store, project.id)
            at.print_tables(items, lambda: terminal_tables.labelling_status(items))
        else:
            pairs = arena_progress(store, project.id)
            at.print_tables(pairs, lambda: terminal_tables.arena_status(pairs))

    @app.add("invite")
    def invite(
        at: ProjectOptions,
        people: list[str],
        role: Literal["annotator", "coordinator"] = "annotator",
        new_link: bool = False,
        revoke: bool = False,
        address: str = ADDRESS,
        languages: list[Literal["en", "zh"]] | None = None,
        csv: Path | None = None,
    ) -> None:
        """Make personal links. Each is shown once: only its hash is kept. People who have a link keep using it."""
        store, project = at.open(kind)
        from compeer.people import invitations

        if revoke:
            for person in people:
                invitations.revoke(store, project.id, person)
            print_result({"revoked": people}, at.as_json, [f"The links of {', '.join(people)} no longer work."])
            return
        made = [
            invitations.new_link(store, project.id, person)
            if new_link
            else invitations.invite(store, project.id, person, role, languages or ())
            for person in people
        ]
        base = address.rstrip("/")
        rows = [
            {"name": one.name, "role": one.role, "link": f"{base}/enter/{token}" if token else None}
            for one, token in made
        ]
        if csv is not None:
            from compeer.people.exchange import write_csv

            write_csv(csv, [("name", "link"), *((row["name"], row["link"]) for row in rows if row["link"])])
        print_result(rows, at.as_json, [f"{row['name']}: {row['link'] or 'uses the link they have'}" for row in rows])

    @app.add("limits")
    def limits(
        at: ProjectOptions,
        people: list[str] | None = None,
        quota: int | None = None,
        languages: list[Literal["en", "zh"]] | None = None,
    ) -> None:
        """Limit how many items people get, and in which languages."""
        store, project = at.open(kind)
        from compeer.people import invitations
        from compeer.people.projects import set_quota

        if languages and not people:
            raise UserError("Languages are a person's: name the people.")
        for person in people or ():
            invitations.set_limits(store, project.id, person, languages=languages, quota=quota)
        if not people:
            set_quota(store, project.id, quota)
        said = f"{', '.join(people or [project.name])}: {f'at most {quota:,}' if quota else 'no limit'}."
        print_result({"people": people, "quota": quota, "languages": languages}, at.as_json, [said])

    @app.add("remind")
    def remind(at: ProjectOptions, address: str = ADDRESS) -> None:
        """Write reminders, ready for e-mail. Nothing is sent."""
        store, project = at.open(kind)
        from compeer.people.arena import ArenaQueue
        from compeer.people.labelling import LabellingQueue
        from compeer.people.work_queue import reminders

        with store.read() as db:
            queue = LabellingQueue(store) if kind == "labelling" else ArenaQueue(store)
            found = reminders(project, queue.people_progress(db, project.id), address)
        rows = [{"name": one.name, "subject": one.subject, "text": one.text, "mailto": one.mailto} for one in found]
        print_result(
            rows, at.as_json, [f"{one.name}\n\n{one.text}\n" for one in found] or ["There is no one to remind."]
        )

    @app.add("pause")
    def pause(at: ProjectOptions, people: list[str], resume: bool = False) -> None:
        """Pause people: they get no new work. Their leased work goes back to the queue."""
        store, project = at.open(kind)
        from compeer.people import invitations

        for person in people:
            invitations.pause(store, project.id, person, not resume)
        said = f"{', '.join(people)}: {'resumed' if resume else 'paused'}."
        print_result({"people": people, "paused": not resume}, at.as_json, [said])


@annotate_app.add("create")
def create_labelling(
    source: Path,
    name: str = "labels",
    db: str = DATABASE,
    images: Path | None = None,
    guideline: str = "1",
    lease: float = 15.0,
    audit: float = 0.05,
    seed: int | None = None,
    votes: bool = False,
    as_json: bool = False,
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
    print_result(result, as_json, [said])


_add_people_commands(annotate_app, "labelling")


@annotate_app.add("quality")
def labelling_quality(
    at: ProjectOptions,
    gold_share: float | None = None,
    floor_seconds: float | None = None,
    gold_right: float | None = None,
    kappa: float | None = None,
    hold: bool | None = None,
) -> None:
    """Show speed, gold answers, kappa and flags per person. Options change what is checked from now on."""
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


@annotate_app.add("known")
def add_known_items(at: ProjectOptions, source: Path, use: Literal["gold", "practice"] = "gold") -> None:
    """Add gold items, mixed in blind, or practice items, explained before the first item."""
    store, project = at.open("labelling")
    from compeer.cer.item import read_items
    from compeer.people.known_items import add_known

    count = add_known(store, project.id, read_items(source, resolve_images=False), use)
    print_result({"items": count, "use": use}, at.as_json, [f"{count:,} {use} items were added to {project.name}."])


@annotate_app.add("hold")
def hold_labels(at: ProjectOptions, people: list[str], reason: str = "Held by the coordinator") -> None:
    """Withhold people's labels. They do not count until they are released or discarded."""
    from compeer.people.quality import Flag, hold

    flag = Flag("coordinator", {"words": reason})
    _decide(at, people, lambda store, project, name: hold(store, project, name, [flag]), "on hold")


@annotate_app.add("release")
def release_labels(at: ProjectOptions, people: list[str]) -> None:
    """Release labels from hold, so that they count again."""
    from compeer.people.quality import release

    _decide(at, people, release, "released")


@annotate_app.add("discard")
def discard_labels(at: ProjectOptions, people: list[str]) -> None:
    """Discard labels that are on hold. They stay in the record, but do not count; somebody else is asked."""
    from compeer.people.quality import discard

    _decide(at, people, discard, "discarded")


def _decide(at: ProjectOptions, people: list[str], work: Callable[[Store, int, str], int], said: str) -> None:
    store, project = at.open("labelling")
    counts = {name: work(store, project.id, name) for name in people}
    print_result(counts, at.as_json, [f"{name}: {count:,} items {said}." for name, count in counts.items()])


@annotate_app.add("agreement")
def labelling_agreement(at: ProjectOptions, judgements: Path | None = None) -> None:
    """Show the agreement between people, and how often the audit and a judge confirm the labels."""
    store, project = at.open("labelling")
    from compeer.people.labelling_results import agreement, pair_agreement, read_judgements
    from compeer.people.terminal_tables import agreement_tables

    found = agreement(store, project.id, read_judgements(judgements) if judgements else None)
    pairs = pair_agreement(store, project.id)
    result = {"questions": found.questions, "labels": found.labels, "pairs": pairs, "audit": found.audit}
    at.print_tables(result, lambda: agreement_tables(found, pairs))


@annotate_app.add("export")
def export_labels(
    at: ProjectOptions,
    out: Path,
    form: Literal["cer", "labels-csv", "votes-csv", "label-studio", "potato"] = "cer",
    everything: bool = False,
    anonymous: bool = False,
) -> None:
    """Export labels: CER items with votes and status, tables, or all items as tasks for another tool."""
    store, project = at.open("labelling")
    from compeer.people import exchange
    from compeer.people.labelling_results import labelling_progress

    count = exchange.export_labels(store, project, form, out, everything=everything, anonymous=anonymous)
    result: dict[str, Any] = {"out": str(out), "format": form}
    if form in ("labels-csv", "votes-csv"):
        said = [f"{count:,} {'items' if form == 'labels-csv' else 'answers'} are in {out}."]
        result["rows"] = count
    elif str(out) == "-":
        return
    else:
        withheld = labelling_progress(store, project.id).withheld
        said = [f"{count:,} items are in {out}."]
        said += [f"Items with labels on hold, which do not count: {withheld:,}."] if withheld else []
        result |= {"items": count, "withheld": withheld}
    print_result(result, at.as_json, said)


@annotate_app.add("import")
def import_labels(at: ProjectOptions, source: Path, form: Literal["cer", "label-studio", "potato"] = "cer") -> None:
    """Import votes on this project's items from other tools. Importing a file twice changes nothing."""
    store, project = at.open("labelling")
    from compeer.cer.item import read_items
    from compeer.people.exchange import import_votes, votes_of_items
    from compeer.people.labelling_results import records
    from compeer.people.other_tools import read_label_studio, read_potato

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
    print_result(done, at.as_json, said)


@annotate_app.add("guideline")
def guideline(at: ProjectOptions, source: Path | None = None, version: str = "") -> None:
    """Print the guideline, or save a new version of its text."""
    store, project = at.open("labelling")
    from msgspec import to_builtins

    from compeer.cer.item import QUESTIONS
    from compeer.config import dump_yaml, read_yaml
    from compeer.people.guideline import current_guideline, own_questions, read_guideline, save_guideline

    if source is not None:
        asked = [*QUESTIONS, *(one.id for one in own_questions(store, project.id))]
        saved = save_guideline(store, project.id, read_guideline(read_yaml(source), asked), version)
        print_result(saved, at.as_json, [f"The guideline of {project.name} is now version {saved.version}."])
        return
    now = current_guideline(store, project.id)
    print_result(now, at.as_json, [f"# version {now.version}", dump_yaml(to_builtins(now.guideline))])


@annotate_app.add("questions")
def questions(at: ProjectOptions, source: Path | None = None) -> None:
    """Print a project's own questions, or set them while nothing has been given out."""
    store, project = at.open("labelling")
    from msgspec import to_builtins

    from compeer.config import dump_yaml, read_yaml
    from compeer.people.guideline import own_questions, read_questions, set_questions

    if source is not None:
        set_questions(store, project.id, read_questions(read_yaml(source)))
    now = own_questions(store, project.id)
    text = dump_yaml({"questions": to_builtins(now)}) if now else "There are no questions beside the paper's four."
    print_result(now, at.as_json, [text])


@arena_app.add("cases")
def make_cases(
    dialogues: Path, out: Path, count: int = 200, pictures: bool = False, seed: int = 0, as_json: bool = False
) -> None:
    """Make cases from conversations. Each case ends where a supporter would answer."""
    from compeer.dialogue import read, write_rows
    from compeer.people.arena_cases import cases_of

    made = write_rows(out, cases_of(read(dialogues), count=count, pictures=pictures, seed=seed))
    if not made:
        out.unlink(missing_ok=True)
        raise UserError(f"{dialogues} gave no case" + (" with a picture." if pictures else "."))
    print_result({"cases": made, "out": str(out)}, as_json, [f"{made:,} cases are in {out}."])


@arena_app.add("generate")
def generate_replies(
    source: Path,
    model: list[str],
    out: Path,
    asked: AnswerOptions,
    images: Path | None = None,
    limit: int | None = None,
) -> None:
    """Generate the models' replies to the cases, in reasoning mode. One file per model; run again to resume."""
    from compeer.dialogue import read_rows
    from compeer.people.arena_cases import WITHOUT_PICTURES, GenerationOptions, Reply, generate, read_cases
    from compeer.pipeline.stage import Progress
    from compeer.pipeline.work import ModelSpec

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
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            grammar=asked.grammar,
            length=asked.length_for(spec),
        )
        target = out / f"{_file_name(name)}.jsonl"
        counts = generate(
            source, target, ModelSpec(spec, asked.base_url, asked.concurrency), options,
            seed=asked.seed, concurrency=asked.concurrency, limit=limit, progress=Progress(quiet=asked.as_json),
        ).counts  # fmt: skip
        blind = sum(WITHOUT_PICTURES in reply.notes for reply in read_rows(target, Reply))
        failed = sum(counts.rejected.values())
        done.append({"model": name, "out": str(target), "replies": counts.rows_out, "rejected": dict(counts.rejected),
                     "without_pictures": blind})  # fmt: skip
        said.append(f"{name}: {counts.rows_out:,} replies in {target}" + (f", {failed} failed" if failed else ""))
        if blind:
            said.append(f"  This model takes no pictures: {blind} cases were asked without theirs.")
    print_result(done, asked.as_json, said)


@arena_app.add("import")
def import_replies(answers: Path, source: Path, out: Path, model: str | None = None, as_json: bool = False) -> None:
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
    print_result(
        {"replies": len(found), "reasoned": reasoned, "missing": dict(missing), "out": str(out)}, as_json, said
    )


@arena_app.add("create")
def create_arena(
    source: Path,
    replies: list[Path],
    name: str = "arena",
    db: str = DATABASE,
    images: Path | None = None,
    votes: int = 3,
    quota: int | None = None,
    focus: str | None = None,
    show_reasoning: bool = False,
    lease: float = 15.0,
    seed: int | None = None,
    as_json: bool = False,
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
    print_result(made, as_json, [said])


_add_people_commands(arena_app, "arena")


@arena_app.add("close")
def close_arena(at: ProjectOptions, reopen: bool = False) -> None:
    """End an arena early. Everybody in it then sees the results; nothing is lost."""
    store, project = at.open("arena")
    from compeer.people.arena import close_arena

    close_arena(store, project.id, not reopen)
    print_result(
        {"closed": not reopen}, at.as_json, [f"The arena {project.name} is {'open again' if reopen else 'closed'}."]
    )


@arena_app.add("results")
def arena_results(at: ProjectOptions, figure: Path | None = None, draws: int = 2000, seed: int = 0) -> None:
    """Show wins, ties and losses by pair, and a ranking. The 95 % intervals are a paired bootstrap over cases."""
    store, project = at.open("arena")
    from compeer.people.arena_results import draw, results_of
    from compeer.people.terminal_tables import arena_results

    found = results_of(store, project.id, draws=draws, seed=seed)
    at.print_tables(found, lambda: arena_results(found) if found.votes else ["There are no votes yet."])
    if figure is not None:
        draw(found, figure)


@arena_app.add("export")
def export_votes(at: ProjectOptions, out: Path, anonymous: bool = False) -> None:
    """Export every vote that counts: case, models on both sides, choice, person, time, duration."""
    store, project = at.open("arena")
    from compeer.people import arena_results

    count = arena_results.export_votes(store, project.id, out, anonymous=anonymous)
    if str(out) != "-":
        print_result({"votes": count, "out": str(out)}, at.as_json, [f"{count:,} votes are in {out}."])


def _model_name(given: str) -> tuple[str, str]:
    """NAME=SPEC, or a spec that is its own name."""
    name, equals, spec = given.partition("=")
    return (name.strip(), spec) if equals and name.strip() and ":" not in name else (given, given)


def _file_name(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
