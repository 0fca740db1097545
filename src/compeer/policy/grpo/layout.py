"""How the outputs of a step lie on processes and micro batches.

A step takes `batch` prompts with `group` outputs each. Every process writes and scores its share of them in one go
(TRL: micro batch x steps per generation), and learns from it in micro batches, whose gradients add up:

    outputs of a step  =  batch x group  =  processes x micro batch x accumulation

Equations 3, 5 and 6 look at whole groups, so the share of a process must hold whole groups; TRL splits them without a
word otherwise. A layout that would is refused here, before any model is loaded, with the arithmetic.
"""

from __future__ import annotations

import msgspec

from compeer.errors import UserError

AT_ONCE = 8  # outputs a micro batch, where nobody says otherwise: fits 7B with LoRA on one large GPU


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a step. `micro_batch` outputs at once in each process, `accumulation` times."""

    batch: int
    group: int
    processes: int
    micro_batch: int
    accumulation: int

    @property
    def outputs(self) -> int:
        """Of all processes together."""
        return self.batch * self.group

    @property
    def share(self) -> int:
        """Outputs of one process."""
        return self.micro_batch * self.accumulation

    def __str__(self) -> str:
        return (
            f"{self.batch} prompts x {self.group} outputs = {self.outputs} = {self.processes} processes "
            f"x {self.micro_batch} at once x {self.accumulation} times"
        )


def plan(
    batch: int, group: int, processes: int = 1, micro_batch: int | None = None, accumulation: int | None = None
) -> Layout:
    """The layout of a step, or a UserError with the arithmetic that does not work out.

    >>> str(plan(batch=32, group=4, processes=2))
    '32 prompts x 4 outputs = 128 = 2 processes x 8 at once x 8 times'
    """
    for name, value in (("batch", batch), ("micro_batch", micro_batch), ("accumulation", accumulation)):
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1.")
    if group < 2:
        raise UserError(f"group is {group}; an advantage compares outputs, so a group has at least 2.")
    outputs = batch * group
    if batch % processes:
        raise UserError(
            f"{batch} prompts x {group} outputs = {outputs} outputs over {processes} processes are "
            f"{outputs / processes:g} each, which is {batch / processes:g} groups of {group}: a group would be split. "
            f"Choose a batch that {processes} divides ({_nearest(batch, processes)}), or {_counts(batch)} processes."
        )
    share = outputs // processes
    if micro_batch is None and accumulation is None:
        micro_batch = _largest(share, AT_ONCE)
    if micro_batch is None:
        assert accumulation is not None
        micro_batch = _divided(share, accumulation, "accumulation", batch, group, processes)
    times = _divided(share, micro_batch, "micro_batch", batch, group, processes)
    if accumulation not in (None, times):
        assert accumulation is not None
        made = micro_batch * accumulation
        split = f", and {made} is no multiple of {group}, so a group would be split" if made % group else ""
        raise UserError(
            f"micro_batch {micro_batch} x accumulation {accumulation} = {made} outputs a process, but {batch} prompts "
            f"x {group} outputs / {processes} processes = {share}{split}. Leave one of them out, or set "
            f"accumulation to {times}."
        )
    return Layout(batch=batch, group=group, processes=processes, micro_batch=micro_batch, accumulation=times)


def _divided(share: int, by: int, name: str, batch: int, group: int, processes: int) -> int:
    if share % by:
        raise UserError(
            f"{batch} prompts x {group} outputs / {processes} processes = {share} outputs a process, which {name} {by} "
            f"does not divide ({share / by:.3g}): a group would be split. Choose one of {_divisors(share)}."
        )
    return share // by


def _largest(share: int, most: int) -> int:
    return max(size for size in range(1, min(share, most) + 1) if share % size == 0)


def _divisors(number: int) -> str:
    return ", ".join(str(size) for size in range(1, number + 1) if number % size == 0)


def _nearest(batch: int, processes: int) -> str:
    below = batch - batch % processes
    return " or ".join(str(size) for size in (below, below + processes) if size)


def _counts(batch: int) -> str:
    found = [size for size in range(1, min(batch, 64) + 1) if batch % size == 0]
    return ", ".join(map(str, found[:-1])) + f" or {found[-1]}" if len(found) > 1 else "1"
