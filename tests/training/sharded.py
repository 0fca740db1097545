"""`compeer` in two processes whose model FSDP2 really shards on CPUs: python -m torch.distributed.run … -m tests.training.sharded

accelerate takes FSDP for a matter of accelerators: on CPUs it ignores the setting and runs DDP, without a word. Here it
is told that the processes have accelerators whose device is the CPU. What was sharded is printed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType


def main() -> None:
    os.environ |= {"ACCELERATE_TORCH_DEVICE": "cpu", "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2",
                   "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP", "FSDP_RESHARD_AFTER_FORWARD": "true",
                   "FSDP_STATE_DICT_TYPE": os.environ.get("STATE_DICT", "FULL_STATE_DICT")}  # fmt: skip
    torch.distributed.init_process_group("gloo")
    PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)
    import transformers

    from compeer.cli import main as run

    class Look(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            local = sum(getattr(weight, "_local_tensor", weight).numel() for weight in model.parameters())
            whole = sum(weight.numel() for weight in model.parameters())
            sys.stderr.write(f"sharded: {local} of {whole}\n")  # one write: two processes share the pipe

    begin = transformers.Trainer.__init__

    def watched(self: Any, *words: Any, **options: Any) -> None:
        begin(self, *words, **options)
        self.add_callback(Look())

    transformers.Trainer.__init__ = watched
    run()


if __name__ == "__main__":
    main()
