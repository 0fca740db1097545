"""What a service in front of a model counts, in the text form that Prometheus reads.

Counters only grow; a histogram counts how many values lay at or below each bound. The page is small, so it is
written here instead of bringing in a client library.
"""

from __future__ import annotations

from collections.abc import Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Counter:
    """A sum, for each set of labels or for none."""

    kind = "counter"

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self.values: dict[tuple[tuple[str, str], ...], float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self.values[key] = self.values.get(key, 0) + amount

    @property
    def total(self) -> float:
        return sum(self.values.values())

    def lines(self) -> list[str]:
        values = self.values or {(): 0.0}
        return [f"{self.name}{_labels(key)} {_number(value)}" for key, value in sorted(values.items())]


class Gauge(Counter):
    """A value that goes up and down."""

    kind = "gauge"

    def set(self, value: float) -> None:
        self.values[()] = value


class Histogram:
    """How often a value lay below which bound."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self.bounds = name, about, tuple(bounds)
        self.buckets = [0] * len(self.bounds)
        self.count, self.sum = 0, 0.0

    def see(self, value: float) -> None:
        self.count += 1
        self.sum += value
        for place, bound in enumerate(self.bounds):
            self.buckets[place] += value <= bound

    def lines(self) -> list[str]:
        pairs = [*((_number(bound), count) for bound, count in zip(self.bounds, self.buckets, strict=True))]
        told = [f'{self.name}_bucket{{le="{bound}"}} {count}' for bound, count in [*pairs, ("+Inf", self.count)]]
        return [*told, f"{self.name}_sum {_number(self.sum)}", f"{self.name}_count {self.count}"]


class Metrics:
    """Everything that one service counts: whatever of the above is an attribute, in the order in which it was set."""

    def page(self) -> str:
        """What /metrics answers with."""
        lines: list[str] = []
        for one in vars(self).values():
            lines += [f"# HELP {one.name} {one.about}", f"# TYPE {one.name} {one.kind}", *one.lines()]
        return "\n".join(lines) + "\n"


def _labels(key: tuple[tuple[str, str], ...]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in key) + "}" if key else ""


def _number(value: float) -> str:
    """
    >>> _number(3.0), _number(0.25)
    ('3', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(round(value, 6))
