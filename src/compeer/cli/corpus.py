"""compeer corpus: import a corpus, count what is in it, read a conversation.

compeer corpus import esconv data/esconv --out esconv.jsonl
compeer corpus stats esconv.jsonl --plot esconv.png
compeer corpus show esconv.jsonl esconv/train/00012
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compeer.cli.options import CommandGroup, print_json, print_table
from compeer.errors import UserError

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.corpora.importing import ImportSummary
    from compeer.corpora.stats import Statistics

app = CommandGroup("corpus")


def _known(context: typer.Context, name: str) -> str:
    """The name of a corpus, checked before anything else: whoever mistypes it has no use for other complaints."""
    if not context.resilient_parsing:
        from compeer.corpora import corpus_named

        corpus_named(name)
    return name


@app.add("import")
def import_(
    name: Annotated[
        str,
        typer.Argument(
            help="bundled, open-cer, esconv, failed_esconv, escot, mesc, avamerg, soulchat, smile, cpsycoun, emollm, "
            "or plain.",
            show_default=False,
            callback=_known,
        ),
    ],
    out: Path,
    path: Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    media: Path | None = None,
    csv: Path | None = None,
    licence: str | None = None,
    language: str | None = None,
    rejects: Path | None = None,
    as_json: bool = False,
) -> None:
    """Convert a corpus to dialogue records. Records that cannot be used are written to a file with the reason."""
    from compeer.corpora import importing, load
    from compeer.pipeline.stage import LiveLine

    options = {"split": split, "media": media, "csv": csv, "licence": licence, "language": language}
    if path is None and name not in ("bundled", "open-cer"):
        raise UserError(f"Give the file or folder of {name}: compeer corpus import {name} PATH --out {out}")
    outcomes = load(name, path or Path(), **options)
    with LiveLine(quiet=as_json, unit="records").over(name, None) as tell:
        summary = importing.run(
            outcomes, str(out), rejects, limit, watch=lambda so_far: tell(so_far.imported + so_far.rejected)
        )
    _print_summary(summary, as_json)


@app.add("stats")
def stats(file: Path, plot: Path | None = None, as_json: bool = False) -> None:
    """Show statistics of a corpus: rounds, languages, strategies, emotions, lengths, licences."""
    from compeer.corpora.stats import collect, draw
    from compeer.dialogue import read

    statistics = collect(read(str(file)))
    if plot:
        draw(statistics, plot)
    if as_json:
        print_json(statistics.to_dict())
    else:
        _print_statistics(statistics)


@app.add("show")
def show(file: Path, which: str = "0", reasoning: bool = False, as_json: bool = False) -> None:
    """Print one conversation. Default: the first."""
    from compeer.dialogue import read

    at = int(which) if which.isdecimal() else None
    for index, dialogue in enumerate(read(str(file))):
        if dialogue.id == which or index == at:
            break
    else:
        raise UserError(f"{file}: there is no dialogue {which!r}. Give an id, or an index counted from 0")
    if as_json:
        print_json(dialogue)
        return
    from rich.console import Console

    from compeer.corpora.show import conversation

    Console().print(conversation(dialogue, reasoning=reasoning))


def _print_summary(summary: ImportSummary, as_json: bool) -> None:
    to_stderr = summary.out == "-"  # standard output holds the records
    if as_json:
        print_json(summary, err=to_stderr)
        return
    names = ", ".join(f"{name} {count}" for name, count in summary.strategies_unmapped.items())
    rows = [("imported", summary.imported, summary.out), ("rejected", summary.rejected, summary.rejects or "")]
    for reason, count in sorted(summary.reasons.items(), key=lambda item: -item[1]):
        rows.append(("", count, f"{reason} (first: {summary.examples[reason]})"))
    rows.append(("strategies", summary.strategies_mapped, "mapped"))
    rows.append(("", sum(summary.strategies_unmapped.values()), "unmapped" + (f": {names}" if names else "")))
    print_table([(name, f"{count:,}", about) for name, count, about in rows], numbers=(1,), err=to_stderr)


def _print_statistics(statistics: Statistics) -> None:
    rounds, plain = statistics.rounds, statistics.to_dict()
    rows = [
        ("dialogues", f"{statistics.dialogues:,}"),
        ("utterances", f"{statistics.utterances:,}"),
        ("rounds", f"mean {rounds.mean:.1f}, {rounds.least} to {rounds.most}"),
    ]
    for language, speakers in statistics.lengths.items():
        unit = "words" if language == "en" else "characters"
        for speaker, spread in speakers.items():
            text = f"{language}: mean {spread.mean:.1f} {unit}, {spread.least} to {spread.most}"
            rows.append((f"{speaker} utterances", text))
    for key in ("languages", "sources", "licences", "strategies", "unmapped_strategies", "problems", "emotions"):
        rows.append((key.replace("_", " "), _ranked(plain[key])))
    rows.append(("emotions by utterance", _ranked(plain["utterance_emotions"])))
    rows += [
        (key, f"{plain[key]:,}") for key in ("crises", "unhelpful", "images", "described", "reasoned") if plain[key]
    ]
    print_table([row for row in rows if row[1]])


def _ranked(table: dict[str, int]) -> str:
    shown = [f"{name} {count:,}" for name, count in list(table.items())[:12]]
    return ", ".join(shown) + (f", {len(table) - 12} more" if len(table) > 12 else "")
