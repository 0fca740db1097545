"""compeer arena: blind comparison of models by people (Figure 6 of the paper), without the page.

compeer arena cases dialogues.jsonl --out cases.jsonl --count 200 --pictures
compeer arena generate cases.jsonl --model ours=hf:runs/grpo --model base=openai:qwen --out replies --images pictures
compeer arena import answers.jsonl --cases cases.jsonl --as gpt-4o --out replies/gpt-4o.jsonl
compeer arena create cases.jsonl replies/*.jsonl --name pilot --images pictures
compeer arena invite anna ben cleo
compeer arena results --figure pilot.svg
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.annotation.store import Store
    from compeer.arena.project import Arena

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Db = Annotated[
    str, typer.Option("--db", envvar="COMPEER_ANNOTATION_DB", help="A SQLite file, or postgresql://USER@HOST/NAME.")
]
Name = Annotated[str | None, typer.Option("--name", help="The arena, where the database holds several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Images = Annotated[Path | None, typer.Option("--images", help="Folder of the pictures. Default: that of the cases.")]
CasesFile = Annotated[Path, typer.Argument(help="Cases, JSON lines.", show_default=False)]
_DB = "annotation.db"


@app.command()
def cases(
    dialogues: Annotated[Path, typer.Argument(help="Dialogues, as compeer corpus import writes them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The cases, JSON lines.")],
    count: Annotated[int, typer.Option(min=1, help="At most so many.")] = 200,
    pictures: Annotated[bool, typer.Option("--pictures", help="Only moments whose history shows a picture.")] = False,
    seed: Annotated[int, typer.Option(help="Of the moments that are drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make cases from conversations: each is cut where a supporter answers."""
    from compeer.arena.cases import cases_of
    from compeer.dialogue import read, write_rows
    from compeer.errors import UserError

    made = write_rows(out, cases_of(read(dialogues), count=count, pictures=pictures, seed=seed))
    if not made:
        out.unlink(missing_ok=True)
        raise UserError(f"{dialogues} gave no case" + (" with a picture." if pictures else "."))
    _print({"cases": made, "out": str(out)}, as_json, [f"{made:,} cases are in {out}."])


