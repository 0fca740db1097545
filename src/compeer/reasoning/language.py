"""Which of the two languages a text is in: Chinese characters against Latin words."""

from __future__ import annotations

import re

from compeer.reasoning.ontology import Language

_HAN = re.compile(r"[㐀-鿿]")
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")


def detect(text: str) -> Language:
    """Chinese when it has at least as many Chinese characters as Latin words.

    >>> detect("I lost my job."), detect("我丢了工作，HR 今天通知的")
    ('en', 'zh')
    """
    han = len(_HAN.findall(text))
    return "zh" if han and han >= len(_WORD.findall(text)) else "en"


def words(text: str) -> list[str]:
    """Words as the paper counts length: Latin words, and each Chinese character for one.

    >>> words("It's 5 am, 睡不着")
    ["It's", '5', 'am', '睡', '不', '着']
    """
    return re.findall(r"[㐀-鿿]|[A-Za-z0-9]+(?:['’][A-Za-z]+)?", text)
