"""A score from 0 to 4 out of a judge's reply.

The official rule takes the first of "0", "1", "2", "3", "4", in that order, that occurs anywhere: "4 out of 10" is 0,
"10" is 0, and a reply without any of them is -1, which goes into the mean. `official` does just that. `proper` reads
the number as a person would, and says None where there is none; such replies are counted and left out.
"""

from __future__ import annotations

import re

_HAN = {
    "零": 0,
    "〇": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
    "十": 10,
}
_WORDS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4}
_LABEL = re.compile(r"(?:score|rating|评分|得分|分数|打分)\s*(?:is|of|为|是)?\s*[:：=]?\s*", re.IGNORECASE)
#: a number alone: not half of a decimal, a range, a larger number or a negative one
_NUMBER = re.compile(r"(?<![\d.\-–~])(\d+(?:\.\d+)?)(?!\d)")
_RANGE = re.compile(r"\d\s*(?:-|–|~|to|到|至)\s*\d")
_OUT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/|out of|of)\s*(\d+)", re.IGNORECASE)
_HAN_SCORE = re.compile(r"(?<![第十])([零〇一二两三四])\s*分(?!之)")
_WIDE = str.maketrans("０１２３４５６７８９", "0123456789")


def proper(reply: str) -> int | None:
    """The score a reply states: a whole number from 0 to 4, or None.

    >>> [proper(text) for text in ("3", "Score: 3", "三分", "4 out of 4", "4 out of 10", "I would say two.", "")]
    [3, 3, 3, 4, None, 2, None]
    """
    text = reply.translate(_WIDE).strip()
    if share := _OUT_OF.search(text):
        return _whole(share.group(1)) if share.group(2) == "4" else None  # on another scale it is no answer
    if label := _LABEL.search(text):
        stated = _first(text[label.end() :])
        if stated is not None:
            return stated
    return _only(text)


def official(reply: str) -> int:
    """ESC-Eval's rule.

    >>> [official(text) for text in ("3", "4 out of 10", "三分", "")]
    [3, 0, -1, -1]
    """
    return next((int(digit) for digit in "01234" if digit in reply), -1)


def _first(text: str) -> int | None:
    """The number a text begins with."""
    if number := re.match(r"\W{0,3}(\d+(?:\.\d+)?)", text):
        return _whole(number.group(1))
    if text[:1] in _HAN:
        return _whole(str(_HAN[text[0]]))
    word = re.match(r"\W{0,3}([a-z]+)", text, re.IGNORECASE)
    return _WORDS.get(word.group(1).casefold()) if word else None


def _only(text: str) -> int | None:
    """The one number of a text; two different ones are no answer, and neither is a range."""
    text = _RANGE.sub(" ", text)
    numbers = {_whole(found) for found in _NUMBER.findall(text)}
    numbers |= {_HAN[found] for found in _HAN_SCORE.findall(text)}
    if not numbers:
        if text.strip("。.!！ \n") in _HAN:
            numbers = {_whole(str(_HAN[text.strip("。.!！ \n")]))}
        else:
            numbers = {_WORDS[word] for word in re.findall(r"[a-z]+", text.casefold()) if word in _WORDS}
    return numbers.pop() if len(numbers) == 1 else None


def _whole(number: str) -> int | None:
    value = float(number)
    return int(value) if value.is_integer() and 0 <= value <= 4 else None
