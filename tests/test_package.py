"""The wheel: its name, its licences, what is in it, and the command where another package is called compeer too."""

from __future__ import annotations

import email
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from tests.cli.command import environment

from compeer.models import shipped

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src/compeer/models/shipped"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=200)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def command(*words: str, path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The entry point of the wheel, with this folder before everything that is installed."""
    start = f"import sys; sys.argv = ['compeer', *{list(words)!r}]; from compeer_esc import main; main()"
    settings = environment(PYTHONPATH=str(path))
    return subprocess.run(
        [sys.executable, "-c", start], cwd=cwd, env=settings, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_name_is_ours_and_extras_name_the_same_package(metadata: Message) -> None:
    assert metadata["Name"] == "compeer-esc"
    assert "unofficial" in metadata["Summary"] and "not by the paper's authors" in metadata["Summary"]
    named = {re.split(r"[\[<>=!; ]", line)[0] for line in metadata.get_all("Requires-Dist", [])}
    assert "compeer" not in named, "extras that name each other"


def test_no_page_and_no_message_installs_the_other_package() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SAFETY.md", *(ROOT / "docs").rglob("*.md")]
    code = [path for folder in ("src", "benchmarks", "runs") for path in (ROOT / folder).rglob("*.py")]
    other = re.compile(r"""(?:pip|uv) (?:pip )?(?:install|add) (?:-\S+ )*["']?compeer(?![-_]esc)\b""")
    here = re.compile(r"""pip install ["']\.""")
    wrong = [str(path) for path in (*pages, *code) if other.search(path.read_text(encoding="utf-8"))]
    # outside a checkout "." is nothing; an installed package adds an extra by its own name
    wrong += [str(path) for path in code if path.is_relative_to(ROOT / "src") and here.search(path.read_text("utf-8"))]
    assert not wrong


def test_metadata_and_citation_name_every_licence(metadata: Message) -> None:
    cards = sorted(path.parent for path in SHIPPED.glob("*/README.md"))
    inside = {"apache-2.0", "cc-by-4.0", *(shipped.licence(folder) for folder in cards)}
    assert set(metadata["License-Expression"].lower().split(" and ")) == inside
    files = set(metadata.get_all("License-File", []))
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("LICENSE*")} <= files
    said = {"apache-2.0": "Apache-2.0", "cc-by-4.0": "CC BY 4.0", "cc-by-nc-4.0": "CC BY-NC 4.0"}
    for page in ("README.md", "CITATION.cff"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for licence, name in said.items():
            assert (name in text) == (licence in inside), f"{page}: {name}"
        assert "unofficial implementation" in text.lower() and "paper's authors" in text, page


def test_pages_say_of_each_adapter_what_its_card_says() -> None:
    """README names every non-commercial adapter, and none of the others beside it."""
    cards = {path.parent.name: shipped.licence(path.parent) for path in SHIPPED.glob("*/README.md")}
    bound = {name for name, licence in cards.items() if "-nc-" in licence}
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    sentence = re.search(r"The (\w+) small adapters[^.]*\.md\), (.*?), were trained on ESConv and are CC BY-NC", text)
    assert sentence and set(re.findall(r"`([^`]+)`", sentence[2])) == bound
    assert sentence[1] == {1: "one", 2: "two", 3: "three"}[len(bound)]
    free = re.search(r"the default supporter \(`([^`]+)`\) CC BY 4\.0", text)
    assert free and cards[free[1]] == "cc-by-4.0"


def test_entries_of_inspects_register_name_tasks_that_are_there() -> None:
    import yaml
    from inspect_ai.util import registry_info

    from compeer.evals import tasks

    files = sorted((ROOT / ".github/inspect_register").glob("*/eval.yaml"))
    named = set()
    for file in files:
        entry = yaml.safe_load(file.read_text(encoding="utf-8"))
        (task,) = entry["tasks"]
        assert entry["id"] == file.parent.name and (ROOT / task["task_path"]) == Path(tasks.__file__)
        assert registry_info(getattr(tasks, task["name"])).name == f"compeer/{task['name']}"
        assert {"full_title", "common_title", "description", "contributors", "source"} <= set(entry)
        named.add(task["name"])
    assert named == {"sage", "esc_eval"}


def test_verifiers_finds_its_environment_under_the_name_of_the_distribution() -> None:
    """verifiers imports the module that is called like the package and looks through its `__all__`."""
    import compeer_esc

    assert set(compeer_esc.__all__) == {"SupportEnv", "SupportTaskset", "main"}
    if importlib.util.find_spec("verifiers") is None:
        with pytest.raises(ModuleNotFoundError, match="verifiers"):
            _ = compeer_esc.SupportEnv
    else:
        assert compeer_esc.SupportEnv.__module__ == "compeer.policy.bridges.verifiers"
    assert not hasattr(compeer_esc, "Other")


def test_the_configurations_are_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    path, work = unpacked(wheel, tmp_path / "wheel"), tmp_path / "work"
    work.mkdir()
    ours = {f"{one.parent.name}/{one.stem}" for one in (ROOT / "configs").glob("*/*.yaml")}
    listed = command("config", "list", path=path, cwd=work)
    assert {line.split()[0] for line in listed.stdout.splitlines()} == ours, listed.stderr
    shown = command("config", "show", "reward/laptop", path=path, cwd=work)
    assert shown.stdout == (ROOT / "configs/reward/laptop.yaml").read_text(encoding="utf-8")
    lacking = command("reward", "train", "configs/reward/laptop.yaml", path=path, cwd=work)
    assert lacking.returncode == 1 and "compeer config copy reward/laptop" in lacking.stderr
    assert command("config", "copy", path=path, cwd=work).returncode == 0
    assert {f"{one.parent.name}/{one.stem}" for one in (work / "configs").glob("*/*.yaml")} == ours
    (work / "configs/reward/laptop.yaml").write_text("out: mine\n")
    kept = command("config", "copy", path=path, cwd=work)
    assert kept.returncode == 1 and "--force" in kept.stderr
    assert (work / "configs/reward/laptop.yaml").read_text() == "out: mine\n"
    unknown = command("config", "show", "reward/none", path=path, cwd=work)
    assert unknown.returncode == 1 and "reward/laptop" in unknown.stderr


@pytest.mark.parametrize("mixed", [False, True], ids=["hides ours", "lies in ours"])
def test_another_package_of_the_same_name_is_said(wheel: Path, tmp_path: Path, mixed: bool) -> None:
    path = unpacked(wheel, tmp_path / "site") if mixed else tmp_path / "site"
    (path / "compeer").mkdir(parents=True, exist_ok=True)
    (path / "compeer" / "__init__.py").write_text("__version__ = '0.1.0'\n")
    (path / "compeer" / "_base_client.py").write_text("")
    done = command("--version", path=path, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "pip uninstall compeer compeer-esc" in done.stderr and str(path / "compeer") in done.stderr


def test_the_version_is_one() -> None:
    from compeer import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_workflow_runs_what_contributors_run() -> None:
    import yaml

    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    commands = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"make check", "make test"} <= set(commands) and {"check", "test"} <= set(targets)