@app.command()
def generate(
    source: CasesFile,
    model: Annotated[
        list[str], typer.Option("--model", "-m", help="[NAME=]embedded, hf:… or openai:…; may be repeated.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the replies; run it again to go on.")],
    images: Images = None,
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    grammar: Annotated[bool, typer.Option(help="Hold models to the reasoning format while decoding.")] = True,
    length: Annotated[
        str | None, typer.Option(help="Of the instructions: full, or brief. Default: brief for embedded.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.7,
    max_tokens: Annotated[int, typer.Option(min=1)] = 2000,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 16,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")] = None,
    seed: Annotated[int, typer.Option(help="Of what the models draw.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Let models answer the cases in reasoning mode, one file a model. What is done is not asked again."""
    from compeer.arena.cases import read_cases
    from compeer.arena.replies import UNSEEN, Options, Reply, generate
    from compeer.cer.progress import Progress
    from compeer.cer.work import ModelSpec
    from compeer.dialogue import read_rows
    from compeer.errors import UserError

    if length not in (None, "full", "brief"):
        raise UserError(f"--length is full or brief, not {length!r}.")
    read_cases(source)  # what is wrong with them should be known before the work
    named = [_model(one) for one in model]
    if len({_file(name) for name, _ in named}) < len(named):
        raise UserError("Two models have the same name; name them apart: --model NAME=SPEC.")
    done: list[dict[str, Any]] = []
    for name, spec in named:
        options = Options(
            name=name,
            images=str((images or source.parent).resolve()),
            temperature=temperature,
            max_tokens=max_tokens,
            grammar=grammar,
            length=length or ("brief" if spec.startswith("embedded") else "full"),  # type: ignore[arg-type]
        )
        target = out / f"{_file(name)}.jsonl"
        manifest = generate(
            source, target, ModelSpec(spec, base_url, concurrency), options,
            seed=seed, concurrency=concurrency, limit=limit, progress=Progress(quiet=as_json),
        )  # fmt: skip
        blind = sum(UNSEEN in reply.notes for reply in read_rows(target, Reply))
        counts = manifest.counts
        row: dict[str, Any] = {
            "model": name,
            "out": str(target),
            "replies": counts.rows_out,
            "rejected": dict(counts.rejected),
        }
        done.append(row | {"without_pictures": blind})
    said = []
    for row in done:
        lost = sum(row["rejected"].values())
        said.append(
            f"{row['model']}: {row['replies']:,} replies in {row['out']}" + (f", {lost} failed" if lost else "")
        )
        if row["without_pictures"]:
            said.append(f"  This model takes no pictures: {row['without_pictures']} cases were asked without theirs.")
    _print(done, as_json, said)


@app.command("import")
def import_(
    answers: Annotated[Path, typer.Argument(help="JSON lines with case, and raw or response.", show_default=False)],
    source: Annotated[Path, typer.Option("--cases", help="The cases they answer.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The replies, JSON lines.")],
    model: Annotated[str | None, typer.Option("--as", help="The model's name, where the file has none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read replies that another program wrote."""
    from compeer.arena.cases import read_cases
    from compeer.arena.replies import missing, read_foreign
    from compeer.dialogue import write_rows

    known = read_cases(source)
    found = read_foreign(answers, known, model)
    write_rows(out, found)
    reasoned = sum(reply.reasoning is not None for reply in found)
    lacking = missing(known, found)
    said = [f"{len(found):,} replies are in {out}, {reasoned:,} of them with complete reasoning."]
    said += [f"  {name} has not answered {count:,} cases." for name, count in lacking.items()]
    _print({"replies": len(found), "reasoned": reasoned, "missing": dict(lacking), "out": str(out)}, as_json, said)


@app.command()
def create(
    source: CasesFile,
    replies: Annotated[list[Path], typer.Argument(help="Replies of the models, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="What the arena is called.")] = "arena",
    db: Db = _DB,
    images: Images = None,
    votes: Annotated[int, typer.Option(min=1, max=100, help="People for each comparison.")] = 1,
    focus: Annotated[
        str | None, typer.Option(help="Compare only with this model, as the paper does. Default: all pairs.")
    ] = None,
    show_reasoning: Annotated[bool, typer.Option("--show-reasoning", help="Show the models' thoughts too.")] = False,
    lease: Annotated[float, typer.Option(min=0.1, help="Minutes a comparison stays with who does nothing.")] = 15.0,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of sides and order. Default: drawn.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an arena from cases and replies."""
    _ready()
    import msgspec

    from compeer.annotation.store import open_store
    from compeer.arena.cases import read_cases
    from compeer.arena.project import create_arena
    from compeer.arena.replies import read_replies

    made = create_arena(
        open_store(db), name, read_cases(source), read_replies(replies), images=images or source.parent, votes=votes,
        focus=focus, show_reasoning=show_reasoning, lease_minutes=lease, seed=seed,
    )  # fmt: skip
    left = f" {made.left_out:,} cases that some model has not answered are left out." if made.left_out else ""
    said = (
        f"The arena {name} has {made.comparisons:,} comparisons of {len(made.models)} models on {made.cases:,} cases "
        f"in {db}.{left} Next: compeer arena invite NAME, and compeer studio --db {db}"
    )
    _print(msgspec.to_builtins(made), as_json, [said])


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
    store, arena = _open(db, name)
    if revoke:
        for person in people:
            access.revoke(store, arena.id, person)
        _print({"revoked": people}, as_json, [f"The links of {', '.join(people)} no longer work."])
        return
    made = [
        access.new_link(store, arena.id, person) if new_link else access.invite(store, arena.id, person, role)  # type: ignore[arg-type]
        for person in people
    ]
    base = address.rstrip("/")
    rows = [{"name": one.person.name, "role": one.person.role, "link": f"{base}/enter/{one.token}"} for one in made]
    _print(rows, as_json, [f"{row['name']}: {row['link']}" for row in rows])


@app.command()
def status(name: Name = None, db: Db = _DB, as_json: AsJson = False) -> None:
    """How far an arena is, as a whole and by person."""
    _ready()
    import msgspec

    from compeer.arena.progress import progress
    from compeer.arena.tables_shown import status_tables

    store, arena = _open(db, name)
    now = progress(store, arena.id)
    if as_json:
        _print(msgspec.to_builtins(now), True, [])
    else:
        _show(status_tables(now))


@app.command()
def close(
    reopen: Annotated[bool, typer.Option("--reopen", help="Let people go on.")] = False,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """End an arena before every comparison has its vote; everybody in it sees the results then."""
    _ready()
    from compeer.arena.project import close as change

    store, arena = _open(db, name)
    change(store, arena.id, not reopen)
    _print({"closed": not reopen}, as_json, [f"The arena {arena.name} is {'open again' if reopen else 'closed'}."])


@app.command()
def results(
    figure: Annotated[Path | None, typer.Option(help="Draw the stacked bars into this .svg or .png.")] = None,
    draws: Annotated[int, typer.Option(min=100, help="Resamples of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Win, tie and loss by pair and a ranking, with 95 % intervals from a paired bootstrap over cases."""
    _ready()
    import msgspec

    from compeer.arena.figure import png, svg
    from compeer.arena.results import results_of
    from compeer.arena.tables_shown import result_tables
    from compeer.errors import UserError

    if figure is not None and figure.suffix not in (".svg", ".png"):
        raise UserError(f"--figure ends in .svg or .png; {figure.name} does not.")
    store, arena = _open(db, name)
    found = results_of(store, arena.id, draws=draws, seed=seed)
    if as_json:
        _print(msgspec.to_builtins(found), True, [])
    elif found.votes:
        _show(result_tables(found))
    else:
        typer.echo("There are no votes yet.")
    if figure is not None and figure.suffix == ".svg":
        figure.write_text(svg(found), encoding="utf-8")
    elif figure is not None:
        png(found, figure)


@app.command("export")
def export_(
    out: Annotated[Path, typer.Option("--out", "-o", help="The votes, JSON lines.")],
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names, no notes.")] = False,
    name: Name = None,
    db: Db = _DB,
    as_json: AsJson = False,
) -> None:
    """Write every vote that counts: case, the models on both sides, the choice, who, when, how long."""
    _ready()
    from compeer.arena.ballots import ballots
    from compeer.dialogue import write_rows

    store, arena = _open(db, name)
    count = write_rows(out, ballots(store, arena.id, anonymous=anonymous))
    if str(out) != "-":
        _print({"votes": count, "out": str(out)}, as_json, [f"{count:,} votes are in {out}."])


def _model(given: str) -> tuple[str, str]:
    """NAME=SPEC, or a spec that is its own name."""
    name, equals, spec = given.partition("=")
    return (name.strip(), spec) if equals and name.strip() and ":" not in name else (given, given)


def _file(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)


def _open(db: str, name: str | None) -> tuple[Store, Arena]:
    from compeer.annotation.store import open_store
    from compeer.arena.project import arena_named

    store = open_store(db, create=False)
    return store, arena_named(store, name)


def _ready() -> None:
    """Say what to install before anything is imported that needs it."""
    from importlib.util import find_spec

    from compeer.errors import UserError

    if missing := [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]:
        raise UserError(f'The arena needs {" and ".join(missing)}: pip install "compeer[studio]"')


def _show(tables: Any) -> None:
    from rich.console import Console

    Console().print(*tables, sep="\n")


def _print(result: Any, as_json: bool, said: list[str]) -> None:
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False) if as_json else "\n".join(said))
