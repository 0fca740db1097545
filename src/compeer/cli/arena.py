"""compeer arena: blind comparison of models by people (Figure 6 of the paper), without the page.

compeer arena cases dialogues.jsonl --out cases.jsonl --count 200 --pictures
compeer arena generate cases.jsonl --model ours=hf:runs/grpo --model base=openai:qwen --out replies --images pictures
compeer arena import answers.jsonl --cases cases.jsonl --as gpt-4o --out replies/gpt-4o.jsonl
compeer arena create cases.jsonl replies/*.jsonl --name pilot --images pictures
compeer arena invite anna ben cleo
compeer arena results --figure pilot.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compeer.cli.people import DB, AsJson, Db, Name, add, opened, ready, show, tell

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.people.arena_project import Arena
    from compeer.people.store import Store

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Images = Annotated[Path | None, typer.Option("--images", help="Folder of the pictures. Default: that of the cases.")]
CasesFile = Annotated[Path, typer.Argument(help="Cases, JSON lines.", show_default=False)]


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
    from compeer.dialogue import read, write_rows
    from compeer.errors import UserError
    from compeer.people.arena_cases import cases_of

    made = write_rows(out, cases_of(read(dialogues), count=count, pictures=pictures, seed=seed))
    if not made:
        out.unlink(missing_ok=True)
        raise UserError(f"{dialogues} gave no case" + (" with a picture." if pictures else "."))
    tell({"cases": made, "out": str(out)}, as_json, [f"{made:,} cases are in {out}."])


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
    from compeer.dialogue import read_rows
    from compeer.errors import UserError
    from compeer.people.arena_cases import UNSEEN, Options, Reply, generate, read_cases
    from compeer.pipeline.stage import Progress
    from compeer.pipeline.work import ModelSpec

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
    tell(done, as_json, said)


@app.command("import")
def import_(
    answers: Annotated[Path, typer.Argument(help="JSON lines with case, and raw or response.", show_default=False)],
    source: Annotated[Path, typer.Option("--cases", help="The cases they answer.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The replies, JSON lines.")],
    model: Annotated[str | None, typer.Option("--as", help="The model's name, where the file has none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read replies that another program wrote."""
    from compeer.dialogue import write_rows
    from compeer.people.arena_cases import missing, read_cases, read_foreign

    known = read_cases(source)
    found = read_foreign(answers, known, model)
    write_rows(out, found)
    reasoned = sum(reply.reasoning is not None for reply in found)
    lacking = missing(known, found)
    said = [f"{len(found):,} replies are in {out}, {reasoned:,} of them with complete reasoning."]
    said += [f"  {name} has not answered {count:,} cases." for name, count in lacking.items()]
    tell({"replies": len(found), "reasoned": reasoned, "missing": dict(lacking), "out": str(out)}, as_json, said)


@app.command()
def create(
    source: CasesFile,
    replies: Annotated[list[Path], typer.Argument(help="Replies of the models, JSON lines.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="What the arena is called.")] = "arena",
    db: Db = DB,
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
    ready()
    import msgspec

    from compeer.people.arena_cases import read_cases, read_replies
    from compeer.people.arena_project import create_arena
    from compeer.people.store import open_store

    made = create_arena(
        open_store(db), name, read_cases(source), read_replies(replies), images=images or source.parent, votes=votes,
        focus=focus, show_reasoning=show_reasoning, lease_minutes=lease, seed=seed,
    )  # fmt: skip
    left = f" {made.left_out:,} cases that some model has not answered are left out." if made.left_out else ""
    said = (
        f"The arena {name} has {made.comparisons:,} comparisons of {len(made.models)} models on {made.cases:,} cases "
        f"in {db}.{left} Next: compeer arena invite NAME, and compeer studio --db {db}"
    )
    tell(msgspec.to_builtins(made), as_json, [said])


def find(store: Store, name: str | None) -> Arena:
    from compeer.people.arena_project import arena_named

    return arena_named(store, name)


add(app, find)


@app.command()
def status(name: Name = None, db: Db = DB, as_json: AsJson = False) -> None:
    """How far an arena is, as a whole and by person."""
    store = opened(db)
    from compeer.people.arena_project import progress
    from compeer.people.arena_tables import status_tables

    now = progress(store, find(store, name).id)
    show(now, as_json, lambda: status_tables(now))


@app.command()
def close(
    reopen: Annotated[bool, typer.Option("--reopen", help="Let people go on.")] = False,
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """End an arena before every comparison has its vote; everybody in it sees the results then."""
    store = opened(db)
    from compeer.people.arena_project import close as change

    arena = find(store, name)
    change(store, arena.id, not reopen)
    tell({"closed": not reopen}, as_json, [f"The arena {arena.name} is {'open again' if reopen else 'closed'}."])


@app.command()
def results(
    figure: Annotated[Path | None, typer.Option(help="Draw the stacked bars into this .svg or .png.")] = None,
    draws: Annotated[int, typer.Option(min=100, help="Resamples of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """Win, tie and loss by pair and a ranking, with 95 % intervals from a paired bootstrap over cases."""
    store = opened(db)
    from compeer.errors import UserError
    from compeer.people.arena_figure import png, svg
    from compeer.people.arena_results import results_of
    from compeer.people.arena_tables import result_tables

    if figure is not None and figure.suffix not in (".svg", ".png"):
        raise UserError(f"--figure ends in .svg or .png; {figure.name} does not.")
    arena = find(store, name)
    found = results_of(store, arena.id, draws=draws, seed=seed)
    show(found, as_json, lambda: result_tables(found) if found.votes else ["There are no votes yet."])
    if figure is not None and figure.suffix == ".svg":
        figure.write_text(svg(found), encoding="utf-8")
    elif figure is not None:
        png(found, figure)


@app.command("export")
def export_(
    out: Annotated[Path, typer.Option("--out", "-o", help="The votes, JSON lines.")],
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Numbers instead of names, no notes.")] = False,
    name: Name = None,
    db: Db = DB,
    as_json: AsJson = False,
) -> None:
    """Write every vote that counts: case, the models on both sides, the choice, who, when, how long."""
    store = opened(db)
    from compeer.dialogue import write_rows
    from compeer.people.arena_results import ballots

    arena = find(store, name)
    count = write_rows(out, ballots(store, arena.id, anonymous=anonymous))
    if str(out) != "-":
        tell({"votes": count, "out": str(out)}, as_json, [f"{count:,} votes are in {out}."])


def _model(given: str) -> tuple[str, str]:
    """NAME=SPEC, or a spec that is its own name."""
    name, equals, spec = given.partition("=")
    return (name.strip(), spec) if equals and name.strip() and ":" not in name else (given, given)


def _file(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
