"""Interim: names that `compeer.conversation.guard` used before `conversation_guard`. Delete with its last importer."""

from __future__ import annotations

from compeer.safety.context import Reading
from compeer.safety.crisis_path import next_reply, rows
from compeer.safety.helplines import help_for
from compeer.safety.levels import Finding, Risk
from compeer.safety.messages import Banner, banner, guidance, instead

__all__ = ["Banner", "about", "banner", "check_in", "guidance", "instead", "written"]


def about(risk: Risk) -> str:
    """The key of the banner's words."""
    return "other" if risk.about_other and risk.danger == "suicide" else risk.danger


def written(risk: Risk, language: str, time: int = 0) -> str:
    """A reply of ours; `time` counts how often one was needed in this conversation."""
    help = help_for(None, language)
    ours = [row.text for row in rows() if row.language == ("zh" if language == "zh" else "en")]
    first = next_reply([], Reading(Finding(risk.level, risk.kinds)), risk, help, language).text
    same = [text.replace("{emergency}", help.emergency).replace("{line}", help.directory) for text in ours]
    return same[(same.index(first) + time) % len(same)]


def check_in(language: str) -> str:
    """The direct question."""
    return written(Risk("watch", ("hint",)), language)
