"""compeer reward: train the judge, score with it, serve it, measure it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compeer.cli import judge_studies

if TYPE_CHECKING:
    from compeer.reward.judge import Judge

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("eval")(judge_studies.evaluate)
app.command("consistency")(judge_studies.consistency)
app.command("timing")(judge_studies.timing)
app.command("attack")(judge_studies.attack)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A YAML file; configs/reward has some.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder, instead of the one in the file.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="name=value, instead of the file's; lora.r=8 for nested ones.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Resume although settings or data have changed.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a judge; run it again to go on where it stopped.

    With several GPUs: accelerate launch -m compeer.cli reward train CONFIG
    """
    import msgspec

    from compeer.reward.train import read_config
    from compeer.reward.train import train as run_training
    from compeer.training.run import is_main

    settings, given = read_config(config, [*(changes or []), *([f"out={out}"] if out else [])])
    trained = run_training(settings, given, force=force, fresh=fresh)
    if not is_main():
        return
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(trained)).decode())
        return
    typer.echo(f"The judge lies in {trained.model}" + (" and had been finished before." if trained.already else "."))
    for name, value in trained.results.items():
        typer.echo(f"  {name}: {value}")


@app.command()
def score(
    source: Annotated[Path, typer.Argument(help="Items, JSON lines, plain or compressed.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write. Manifest and summary go beside it.")],
    model: Annotated[str, typer.Option("--model", "-m", help="hf:…, embedded+…, openai:…, http://… of a service.")],
    orders: Annotated[
        str, typer.Option(help="one, both, candidate_first or reference_first: how each pair is shown.")
    ] = "one",
    kind: Annotated[str | None, typer.Option(help="unified, prm or orm. Default: what the judge is.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Conversations a local judge reads at a time.")] = 16,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N items.")] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds for a window of items; what is left then is marked.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Have the judge say why, which takes longer.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Judge items: verdicts, probabilities, the parts of the reward and their total, a row an item."""
    import msgspec

    from compeer.reward.score_file import lines
    from compeer.reward.score_file import score as run_score

    judge = _open_judge(model, kind, base_url, orders, batch=batch, explain=explain)
    summary = run_score(
        source,
        out,
        judge,
        orders=orders,  # type: ignore[arg-type]
        window=max(64, 4 * batch),
        limit=limit,
        fresh=fresh,
        budget=budget,
        kind=kind,  # type: ignore[arg-type]
        settings={"explain": True} if explain else {},
    )
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(summary)).decode())
    else:
        typer.echo("\n".join(lines(summary)))


@app.command()
def serve(
    model: Annotated[str, typer.Option("--model", "-m", help="hf:…, embedded+… or openai:….")],
    host: Annotated[str, typer.Option(help="Other machines can reach it only with a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one; it is printed.")] = 8020,
    api_key: Annotated[
        str | None, typer.Option(envvar="COMPEER_API_KEY", help="Asked for as a bearer key.", show_default=False)
    ] = None,
    orders: Annotated[str, typer.Option(help="How pairs are shown when a request does not say.")] = "one",
    kind: Annotated[str | None, typer.Option(help="unified, prm or orm. Default: what the judge is.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Cases that are judged together.")] = 32,
    patience: Annotated[float, typer.Option(min=0.0, help="Milliseconds a batch waits for company.")] = 5.0,
    queue: Annotated[int, typer.Option(min=1, help="Cases that may wait; beyond that the answer is 503.")] = 4096,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 120.0,
    most_cases: Annotated[int, typer.Option(min=1, help="Cases in one request.")] = 1024,
    most_mib: Annotated[int, typer.Option(min=1, help="Size of one request.")] = 32,
    pictures: Annotated[
        Path | None, typer.Option(help="A folder whose pictures requests may name; else they must bring them.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Have the judge say why, which takes longer.")] = False,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds for what is in flight when it is stopped.")] = 30.0,
) -> None:
    """Serve a judge over HTTP, with batches, health and metrics. docs/reward-service.md has the protocol."""
    import asyncio

    from compeer.reward.service import ServiceSettings
    from compeer.reward.service import serve as run_service

    judge = _open_judge(model, kind, base_url, orders, batch=batch, explain=explain)
    settings = ServiceSettings(
        host=host,
        port=port,
        api_key=api_key,
        orders=orders,  # type: ignore[arg-type]
        batch=batch,
        patience=patience / 1000,
        room=queue,
        timeout=timeout,
        most_cases=most_cases,
        most_bytes=most_mib << 20,
        pictures=pictures,
        grace=grace,
    )
    asyncio.run(run_service(judge, settings))


def _open_judge(spec: str, kind: str | None, base_url: str | None, orders: str, *, batch: int, explain: bool) -> Judge:
    """The judge a spec names; options that it cannot have are refused here."""
    from typing import get_args

    from compeer.errors import UserError
    from compeer.reward.judge import Orders
    from compeer.reward.spec import open_judge
    from compeer.reward.verdict import Kind

    if orders not in get_args(Orders):
        raise UserError(f"--orders is one of {', '.join(get_args(Orders))}, not {orders!r}.")
    if kind is not None and kind not in get_args(Kind):
        raise UserError(f"--kind is one of {', '.join(get_args(Kind))}, not {kind!r}.")
    if explain and spec.startswith(("http://", "https://")):
        raise UserError("Whether a judge behind a service explains itself is the service's: start it with --explain.")
    return open_judge(spec, kind=kind, base_url=base_url, batch=batch, explain=explain)  # type: ignore[arg-type]
