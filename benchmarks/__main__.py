"""All benchmarks, or those named, one after another; results.json and the table of docs/performance.md as they end."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import benchmarks
from benchmarks import results, table
from benchmarks.attempt import attempt
from benchmarks.catalogue import CATALOGUE, NAMES, Benchmark
from benchmarks.machine import load, machine, revision


def main(words: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(words)
    if options.names == ["list"]:
        for benchmark in CATALOGUE:
            print(
                f"{benchmark.name:<14}{benchmark.minutes:4g} min  {benchmark.ours}\n{'':<24}against {benchmark.theirs}"
            )
        return 0
    if options.names == ["table"]:
        changed = table.write(results.read(options.results), options.page)
        print(f"{options.page}: {'written anew' if changed else 'as it was'}")
        return 0
    named = [*options.names, *(options.only or [])]
    if unknown := [name for name in (*named, *(options.skip or [])) if name not in NAMES]:
        print(
            f"There is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}, and list and table.", file=sys.stderr
        )
        return 2
    chosen = [one for one in CATALOGUE if one.name in (named or NAMES) and one.name not in (options.skip or [])]
    return _measure(chosen, options, anew=bool(named) or options.fresh)


def _measure(chosen: Sequence[Benchmark], options: argparse.Namespace, *, anew: bool) -> int:
    """One after another. Status 1 when one failed or a wanted ratio was missed."""
    known, here, at = results.read(options.results), machine(), revision()
    done = [] if anew else [one for one in chosen if one.name in known and known[one.name].current(at, here)]
    todo = [one for one in chosen if one not in done]
    print(f"{here}; revision {at}; load {load():g}")
    if done:
        print(f"measured before at this revision: {', '.join(one.name for one in done)} (--fresh measures them again)")
    if load() > 0.5 * here.cores:
        print("The cores are busy: ratios with a latency or a thread in them will be worse than on calm ones.")
    print(f"{len(todo)} to go, about {sum(one.minutes for one in todo):.0f} minutes\n", flush=True)
    began, well = time.monotonic(), True
    for number, one in enumerate(todo, start=1):
        print(f"{number}/{len(todo)} {one.name}: {one.title}", flush=True)
        try:
            entry = attempt(one, options.timeout)
        except KeyboardInterrupt:
            print(f"\nStopped in {one.name}. What was measured is kept; the same command goes on.", file=sys.stderr)
            return 130
        table.write(results.merge(one.name, entry, options.results), options.page)
        well &= _tell(entry)
        print(f"    {entry.seconds:.0f} s, {time.monotonic() - began:.0f} s in all\n", flush=True)
    print(f"{options.results} and {options.page} hold the results.")
    return 0 if well else 1


def _tell(entry: results.Entry) -> bool:
    """The ratios in the terminal; False when something is not as it should be."""
    if entry.failed:
        print(f"    could not be measured: {entry.failed}")
    for ratio in entry.ratios:
        what, ours, against, theirs, value, wanted, _ = table.cells(ratio)
        mark = "  MISSED" if ratio.held is False else ""
        print(f"    {what}: {ours} against {theirs} ({against}): {value}{f', wanted {wanted}' * bool(wanted)}{mark}")
    for missing in entry.missing:
        print(f"    {missing.what}, {missing.against}: not compared, {missing.reason}")
    return not entry.failed and not any(ratio.held is False for ratio in entry.ratios)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=benchmarks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help=f"list, table, or which to measure: {' '.join(NAMES)}")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the same as naming them")
    parser.add_argument("--skip", nargs="+", metavar="NAME", help="all but these")
    parser.add_argument("--fresh", action="store_true", help="measure also what was measured at this revision")
    parser.add_argument("--timeout", type=float, default=1200, metavar="SECONDS", help="for one benchmark")
    parser.add_argument("--results", type=Path, default=results.FILE, help="instead of benchmarks/results.json")
    parser.add_argument("--page", type=Path, default=table.PAGE, help="instead of docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
