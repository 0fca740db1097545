"""The demo from beginning to end: six stages, a table, an invitation."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from rich.console import Console

from compeer.demo import data, ending, measuring, training
from compeer.demo.folder import Folder, opened
from compeer.demo.sizes import Sizes
from compeer.demo.stages import Done, Stage, run, table

STAGES = (
    Stage(
        name="data",
        does="Bundled conversations become a dataset: rounds are drawn, their reasoning is labelled right or wrong.",
        paper="Construction of CER, equation 1; labels are silver, made by rule in place of people's",
        command="compeer cer build",
        work=data.make,
    ),
    Stage(
        name="judge",
        does="A judge learns to say whether each step of reasoning is right and which of two replies is better.",
        paper="UnifiReward, equation 4",
        command="compeer reward train",
        work=training.judge,
    ),
    Stage(
        name="sft",
        does="The supporter learns to think in three steps before it answers, from written-out examples.",
        paper="the cold start, COMPEER-SFT",
        command="compeer policy sft",
        work=training.sft,
    ),
    Stage(
        name="grpo",
        does="It answers four times, the judge rewards each answer, what repeats counts less, and it learns from that.",
        paper="GRPO with redundancy reweighting, COMPEER-URP, equations 2 to 7",
        command="compeer policy grpo",
        work=training.grpo,
    ),
    Stage(
        name="measure",
        does="The model before and after answers the same held-out moments, and both are judged and counted.",
        paper="the evaluation, in place of Tables 2 and 3; control",
        command="compeer reward score, eval diversity, eval control",
        work=measuring.make,
    ),
    Stage(
        name="report",
        does="All figures with their intervals, and every answer to read, on one page.",
        paper="how Tables 2 and 3 are shown",
        command="compeer eval report",
        work=ending.make,
    ),
)


def tell(
    out: Path,
    *,
    sizes: Sizes = Sizes(),
    base: str = "embedded",
    fresh: bool = False,
    browser: bool = True,
    console: Console | None = None,
) -> list[Done]:
    """Run the demo, or go on with it."""
    _prepare()
    console = console or Console(highlight=False)
    console.print("[bold]COMPEER[/bold]: the whole paper in miniature, on your processor. No GPU, no key, no hub.")
    console.print("[dim]Stop it whenever you like; the same command goes on where it was.[/dim]")
    with warnings.catch_warnings(), opened(out, sizes, base, fresh=fresh) as folder:
        warnings.simplefilter("ignore")  # a reader of the story can do nothing about them
        _say_start(folder, console)
        done = run(folder, STAGES, console)
        console.print()
        console.print(table(done))
        ending.show(folder, console, browser=browser)
    return done


def _prepare() -> None:
    """Before torch is loaded: the processor only, no hub, no chatter, no spinning at barriers (`models.embedded`)."""
    for name, value in {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",  # bars of files that are read; ours show the stages
        "GOMP_SPINCOUNT": "20000",
    }.items():
        os.environ.setdefault(name, value)


def _say_start(folder: Folder, console: Console) -> None:
    if folder.base != "embedded":
        console.print(f"[dim]It starts from {folder.base}, with new adapters.[/dim]")
    elif missing := {"supporter", "judge"} - set(folder.settings.adapters):
        console.print(
            f"[dim]There is no shipped {' and no shipped '.join(sorted(missing))} here: new ones begin.[/dim]"
        )
