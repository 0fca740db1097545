"""The reward that a configuration describes, for a trainer that knows nothing of it but a file's name.

Any configuration of `compeer policy grpo` will do; of it only `variant`, `reward`, `judge` and `embedder` are read. The
file is named by the caller or by the environment variable COMPEER_REWARD, because most trainers make their reward
functions without arguments. A process opens it once.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from compeer.errors import UserError
from compeer.policy.composite import CompositeReward
from compeer.policy.embedding import Embedder
from compeer.policy.grpo.config import Config, config_of

VARIABLE = "COMPEER_REWARD"
_READ = ("variant", "reward", "judge", "embedder")


def opened(path: str | None = None) -> CompositeReward:
    """The reward of this file, or of the one that COMPEER_REWARD names; the same object every time."""
    name = path or os.environ.get(VARIABLE)
    if not name:
        raise UserError(f"No reward is named: set {VARIABLE} to a configuration of compeer policy grpo.")
    return _opened(str(Path(name).resolve()))


def read(path: str) -> Config:
    """The part of a configuration that concerns the reward, the rest filled in with nothing."""
    import msgspec
    import yaml

    try:
        raw: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The reward's configuration {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"The reward's configuration {path} is not usable: {error}.") from None
    if not isinstance(raw, dict):
        raise UserError(f"The reward's configuration {path} is not usable: it must be a list of settings.")
    kept = {name: raw[name] for name in _READ if raw.get(name) is not None}
    try:
        return config_of({"out": "-", "model": "-", "data": ["-"], **kept})
    except msgspec.ValidationError as error:
        raise UserError(f"The reward's configuration {path} is not usable: {error}.") from None


@functools.cache
def _opened(path: str) -> CompositeReward:
    config = read(path)
    judge = None
    if config.judge is not None and config.reward.source != "rules":
        from compeer.reward.client.client import JudgeClient
        from compeer.reward.spec import open_judge

        asked = open_judge(config.judge.spec, base_url=config.judge.base_url)
        judge = JudgeClient(asked, budget=config.judge.budget, orders=config.judge.orders)
    return CompositeReward(judge, Embedder(config.embedder), config.reward)
