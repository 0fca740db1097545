"""A conversation in memory, and the terminal around it.

session     the conversation: turns, pins, asking again, editing a step, saving
view        how a turn looks: the reply first, the reasoning folded to one line
terminal    the commands a person types
once        one answer, for scripts
demo        a first look
"""

from __future__ import annotations

from compeer.conversation.session import Conversation, Settings, Turn
from compeer.conversation.terminal import answer_once, talk

__all__ = ["Conversation", "Settings", "Turn", "answer_once", "talk"]
