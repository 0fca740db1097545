"""`compeer --help` is light: it imports nothing heavy and starts about as fast as typer itself."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from tests.cli.command import COMPEER, compeer, environment
from typer.core import TyperCommand

from compeer import __version__
from compeer.cli import COMMANDS, app
from compeer.cli.lazy import with_whole_sentences
from compeer.cli.options import OPTION_TEXTS

HEAVY = (
    "torch", "trl", "transformers", "inspect_ai", "datasets", "ray", "sklearn", "numpy", "pyarrow", "aiohttp",
    "matplotlib", "sentence_transformers", "xllamacpp", "rich", "msgspec", "asyncio",
)  # fmt: skip


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and group, as the words that call it."""

    def below(command: object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(inner, (*words, name))

    yield from below(typer.main.get_command(app), ())


def imported(*calls: tuple[str, ...], of: tuple[str, ...] = HEAVY) -> set[str]:
    """Which of some modules, the heavy ones unless said, a process has imported after these calls."""
    program = (
        "import contextlib, json, sys\n"
        "from compeer.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = words\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main()\n"
        f"print(json.dumps([name for name in {of!r} if name in sys.modules]), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, json.dumps(calls)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: ") == len(calls)
    return set(json.loads(done.stderr.strip().splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    assert imported(("--help",)) == set()


def test_help_reads_no_command_and_help_of_one_reads_only_that() -> None:
    files = tuple({module for place in COMMANDS.values() for module in (place.module,)})
    assert len(files) > 6
    assert imported(("--help",), of=files) == set()
    assert imported(("--help",), ("policy", "--help"), of=files) == {"compeer.cli.policy"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_listing_is_the_short_help_of_the_command_itself(name: str) -> None:
    """The whole first sentence, at any width."""
    real = typer.main.get_group(app).commands[name]
    listed = with_whole_sentences(TyperCommand(name, help=COMMANDS[name].help))
    assert [listed.get_short_help_str(width) for width in (45, 500)] == [
        real.get_short_help_str(width) for width in (45, 500)
    ]
    assert real.name == name and not real.hidden


def test_help_of_a_command_imports_nothing_heavy_either() -> None:
    calls = [(*words, "--help") for words in commands() if words]
    assert len(calls) > 5
    assert imported(*calls) <= {"rich", "msgspec"}


def test_the_check_above_can_fail() -> None:
    program = f"import sys, aiohttp; print([n for n in {HEAVY!r} if n in sys.modules])"
    assert "aiohttp" in subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout


def cpu_seconds(command: list[str]) -> float:
    """Processor time of one run: what a busy machine does not change much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_takes_at_most_three_times_import_typer() -> None:
    ours, typers = [], []
    for _ in range(7):
        ours.append(cpu_seconds([COMPEER, "--help"]))
        typers.append(cpu_seconds([sys.executable, "-c", "import typer"]))
    assert min(ours) <= 3 * min(typers), (ours, typers)


def test_version() -> None:
    done = compeer("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"compeer {__version__}\n", "")


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, for speed; the tests above start the real command."""
    monkeypatch.setenv("COLUMNS", "80")
    seen = list(commands())
    assert {("chat",), ("parse",), ("demo",), ("doctor",), ("corpus", "stats")} <= set(seen)
    for words in seen:
        with pytest.raises(SystemExit) as end:
            app([*words, "--help"])
        shown = capsys.readouterr().out
        assert end.value.code == 0, words
        assert "Usage:" in shown and len(shown.splitlines()) > 4, (words, shown)


def test_no_listing_cuts_a_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    groups = {words[:-1] for words in commands() if words}
    assert {(), ("corpus",), ("reward",)} <= groups
    for words in groups:
        with pytest.raises(SystemExit):
            app([*words, "--help"])
        listing = capsys.readouterr().out.partition("Commands:")[2]
        assert listing and "..." not in listing, (words, listing)


def test_every_option_that_is_described_belongs_to_a_command() -> None:
    used = set()
    for words in commands():
        command = typer.main.get_command(app)
        for word in words:
            command = command.commands[word]  # type: ignore[attr-defined]
        for option in command.params:
            places = [" ".join(words[:end]) for end in range(len(words), 0, -1)] + ["shared"]
            used |= {
                next(((place, option.name) for place in places if option.name in OPTION_TEXTS.get(place, {})), None)
            }
    assert {(place, name) for place, options in OPTION_TEXTS.items() for name in options} == used - {None}


def test_help_is_one_screen() -> None:
    assert len(compeer("--help").stdout.splitlines()) <= 25
    assert len(compeer("chat", "--help").stdout.splitlines()) <= 40


@pytest.mark.parametrize("words", [(), ("corpus",), ("cer",)])
def test_without_a_command_help_is_shown(words: tuple[str, ...]) -> None:
    done = compeer(*words)
    assert done.returncode == 2 and "Usage: compeer" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("nonsense",), ("chat", "--nonsense"), ("chat", "--temperature", "hot")])
def test_a_slip_of_the_keys_is_a_short_message(words: tuple[str, ...]) -> None:
    done = compeer(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and 0 < len(done.stderr.splitlines()) <= 8


def test_a_closed_pipe_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([COMPEER, "--help"], env=environment(), stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.stderr == b""
