"""One plain form of what people write, so that the lexicon meets the words and not their disguises.

Upper case, accents, full-width and traditional characters, apostrophes, invisible characters, letters of other
scripts that look Latin, d.o.t.s and s p a c e s between letters, l33t digits, 自 杀 and 自*杀, repeated letters: all
become the same few characters. Whatever is done, each character of the result knows its place in the original, so
that a finding can point at what was written.

The list of traditional characters holds those that the lexicon can meet, not the whole language.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_TRADITIONAL = dict(
    zip(
        "殺輕結斷絕遺書藥樓橋體傷殘話對誰沒無義還過這個來後會說時現實話處離開覺難麼為愛媽爺親獨應該讓飯錢歡樂當頭發點動"
        "們歲壓雜貓內兩單變議讀認識語請謝講許論設訴證詞諮車軌電視機關係總線紙終經給續緣繩繼罵聽聲號買賣賬費賠贖趕跡轉輩"
        "辦邊遠運達選醫釋鐘錯長門問間陽陰階隨險雙雲靈願顧風飛馬驚鬥鬱麻黃齊歸盡眾燒爛爸熱煩獄狀環瑣瘋療癒盤眼禮禱種窩"
        "競筆節約級組練織罷腦臉興舉舊節莊葉蘇虛蟲補製複規觀計記訊試誤誇調貝負責資質跳蹟軟辭農連進遊邁適遲鄉鎮閉鬧響項順須預領"
        "題額顏類養餓館鬆魚鳥鹹師幫從復徹憂懷戀戰戲擁擇擊據擺擔攢敗數敵曆條極構標樣檢歐氣漢滅滿潛澤濟濃灣災爭牆癌盜碼確禍積穩"
        "窮竊約納紅紋純紗細紹網綁維緊縮縱繫纏罰職聯肅脫腳臟臨艱菸藝虧蠢衝裝見診評誠誡諒豐貧貴賊賤贏軍輸較輪轟遭郵釘銀鋼鍵鎖"
        "閒闊雖雞霧靜頂頓頸顛飲餘騙髒鮮鹽齡刪剛創勁勝勞勢勵區協厲參叢嗎嗚嘆嘗噴嚇嚴囉囑囚圍園圓圖團執報場塊塵墊墮墳夠夢夥奪奮婦孫學寧寫寬審寵將尋導屬島崗崩幹幾庫廁廠廣廢彈強彎擾懶懸懼態慘慚慣慮慶憐憑憶憤懇懲",
        "杀轻结断绝遗书药楼桥体伤残话对谁没无义还过这个来后会说时现实话处离开觉难么为爱妈爷亲独应该让饭钱欢乐当头发点动"
        "们岁压杂猫内两单变议读认识语请谢讲许论设诉证词咨车轨电视机关系总线纸终经给续缘绳继骂听声号买卖账费赔赎赶迹转辈"
        "办边远运达选医释钟错长门问间阳阴阶随险双云灵愿顾风飞马惊斗郁麻黄齐归尽众烧烂爸热烦狱状环琐疯疗愈盘眼礼祷种窝"
        "竞笔节约级组练织罢脑脸兴举旧节庄叶苏虚虫补制复规观计记讯试误夸调贝负责资质跳迹软辞农连进游迈适迟乡镇闭闹响项顺须预领"
        "题额颜类养饿馆松鱼鸟咸师帮从复彻忧怀恋战戏拥择击据摆担攒败数敌历条极构标样检欧气汉灭满潜泽济浓湾灾争墙癌盗码确祸积稳"
        "穷窃约纳红纹纯纱细绍网绑维紧缩纵系缠罚职联肃脱脚脏临艰烟艺亏蠢冲装见诊评诚诫谅丰贫贵贼贱赢军输较轮轰遭邮钉银钢键锁"
        "闲阔虽鸡雾静顶顿颈颠饮余骗脏鲜盐龄删刚创劲胜劳势励区协厉参丛吗呜叹尝喷吓严啰嘱囚围园圆图团执报场块尘垫堕坟够梦伙夺奋妇孙学宁写宽审宠将寻导属岛岗崩干几库厕厂广废弹强弯扰懒悬惧态惨惭惯虑庆怜凭忆愤恳惩",
        strict=True,
    )
)
_LOOKALIKES = str.maketrans("аеіорсухѕԁӏαοικ", "aeiopcyxsdlaoik")
_DROPPED = frozenset("'’‘`´＇\u00ad\u034f\u2060\ufeff")
_LEET = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", "|": "l"}
_HAN = "\u3400-\u9fff"

_BETWEEN_HAN = re.compile(rf"(?<=[{_HAN}])[ \t*_/\\|~^+=#@&·.\-]{{1,3}}(?=[{_HAN}])")
_SPELLED = re.compile(r"(?<![a-z0-9])[a-z](?:([ ._*-]{1,3})[a-z])(?:[ ._*-]{1,3}[a-z]){1,}(?![a-z0-9])")
_INNER_MARK = re.compile(r"(?<=[a-z])[*_.\-](?=[a-z][*_.\-][a-z])|(?<=[a-z][*_.\-][a-z])[*_.\-](?=[a-z])")
_REPEATED = re.compile(r"([a-z])\1{2,}")
_REPEATED_HAN = re.compile(rf"([{_HAN}])\1{{2,}}")
_VOWELS = frozenset("aeiou")


class Folded(NamedTuple):
    """The plain form, and where each of its characters stood."""

    text: str
    places: list[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original that a part of the plain form came from."""
        if start >= end:
            return (self.places[start], self.places[start]) if start < len(self.places) else (0, 0)
        return self.places[start], self.places[end - 1] + 1


