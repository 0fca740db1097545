"""Run the miniature: `python -m runs.miniature [STAGE …] [--tiny] [--out DIR] [--data DIR]`."""

from __future__ import annotations

import argparse
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from compeer.errors import UserError
from runs.miniature.pieces import Piece, Work, do, finished, run, say
from runs.miniature.plan import STAGES, plan
from runs.miniature.settings import load

HERE = Path(__file__).parent


def main(words: list[str] | None = None) -> int:
    given = sys.argv[1:] if words is None else words
    chosen = _parser().parse_args(given)
    try:
        return _run(chosen, given)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace, given: list[str]) -> int:
    settings = load(tiny=chosen.tiny)
    out = chosen.out or Path("runs/out/miniature-tiny" if chosen.tiny else "runs/out/miniature")
    work = Work(
        settings=settings,
        out=out,  # as it was given: a run that goes on elsewhere finds the same names
        data=chosen.data.resolve() if chosen.data else None,
        base=str(Path(chosen.base).resolve()) if Path(chosen.base).is_dir() else chosen.base,
        tiny=chosen.tiny,
        results=chosen.results or (out / "results" if chosen.tiny else HERE / "results"),
        docs=chosen.docs or (out / "results.md" if chosen.tiny else HERE.parent.parent / "docs" / "results.md"),
    )
    if chosen.tiny:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # before torch looks for one
    pieces = plan(settings)
    if chosen.piece:
        return _one(work, pieces, chosen.piece)
    wanted = chosen_pieces(pieces, chosen.stages)
    if chosen.list:
        for piece in wanted:
            state = "finished" if finished(work, piece) else "open"
            print(f"{piece.name:24} {state:9} about {piece.minutes:g} min")
        return 0

    def command(name: str) -> list[str]:
        return [sys.executable, "-m", "runs.miniature", *given, "--piece", name]

    made = run(work, wanted, parallel=chosen.parallel, minutes=chosen.minutes, command=command)
    left = [piece.name for piece in wanted if piece.name not in made and not finished(work, piece)]
    say(f"{len(made)} pieces were run, {len(left)} are left" + (f": {', '.join(left)}" if left else "."))
    return 1 if left and chosen.minutes is None else 0


def chosen_pieces(pieces: list[Piece], words: list[str]) -> list[Piece]:
    """The pieces of these stages, or with these names (`grpo/urp-*`), in the order in which they are asked for."""
    found: list[Piece] = []
    for word in words or STAGES:
        named = [piece for piece in pieces if piece.stage == word or fnmatchcase(piece.name, word)]
        if not named:
            raise UserError(
                f"{word!r} is no stage and no piece; stages are {', '.join(STAGES)}, --list tells the rest."
            )
        found += [piece for piece in named if piece not in found]
    return found


def _one(work: Work, pieces: list[Piece], name: str) -> int:
    piece = next((one for one in pieces if one.name == name), None)
    if piece is None:
        raise UserError(f"{name!r} is no piece; --list tells them.")
    if not finished(work, piece):
        do(work, piece)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runs.miniature", description=__doc__)
    parser.add_argument(
        "stages",
        nargs="*",
        help=f"which ones, or single pieces such as 'grpo/urp-*'; default: all of {' '.join(STAGES)}",
    )
    parser.add_argument("--tiny", action="store_true", help="a handful of items and two steps, on a CPU")
    parser.add_argument("--out", type=Path, help="where everything goes; default: runs/out/miniature")
    parser.add_argument("--data", type=Path, help="a folder with esconv/, escot/, mesc/; --tiny does without")
    parser.add_argument("--base", default="embedded:small", help="the model that everything starts from")
    parser.add_argument("--parallel", type=int, default=1, help="pieces side by side, each in a process of its own")
    parser.add_argument("--minutes", type=float, help="begin no piece that would not end within this time")
    parser.add_argument("--results", type=Path, help="where the result files go; default: beside this script")
    parser.add_argument("--docs", type=Path, help="the file with marked tables; default: docs/results.md")
    parser.add_argument("--list", action="store_true", help="tell the pieces and which are finished")
    parser.add_argument("--piece", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
