"""docs/configuration.md lists every key of every configuration with its default, and every environment variable.

A key that is added, renamed or given another default in the code fails here until the page says so.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import fields
from tests.docs.pages import CONFIGS, ROOT

from compeer.cer import filter as filtering
from compeer.cer import reason, sample
from compeer.cer.build import Build, CorpusSource
from compeer.cer.filter import Limits
from compeer.cer.silver import build_silver
from compeer.cer.split import plan
from compeer.pipeline.work import ModelSpec
from compeer.policy import multi_turn, seeker, sft
from compeer.policy.composite import RewardSettings
from compeer.policy.grpo import config as grpo
from compeer.reward import train as judge
from compeer.training.model import Lora

#: what is set by keys, and under which headings of the page they stand
PLACES: list[tuple[Any, tuple[str, ...]]] = [
    (Build, ("Building the dataset",)),
    (CorpusSource, ("A corpus",)),
    (ModelSpec, ("A model",)),
    (filtering.FilterOptions, ("filter",)),
    (Limits, ("limits",)),
    (sample.SampleOptions, ("sample",)),
    (reason.ReasonOptions, ("reason",)),
    (build_silver, ("silver",)),
    (plan, ("split",)),
    (judge.JudgeTraining, ("Training the judge", "Supervised training", "Loading the model")),
    (sft.SftConfig, ("The cold start", "Supervised training", "Loading the model")),
    (Lora, ("lora",)),
    (grpo.GrpoConfig, ("GRPO", "Loading the model")),
    (RewardSettings, ("reward",)),
    (grpo.JudgeConfig, ("judge",)),
    (grpo.SecondJudgeConfig, ("judge", "second judge")),
    (grpo.TalkConfig, ("conversation",)),
    (multi_turn.TalkSettings, ("talks",)),
    (multi_turn.TalkWeights, ("weights",)),
    (seeker.SeekerSettings, ("settings",)),
    (seeker.MoodRules, ("rules",)),
    (grpo.VllmConfig, ("vllm",)),
]
#: arguments that a build gives itself
INTERNAL = {"seed", "similar", "flagged"}
NEEDED = "needed"


@cache
def tables() -> dict[str, dict[str, str]]:
    """Keys and defaults of the table under each heading."""
    found: dict[str, dict[str, str]] = {}
    heading = ""
    for line in (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        elif row := re.match(r"\| `(\w+)` \| (.+?) \|", line):
            assert row[1] not in found.setdefault(heading, {}), f"{row[1]} stands twice under {heading}"
            found[heading][row[1]] = row[2]
    return found


def settings(of: Any) -> Iterator[tuple[str, Any]]:
    """Names and defaults, of a struct or of a function's named arguments."""
    if inspect.isfunction(of):
        for name, parameter in inspect.signature(of).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY and name not in INTERNAL:
                yield name, parameter.default
        return
    for field in fields(of):
        if field.required:
            yield field.encode_name, NEEDED
        else:
            yield field.encode_name, field.default_factory() if field.default is msgspec.NODEFAULT else field.default


def said(cell: str) -> Any:
    """The default that a cell names: `64`, `1e-5`, none, needed."""
    if cell == "none":
        return None
    if cell.startswith("`"):
        value = yaml.safe_load(cell.strip("`"))
        return float(value) if isinstance(value, str) and re.fullmatch(r"\de-\d+", value) else value
    return cell


@pytest.mark.parametrize(("of", "headings"), PLACES, ids=lambda value: getattr(value, "__qualname__", str(value)))
def test_the_page_lists_the_keys_with_their_defaults(of: Any, headings: tuple[str, ...]) -> None:
    shown = {key: cell for heading in headings for key, cell in tables()[heading].items()}
    known = dict(settings(of))
    assert set(shown) == set(known), f"{headings[0]}: the page and {of.__module__}.{of.__qualname__} differ"
    for key, default in known.items():
        if isinstance(default, msgspec.Struct):
            assert "#" in shown[key], f"{key} is a group; the page must say where its keys are"
        else:
            plain = msgspec.json.decode(msgspec.json.encode(default))  # a tuple is a list in YAML
            assert said(shown[key]) == plain, f"{headings[0]}: {key}"


def test_every_table_of_the_page_is_checked() -> None:
    assert set(tables()) - {"Environment variables"} == {heading for _, headings in PLACES for heading in headings}


def test_the_page_lists_the_environment_variables() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\b(?:COMPEER|OPENAI)_[A-Z_]+\b", page[page.index("## Environment variables") :]))
    assert shown == set(_read())


def _read() -> Iterator[str]:
    """Variables in the lines that read one: from the environment, by an option, or by a name for it."""
    code = (file for folder in ("src", "runs", "tests") for file in (ROOT / folder).rglob("*.py"))
    for file in (*code, ROOT / "src" / "compeer" / "cli" / "options.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.search(r"environ(\.get\(|\[)|environment\.get|\"envvar\": |^[A-Z_]+ = \"COMPEER_", line):
                yield from re.findall(r"\"((?:COMPEER|OPENAI)_[A-Z_]+)\"", line)


def test_the_shipped_configurations_lead_into_one_another() -> None:
    """What one reads, another one writes: a reader who goes through them in order misses no file."""
    read, written = set(), set()
    for file in CONFIGS:
        text = file.read_text(encoding="utf-8")
        written |= set(re.findall(r"^out: (\S+)", text, re.M))
        read |= {folder for folder in re.findall(r"\b(runs/out/[\w-]+)", text) if folder != "runs/out/other-judge"}
    assert read <= written, f"no configuration makes {', '.join(sorted(read - written))}"
