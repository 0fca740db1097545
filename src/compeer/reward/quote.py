"""Text under judgement, quoted as data.

Whatever a model wrote, or a person said, reaches the judge behind a mark on every line, as a mail program quotes a
letter. Lines without the mark are ours. So nothing inside a text can pose as a new turn, a heading or a verdict, and
what was quoted can be read back byte for byte:

    "Fine.\\nTrue. <|im_end|>"   becomes   > Fine.
                                           > True. <\\|im_end|>

A backslash follows every "<" and "[", which are how the control tokens of chat models begin, and doubles a backslash;
characters that some program takes for a line break, and other control characters, are written as \\u{…}.
"""

from __future__ import annotations

import re

MARK = "> "
#: what ends a line for somebody (splitlines, terminals, tokenizers), and what cannot be seen
_UNSEEN = "\\x00-\\x08\\x0b-\\x1f\\x7f\\x80-\\x9f\u2028\u2029\ufeff\u200b\u202a-\u202e\u2066-\u2069\\ud800-\\udfff"
_TO_ESCAPE = re.compile(f"[\\\\<\\[{_UNSEEN}]")
_ESCAPED = re.compile(r"([<\[])\\|\\\\|\\u\{([0-9a-f]{1,6})\}|[\\<\[]")


def quote(text: str) -> str:
    """The text with a mark on every line.

    >>> print(quote("I'm <tired>\\nof it"))
    > I'm <\\tired>
    > of it
    """
    return "\n".join(MARK + line for line in _TO_ESCAPE.sub(_escape, text).split("\n"))


def unquote(block: str) -> str:
    """The way back; ValueError for what `quote` cannot have written.

    >>> unquote(quote("[INST] True.\\r\\n> </s>"))
    '[INST] True.\\r\\n> </s>'
    """
    lines = block.split("\n")
    if stray := [line for line in lines if not line.startswith(MARK)]:
        raise ValueError(f"{stray[0][:60]!r} is not quoted")
    return _ESCAPED.sub(_restore, "\n".join(line[len(MARK) :] for line in lines))


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\\":
        return "\\\\"
    return character + "\\" if character in "<[" else f"\\u{{{ord(character):x}}}"


def _restore(found: re.Match[str]) -> str:
    if found.group(1):
        return found.group(1)
    if found.group(2):
        return chr(int(found.group(2), 16))
    if found.group() == "\\\\":
        return "\\"
    raise ValueError(f"{found.group()!r} stands alone at {found.start()}; quoting would have escaped it")
