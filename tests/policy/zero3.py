"""GRPO under DeepSpeed's ZeRO-3 on a CPU: python -m torch.distributed.run … -m tests.policy.zero3 CONFIG.json

One process: accelerate counts one with DeepSpeed on CPUs, however many there are. ZeRO-3 still takes the weights out of
every model that is loaded after the trainer's configuration, which is what fails on a GPU too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ZERO3 = {
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "zero_allow_untested_optimizer": True,
}  # fmt: skip


def main() -> None:
    os.environ["DS_ACCELERATOR"] = "cpu"
    from compeer.policy.grpo import arguments
    from compeer.policy.grpo.config import config_of
    from compeer.policy.grpo.run import train

    usual = arguments.device_arguments

    def sharded(settings: Any) -> dict[str, Any]:
        return {name: value for name, value in usual(settings).items() if name != "use_cpu"} | {"deepspeed": ZERO3}

    arguments.device_arguments = sharded
    print(json.dumps(train(config_of(json.loads(Path(sys.argv[1]).read_text())), quiet=True)))


if __name__ == "__main__":
    main()
