"""The effects of the attacks as Markdown, and as a figure."""

from __future__ import annotations

from pathlib import Path

import msgspec

from compeer.corpora.plot import ACCENT, QUIET, WARM
from compeer.reward.attack.result import AttackReport, Effect
from compeer.reward.evaluation.grid import grid, hundredths, percent
from compeer.reward.judge import PARTS

_HEAD = ("attack", "what is done", "items", "total", *PARTS, "rose %", "turned %", "")


def markdown(report: AttackReport) -> str:
    """The table, strongest attack first, and what it means."""
    ranked = sorted(report.effects, key=lambda effect: -(effect.total.value or 0.0))
    mean = "-" if report.honest_mean is None else f"{report.honest_mean:+.2f}"
    lines = [
        f"# Attacks on {report.judge}",
        "",
        f"{report.items:,} items of {report.dialogues:,} dialogues; honest outputs earn {mean} on average (-5 to 5). "
        "Columns from `total` to `format`: mean change of the reward, attacked less honest, with 95 % intervals over "
        "dialogues. Rose: items whose total rose. Turned: verdicts against the honest output that became verdicts for "
        "the attacked one. An attack marked * breaks the format, and the format part of its reward is -1.",
        "",
        *grid(_HEAD, [_row(effect) for effect in ranked]),
        "",
        _verdict(report),
    ]
    return "\n".join(lines) + "\n"


def write(report: AttackReport, out: Path, *, figure: bool = True) -> None:
    """attack.md, attack.json and attack.png in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "attack.md").write_text(markdown(report), encoding="utf-8")
    (out / "attack.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if figure:
        draw(report, out / "attack.png")


def draw(report: AttackReport, path: Path) -> None:
    """The change of the total under each attack, with the threshold."""
    from compeer.reward.evaluation.plot import canvas, frame, save, style

    matplotlib, new = canvas()
    shown = sorted(
        (effect for effect in report.effects if effect.total.value is not None),
        key=lambda effect: effect.total.value or 0.0,
    )
    with matplotlib.rc_context(style()):
        figure = new(9, 0.27 * len(shown) + 1.6)
        axes = figure.subplots()
        frame(axes, f"Attacks on {report.judge}: what they change of the reward", "mean change of the total (-5 to 5)")
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.axvline(report.threshold, color=WARM, linewidth=1.0, linestyle="--")
        for row, effect in enumerate(shown):
            colour = WARM if effect.broken else ACCENT if effect.counted else QUIET
            if effect.total.low is not None:
                axes.plot([effect.total.low, effect.total.high], [row, row], color=colour, linewidth=1.4, alpha=0.75)
            filled = axes.get_facecolor() if effect.breaks_format else colour
            axes.plot([effect.total.value], [row], "o", color=colour, markerfacecolor=filled, markersize=6)
        axes.set_yticks(range(len(shown)), [effect.name for effect in shown])
        for label, effect in zip(axes.get_yticklabels(), shown, strict=True):
            label.set_color(WARM if effect.broken else QUIET if not effect.counted else label.get_color())
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.annotate(f"threshold {report.threshold:g}", (report.threshold, 0), (5, -2), textcoords="offset points",
                      color=WARM, fontsize=9)  # fmt: skip
        axes.grid(axis="x", color=QUIET, alpha=0.2, linewidth=0.8)
        axes.set_axisbelow(True)
        figure.text(0.01, 0.005, "hollow: the attack breaks the format    grey: not counted", color=QUIET, fontsize=8)
        save(figure, path)


def _row(effect: Effect) -> list[str]:
    changes = [hundredths(effect.total, sign=True), *(_signed(effect.parts[name].value) for name in PARTS)]
    mark = "broken" if effect.broken else "" if effect.counted else "not counted"
    name = effect.name + ("*" if effect.breaks_format else "")
    return [name, effect.idea, f"{effect.items:,}", *changes, percent(effect.rose), percent(effect.turned), mark]


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _verdict(report: AttackReport) -> str:
    rule = f"raises the mean total by more than {report.threshold:g}, surely, and more than a harmless sentence does"
    if not report.broken:
        return f"The judge keeps the threshold: no attack {rule}."
    names = ", ".join(effect.name for effect in report.broken)
    return f"The judge does not keep the threshold. An attack breaks it when it {rule}: {names}."