def fold(text: str) -> Folded:
    r"""The plain form of a text.

    >>> fold("I CAN’T… k i l l myself").text
    'i cant... kill myself'
    >>> fold("我想　自 殺").text, fold("su1cide").text, fold("I wanna dieeee").text
    ('我想自杀', 'suicide', 'i wanna die')
    """
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for piece in _plain(character):
            if piece in " \n" and characters and characters[-1] in " \n":
                continue
            characters.append(piece)
            places.append(place)
    folded = _leet(characters, places)
    folded = _cut(folded, _BETWEEN_HAN, lambda match: range(match.start(), match.end()))
    folded = _cut(folded, _SPELLED, _separators)
    folded = _cut(folded, _INNER_MARK, lambda match: range(match.start(), match.end()))
    folded = _cut(folded, _REPEATED, _surplus)
    return _cut(folded, _REPEATED_HAN, lambda match: range(match.start() + 1, match.end()))


@lru_cache(maxsize=1 << 13)
def _plain(character: str) -> str:
    """What becomes of one character wherever it stands: nothing, itself, others, a blank or a newline."""
    if character in _DROPPED:
        return ""
    pieces: list[str] = []
    for piece in unicodedata.normalize("NFKD", character).lower().translate(_LOOKALIKES):
        category = unicodedata.category(piece)
        if category in ("Mn", "Cf", "Cs") or piece in _DROPPED:
            continue
        if piece.isspace() or category == "Cc":
            piece = "\n" if piece == "\n" else " "
        pieces.append(_TRADITIONAL.get(piece, piece))
    return "".join(pieces)


def _leet(characters: list[str], places: list[int]) -> Folded:
    """Digits and signs between two letters of a word are letters."""
    for place in range(1, len(characters) - 1):
        before, after = characters[place - 1], characters[place + 1]
        if characters[place] in _LEET and _latin(before) and _latin(after):
            characters[place] = _LEET[characters[place]]
    return Folded("".join(characters), places)


def _latin(character: str) -> bool:
    return "a" <= character <= "z"


def _separators(match: re.Match[str]) -> range | list[int]:
    return [place for place in range(match.start(), match.end()) if not _latin(match.string[place])]


def _surplus(match: re.Match[str]) -> range:
    kept = 1 if match.group(1) in _VOWELS else 2
    return range(match.start() + kept, match.end())


def _cut(folded: Folded, pattern: re.Pattern[str], surplus: object) -> Folded:
    """Without the characters that `surplus` names in each match."""
    gone: set[int] = set()
    for match in pattern.finditer(folded.text):
        gone.update(surplus(match))  # type: ignore[operator]
    if not gone:
        return folded
    kept = [place for place in range(len(folded.text)) if place not in gone]
    return Folded("".join(folded.text[place] for place in kept), [folded.places[place] for place in kept])


def question_sentences(text: str) -> list[str]:
    """The sentences that end in a question mark.

    >>> question_sentences("I see. Since when? And why?"), question_sentences("嗯。你想过死吗？")
    (['Since when?', 'And why?'], ['你想过死吗？'])
    """
    return [one.strip() for one in re.findall(r"[^.!。！\n?？]*[?？]", text)]
