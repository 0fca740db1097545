"""compeer policy: supervised cold start, GRPO, and merging of adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from compeer.cli.options import CommandGroup, TrainingOptions, print_result

app = CommandGroup("policy")


@app.add("sft")
def sft(config: Path, options: TrainingOptions) -> None:
    """Train the cold start (SFT) on references with their reasoning. Run the command again to resume."""
    from compeer.policy.sft import read_config, train
    from compeer.training.run import is_main

    result = train(read_config(config, options.overrides), force=options.force, fresh=options.fresh)
    if is_main():
        print_result(result, options.as_json)


@app.add("grpo")
def grpo(config: Path, options: TrainingOptions) -> None:
    """Train with GRPO on a judge's reward. Run it again to resume; use accelerate launch for several processes."""
    from compeer.policy.grpo.config import read_config
    from compeer.policy.grpo.run import train
    from compeer.training.run import is_main

    used = read_config(config, options.overrides)
    result = train(used, given=config.read_text(encoding="utf-8"), force=options.force, fresh=options.fresh)
    if is_main():
        print_result(result, options.as_json)


@app.add("merge")
def merge(
    adapter: Path,
    out: Path,
    base: str | None = None,
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16",
    as_json: bool = False,
) -> None:
    """Merge an adapter into its base model, for servers that do not load adapters."""
    from compeer.training.model import find_adapter
    from compeer.training.model import merge as run_merge

    folder = find_adapter(str(adapter / "model" if (adapter / "model").is_dir() else adapter), "supporter")
    assert folder is not None
    print_result({"base": run_merge(folder, out, base=base, dtype=dtype), "opens_as": f"hf:{out}"}, as_json)
