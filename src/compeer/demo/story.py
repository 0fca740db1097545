"""The demo from beginning to end: six stages, a report, and what to do next."""

from __future__ import annotations

import os
import sys
import warnings
import webbrowser
from pathlib import Path

from rich.console import Console
from rich.text import Text

from compeer.cer.item import read_items
from compeer.conversation.display import reasoning_panel
from compeer.demo import steps
from compeer.demo.folder import SMALL_MODEL, DemoFolder, Sizes, Stage, opened, run
from compeer.demo.steps import NAMES, spec_of
from compeer.reasoning import parse
from compeer.typed import from_json


def make_report(folder: DemoFolder) -> str:
    """Write the report; where it is."""
    from compeer.evals.report import write_report

    names = [f"{kind}-{name}" for kind in ("reward", "language") for name in NAMES] + ["control-after"]
    runs = [folder.path("results", name) for name in names] + [folder.path(name) for name in ("sft", "policy")]
    written = write_report([run for run in runs if run.is_dir()], folder.path("report"), title="COMPEER demo")
    return f"{written.page}, {written.transcripts} answers to read"


def show(folder: DemoFolder, console: Console, *, browser: bool = True) -> None:
    """Where the report lies, and what can be done now."""
    page = folder.path("report", "report.html").resolve()
    opened = browser and open_page(page)
    lines = [
        ("The report" + (" is open in your browser: " if opened else ": "), str(page)),
        ("Talk with what you have just trained: ", f"compeer chat --model {spec_of(folder, 'after')}"),
        ("or with the 1.5B supporter: ", "compeer chat"),
        ("Look at these runs, talk and label in the browser: ", f"compeer studio --runs {folder.home}"),
    ]
    show_answer(folder, console)
    console.print()
    for words, what in lines:
        console.print(Text.assemble(words, (what, "bold")), soft_wrap=True)
    said = "A few steps prove that everything runs, not that it helps; docs/results.md has what was really trained."
    console.print(Text(said, style="dim"))


def show_answer(folder: DemoFolder, console: Console) -> None:
    """Show an answer of the trained model with its thinking: the first complete one, else the first."""
    items = list(read_items(folder.path("answers", "after.all.jsonl")))
    item = next((one for one in items if one.candidate and one.candidate.reasoning), items[0])
    assert item.candidate is not None
    console.print(Text.assemble("\nSomebody wrote:  ", (item.history[-1].text, "bold")))
    console.print("What the model thinks and answers now, without a grammar:\n")
    console.print(reasoning_panel(parse(item.candidate.raw or item.candidate.response)))


def open_page(page: Path) -> bool:
    """Open a page in a graphical browser; one that runs in the terminal would take the terminal over."""
    if not (sys.stdout.isatty() and _has_display()):
        return False
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(found) is not webbrowser.GenericBrowser and found.open(page.as_uri())


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


_WORK = {
    "data": steps.make_data,
    "judge": steps.judge,
    "sft": steps.sft,
    "grpo": steps.grpo,
    "measure": steps.make_measurement,
    "report": make_report,
}
#: the words of each stage are in stages.json
STAGES = tuple(
    Stage(work=_WORK[words["name"]], **words)
    for words in from_json(Path(__file__).with_name("stages.json").read_bytes(), list[dict[str, str]])
)


def run_demo(
    out: Path,
    *,
    sizes: Sizes = Sizes(),
    base: str = SMALL_MODEL,
    fresh: bool = False,
    browser: bool = True,
    console: Console | None = None,
) -> None:
    """Run the demo, or continue it."""
    _prepare()
    console = console or Console(highlight=False)
    console.print("[bold]COMPEER[/bold]: the whole paper in miniature, on your processor. No GPU, no key, no hub.")
    console.print("[dim]Stop it at any time; run the same command again to continue.[/dim]")
    with warnings.catch_warnings(), opened(out, sizes, base, fresh=fresh) as folder:
        warnings.simplefilter("ignore")  # a reader of the story can do nothing about them
        _say_start(folder, console)
        run(folder, STAGES, console)
        show(folder, console, browser=browser)


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


def _say_start(folder: DemoFolder, console: Console) -> None:
    if folder.base != SMALL_MODEL:
        console.print(f"[dim]It starts from {folder.base}, with new adapters.[/dim]")
    elif missing := {"supporter", "judge"} - set(folder.settings.adapters):
        console.print(
            f"[dim]There is no shipped {' and no shipped '.join(sorted(missing))} here: new ones begin.[/dim]"
        )
