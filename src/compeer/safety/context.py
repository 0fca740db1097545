"""Reading a message where it stands: as an answer to a question about safety, and after what was said before.

`read(message, last_reply, risk)` gives a `Reading`: what the message tells (`Finding`), which question of the supporter
it answers and how, and what the person is doing (`acts`: joking after a disclosure, refusing to call, asking for
secrecy, thanking, leaving...), by which the crisis path picks its next words.

Questions, after the steps that crisis lines teach:

    taken        have you taken something, or hurt yourself?
    desire       are you thinking about killing yourself?
    plan         have you thought about how or when?
    means        do you have it with you?
    in_danger    is there danger at this moment?
    safe_now     are you safe right now?                    here "no" is the alarming answer
    who_is_near  is anyone with you?                        no answer to it changes the level

An answer is yes, no or unsure, and of a kind (`answers`, a table). Yes and unsure to desire are high, yes to means or to
having taken something is an emergency, and so is "I already did". Whatever is not plainly a no keeps the level at watch
at least, and the question comes again in other words. A no with a harmless reason ("it's a song", 是搬家) takes back
what was only suspected. A "no" never lowers the level by itself: it is remembered as having been asked (`levels`).
"""

# patterns are kept on the line of what they stand for
# ruff: noqa: E501
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from compeer.safety.answers import WORDS, Answer, Kind, Question, kind_of
from compeer.safety.levels import DANGER_OF, SUSPECTED, Finding, Level, Risk, at_least, worst
from compeer.safety.network import TOGETHER_HIGH, hear_together, question_odds
from compeer.safety.normalise import fold, question_sentences
from compeer.safety.screen import OWN, names_danger, screen

Act = Literal[
    "joking",
    "refuses_to_call",
    "refuses_to_say_where",
    "wants_secrecy",
    "angry",
    "thanks",
    "leaving",
    "calmer",
    "wants_to_be_stopped",
    "few_words",
    "teenager",
]
#: from which probability on a question in unknown words is one about safety: where risk is high, and where it is not.
#: Calmly, one question in a thousand of ESConv's supporters is taken for one (at 0.8: one in fifty)
HEARD, HEARD_CALMLY = 0.6, 0.95
#: from the most serious on
_SERIOUS: tuple[Question, ...] = ("taken", "means", "plan", "desire", "in_danger", "safe_now", "who_is_near")

_ASKS: dict[Question, re.Pattern[str]] = {
    "taken": re.compile(
        r"have you (?:already )?(?:taken (?:something|anything|them|it\b|any (?:pills|medication|tablets)|an overdose|pills)|swallowed|drunk (?:something|anything)|(?:hurt|harmed|cut) yourself"
        r"|done (?:something|anything) to)|did you (?:take (?:something|anything|them|any|the|all)|swallow|hurt yourself|cut yourself|do something to)"
        r"|are you (?:hurt|bleeding|injured)\b|(?:吃|喝|吞)了?(?:什么|药|多少)|(?:是不是|有没有)(?:吃|喝|吞|伤|割|做)|受伤了?[吗嘛]|伤(?:到|了)自己"
    ),
    "means": re.compile(
        r"do you (?:still )?have (?:them|it|those|the pills)|(?:do you have|have you got|is there|are there|with you|near you|around you|in reach|to hand|have access|got)"
        r"[^?]{0,60}(?:pills|means|weapon|gun|knife|blade|rope|medication|something to|anything|what you would|it with)"
        r"|(?:have|get|got) (?:away|distance|space)[^?]{0,30}from (?:it|them)|put it (?:away|out of reach)"
        r"|(?:手边|身边|旁边|手里|家里)[^？?]{0,12}(?:药|刀|绳|东西|工具|能伤|危险)"
        r"|(?:准备|买|拿)(?:了|好)[^？?]{0,6}(?:药|刀|绳|工具|东西)|离它远|拿远|放远|离你(?:远|近)|(?:刀|药|绳子?|瓶)[^？?]{0,8}在哪"
    ),
    "plan": re.compile(
        r"\bplans?\b|time in mind|when (?:would|will) you|(?:thought|think|know|decided|worked out)[^?]{0,20}(?:how|when|where)\b|how or when|what you would do"
        r"|(?:going to|intend to|ready to|about to) (?:do it|act|kill|end)|act on (?:it|them|these|those)|do today"
        r"|计划|打算(?:怎么|什么时候|好)|(?:怎么做|什么时候|用什么(?:方式|方法|办法)|具体)|想好(?:了)?(?:怎么|什么时候)|付诸|会去做"
    ),
    "desire": re.compile(
        r"suicid|kill(?:ing)? yourself|\bend(?:ing)? (?:things|it(?: all)?\b(?! with)|(?:their|your) (?:own )?li(?:fe|ves))|do you mean (?:to |you want to )?(?:die|dying|your life)|(?:mean|about|of) (?:dying|death)\b|about to do (?:something )?to yourself|(?:end|tak)(?:e|ing) your (?:own )?life|want(?:ing)? to die|wish you were dead"
        r"|not want(?:ing)? to (?:live|be alive|be here)|not being (?:alive|here)\b|hurt(?:ing)? yourself"
        r"|harm(?:ing)? yourself|thoughts of (?:dying|death|not being)|wanting to be dead|wishing you were dead"
        r"|唔想做人|谂过死|走(?:上)?那条路|和自杀有关|想到死|想过(?:去)?死|会想死|遗书|想不开|随[他她]去|一走了之|放弃生命|不在这个世界|想过不回来|去死|不活了|活不下去|离开人世|跳下去|自杀|轻生|结束(?:自己的?)?生命|想死|想过死|不想活|伤害自己|自残|死的念头|了结(?:自己|生命)|结束自己|寻短见"
    ),
    "in_danger": re.compile(r"\bdanger\b(?![^?]*\bsafe\b)|(?<!没)有(?:没有)?危险|危险吗"),
    "safe_now": re.compile(
        r"(?:are|do|feel\w*)\b[^?]{0,20}\bsafer?\b|keep yourself safe|(?:promise|tell) me (?:that )?you(?:'ll| will)|still be here (?:tomorrow|tonight)|did you (?:flush|throw|hand|give|lock|get rid)"
        r"|你[^？?]{0,10}安全|安全吗|答应我|能(?:不能)?(?:答应|保证)|(?:交|扔|锁|处理)(?:了|掉|好)(?:吗|没)"
    ),
    "who_is_near": re.compile(
        r"(?:is|are) (?:there )?(?:any|some)(?:one|body)|are you alone|who (?:is|could|can|else|would)|with you (?:now|right)"
        r"|someone (?:near|close|with|who)|by yourself|身边(?:有没有|有)?(?:人|谁)|一个人吗|谁(?:能|可以|在)|有人(?:陪|在)|陪着?你"
    ),
}
#: questions about a plan that are about nothing else
_PLAINLY_HOW = re.compile(
    r"plan (?:for how|to (?:end|kill|do it|die))|how (?:you would|you'd|would you) do it|how or when|(?:plan|day|time) (?:and|or) (?:a )?(?:time|plan|day)|still have (?:them|the pills)"
    r"|打算什么时候(?:做|走)|具体怎么做|怎么做吗|(?:想走|不想活)[^？?]{0,8}计划"
)
#: answers to whether somebody is safe, and could promise to be: plainly not, plainly yes, and a bare no
_NOT_SAFE = re.compile(
    r"\b(?:roof|ledge|bridge|tracks|edge|rail|railing)\b|(?:not|dont feel|isnt|im not|no longer|am not|not really|not that|never) (?:very |really |so |too )?safe|unsafe|in danger|dont think so|i didnt\W*$"
    r"|^.{0,6}(?:(?:不|不太|不怎么|没有|不是很)安全|有危险|不太好|不好)|顶楼|楼顶|天台|骗(?:她|他)说|(?:没|不)(?:交|扔)"
)
_SAFE = re.compile(
    r"(?:im|i am|yes im|yeah im|yes i am|feel|feeling)\W+(?:ok|okay|fine|safe|good|alright|all right|home)\b|\bsafe\b(?! no)|^\W*(?:yes|yeah|yep|yup|yes)\b(?!.{0,20}\bbut\b)"
    r"|\bdoors? (?:are |is )?locked\b|\bat (?:home|my (?:mums|moms|nans|sisters|friends|brothers|parents))\b|no im (?:fine|ok|okay|safe|good)"
    r"|^.{0,6}(?:(?:我)?(?:很|挺|现在|目前|暂时|还|蛮|算)*安全|没(?:有)?危险|我没事|我还好)|^\W*(?:我|现在|这里|这边|都|还)*(?:还好|挺好)|我很好|到家了|反锁了|^\W*(?:嗯|是的?|对)"
)
_BARE_NO = re.compile(
    r"(?:^|\W)no\W*$|^\W*(?:no|nope|nah|not|havent)\b|^\W*(?:没有|没|还没|不(?=[，。,. ]|$|是|太|能|行|算))"
)
_ACTS: dict[Act, re.Pattern[str]] = {
    "joking": re.compile(
        r"just (?:kidding|joking)|\bjk\b|it was a joke|(?:was|am|im) (?:just |only )?(?:joking|kidding)|lol (?:no|jk|chill)|calm down"
        r"|relax\b|dont (?:take it|be so) serious|messing with you|开玩笑|逗你|骗你的|闹着玩|说着玩|别当真|别紧张|哈哈(?:哈)*(?:没|别|不)"
    ),
    "refuses_to_call": re.compile(
        r"(?:wont|dont want to|not going to|cant|never|hate|refuse to|not) (?:\w+ ){0,2}?(?:call\w*|phone|ring|text (?:them|a)|talk to "
        r"(?:a |some)?(?:stranger|anyone|hotline|them))|(?:hotlines?|helplines?|they|988) (?:\w+ )?(?:dont help|are useless|never help|"
        r"is useless|put me on hold|will lock|wont help)|no (?:hotlines?|helplines?|police|ambulance)|dont (?:call|send) (?:the )?(?:police|"
        r"cops|911|anyone)|(?:不想|不要|不敢|不会|没用|懒得|别让我|不愿意?)(?:去)?(?:打(?:电话|热线)?|报警|求助|叫救护车|打120)|热线(?:都|也)?"
        r"(?:没用|打不通|占线|不管用|骗人)|打(?:了|过)(?:也)?没用|打不通|别报警"
    ),
    "refuses_to_say_where": re.compile(
        r"(?:wont|not going to|dont want to|not) (?:tell|telling|say|saying) (?:you )?where|none of your business where|why do you want to"
        r" know where|doesnt matter where|(?:不(?:想|会|要|能)?(?:告诉|说)(?:你)?)(?:我)?(?:在哪|在哪里|地址|位置)|别问我在哪|你(?:别)?管我在哪"
    ),
    "wants_secrecy": re.compile(
        r"(?:dont|do not|please dont|cant|wont|promise (?:me )?(?:not|you wont)|you cant) (?:\w+ ){0,2}?tell (?:any|my|them|him|her)"
        r"|(?:keep|stays?) (?:this|it) (?:\w+ )?(?:secret|between us|private)|between (?:you and me|us)|nobody (?:can|must|should) know"
        r"|(?:不要|别|不能|不许|千万别|求你别)(?:跟|和|对)?(?:任何人|别人|我?爸妈|我?妈|我?爸|老师|他们|家里)?(?:说出去|告诉|说)"
        r"|保密|替我瞒|不想让(?:人|别人|他们|爸妈|家里)知道|只告诉你"
    ),
    "angry": re.compile(
        r"stop asking|why do(?:es)? (?:you|everyone) (?:keep )?ask|leave me alone|(?:fuck|screw) (?:you|off)|shut up|you sound like a (?:robot|"
        r"script|bot)|dont (?:lecture|patroni[sz]e)|(?:thats|what) a stupid question|youre (?:just )?a (?:bot|machine|program)|mind your own"
        r"|别(?:再)?问(?:了|我)|烦不烦|少管|关你(?:什么|屁)事|滚|闭嘴|你(?:只)?(?:是|就是)(?:个)?(?:机器|程序|ai)|别来这套|又是这(?:一)?套|审问"
    ),
    "wants_to_be_stopped": re.compile(
        r"(?:talk me out|give me (?:a|one) reason|stop me|tell me (?:not to|why i should)|why should(?:nt)? i(?: (?:live|stay|not|die|keep))?"
        r"|convince me|save me|dont let me|help me(?: please)? (?:not|stop)|what(?:s| is) the point of staying)"
        r"|(?:劝劝我|拦住我|给我一个(?:活|理由)|救救我|别让我|帮帮我|为什么(?:要|还要)活|凭什么活|说服我|拉我一把)"
    ),
    "leaving": re.compile(
        r"^\W*(?:ok(?:ay)?\W+)?(?:bye+|goodbye|good ?night|gn|gtg|g2g|see (?:you|ya)|i (?:have|need|got) to go|im (?:going|off)(?: to (?:bed|sleep))?(?=\W*$)"
        r"|talk (?:to you )?later|ill go now|im leaving)\b|^\W*(?:再见|拜拜|晚安|我(?:先)?(?:走|睡|下)了|先这样|88)"
    ),
    "calmer": re.compile(
        r"(?:feel|feeling|im) (?:a (?:bit|little) |much |so |somewhat |slightly )?(?:better|calmer|lighter|less (?:alone|bad|awful|intense))"
        r"|calmed down|that (?:helped|helps)|it(?:s| has)? (?:eased|passed|passing|easing)"
        r"|(?:好(?:一?点|些|多)了?|平静(?:一?点|些|多|下来)|轻松(?:一?点|些|多)|没那么(?:难受|想死|痛|绝望)|缓过来|冷静(?:下来|一?点))"
    ),
    "thanks": re.compile(r"\b(?:thank(?:s| you)|thx|ty|appreciate)\b|谢谢|感谢|多谢|谢啦"),
    "teenager": re.compile(
        r"\b(?:im|i am|aged?) (?:only )?(?:1[0-7]|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen)\b(?! (?:weeks|months|days|years "
        r"(?:into|sober|in|clean)|minutes|hours|th))|\b(?:[6-9]|1[0-2])th grade|\byear (?:7|8|9|10|11)\b|my (?:mom|mum|parents|dad) (?:wont let|"
        r"grounded)|in (?:middle|high) school|我(?:今年|才|只有)?(?:1[0-7]|十[一二三四五六七]?)岁|初[一二三]|高[一二三]|小学|初中生|高中生|中学生"
    ),
}
#: what may be taken, eaten or drunk without harm: a usual dose, a meal, a photo. What "them" in "I took them" can mean
_ORDINARY = re.compile(
    r"\b(?:one|two|1|2|a couple of|half an?) (?:ibuprofen|advil|tylenol|paracetamol|aspirin|nurofen|aleve|tablets?|pills?|melatonin|benadryl|painkillers?|gumm(?:y|ies))\b"
    r"|\bmy (?:usual|normal|regular|daily|morning|evening|nightly|prescribed|antibiotics?|vitamins?|inhaler|insulin|birth control|thyroid)\b|as (?:prescribed|usual|directed)|like every (?:day|night|morning)"
    r"|(?:doctor|pharmacist|dentist|gp|nurse) (?:gave|said|told|prescribed)|\b(?:antibiotics?|vitamins?|melatonin|antihistamines?|cough syrup|cold medicine|probiotics?|electrolytes?"
    r"|photos?|pictures?|pics|selfies?|kids?|children|dogs?|puppy|train|bus|cab|uber|exams?|tests?|quiz|finals|class(?:es)?|course|lessons?|lunch|dinner|breakfast|food|meal|snack|coffee|tea|shower|bath|nap|walk|break"
    r"|notes|stairs|job|offer|money|cash|bribe|donuts?|cookies?|cake|pizza|leftovers|chocolates?|sandwich|soup|smoothie|water|juice|milk|beers?|wine|advice|compliment|blame|lead|keys|books?|laundry|boxes to|measurements|screenshots?|minutes(?! ago))\b"
    r"|[一两半1-2](?:片|粒|颗|包|袋)|按(?:医嘱|说明|时)|医生(?:开|让|说)|每天(?:都)?吃|感冒|退烧|消炎|止咳|胃药|益生菌|维生素|钙片|布洛芬|褪黑素|中药|避孕药|早餐|早饭|午饭|午餐|晚饭|晚餐|夜宵|宵夜"
    r"|吃(?:了)?饭|[米面]|火锅|烧烤|蛋糕|外卖|奶茶|咖啡|可乐|啤酒|红酒|水|汤|零食|巧克力|水果|苹果|西瓜|螺蛳粉|饺子|辣|甜|香|减肥|照片|考试"
)
#: how much, or what, that makes something taken an emergency
_GRAVE = re.compile(
    r"\b(?:all (?:of )?(?:them|it|my|the|his|her|mums?|moms?|dads?)|everything|whole|entire|handfuls?|fistful|strips?|blister|packets?|packs?|box(?:es)?|bottles?|too (?:many|much)|lots|loads|enough|plenty|more than|overdos\w*|bleach|"
    r"antifreeze|poison|pesticide|drain|cleaner|sleeping (?:pills|tablets)|sleepers|xanax|valium|oxy\w*|opioids?|morphine|fentanyl|insulin pen|(?:[6-9]|[1-9]\d+)(?: of)?|six|seven|eight|nine|ten|twelve|dozen|fifteen|twenty|thirty|forty|fifty)\b"
    r"|全部|全都|都吃|整(?:瓶|盒|板)|[一两几半](?:整)?(?:瓶|盒|板|把)|好多|很多|一堆|所有|剩下的|大把|安眠药|农药|百草枯|敌敌畏|老鼠药|洁厕|消毒液|漂白|[三四五六七八九十百几]+(?:多)?[片颗粒]|[1-9]\d(?:多)?[片颗粒]|够了|足够"
)
_DRUG = re.compile(
    r"\b(?:pills?|tablets?|meds?|medication|capsules?|bleach|overdos\w*|paracetamol|tylenol|ibuprofen|advil|aspirin|antidepressants?|insulin|benadryl|painkillers?)\b|药|[片颗粒]|胰岛素"
)


#: a message that tells of somebody else, and does not say "it is me"
_SOMEONE = re.compile(
    r"^(?!.*\b(?:its|it is|it was) me\b|.*就是我).*(?:\b(?:he|she|they|hes|shes|theyre|him|her|friend|mate)\b|他|她|朋友|室友)",
    re.DOTALL,
)
#: places that a person may have gone up to
_UP_THERE = re.compile(
    r"\b(?:roof|rooftop|ledge|bridge|top (?:level|floor|deck)|multi ?stor(?:e)?y|tracks|cliff|viaduct)\b|天台|楼顶|顶楼|桥上|铁轨|江边|水库"
)
#: places where a person is told to step back, not to leave a room
_EDGE = re.compile(
    _UP_THERE.pattern
    + r"|\b(?:edge|platform|railings?|rail|parapet|balcony|overpass|river|canal|harbou?r|motorway|highway|rails)\b"
    r"|桥|栏杆|护栏|站台|轨道|河边|湖边|海边|阳台边|窗台|边上|高速"
)
#: they say that they have come away from there
_CAME_AWAY = re.compile(
    r"^(?!.*\b(?:not|cant|didnt|never|wont)\b).*\b(?:(?:went|came|walked|climbed|stepped|got|im|moved|ive (?:gone|come|moved)) "
    r"(?:back|down|off|away|inside|home)|left the (?:bridge|roof|station|platform|edge|ledge))\b"
    r"|^(?!.*[没不]).*(?:下来了|退回来了|走开了|离开了|回来了|退后了|下楼了|到家了)",
    re.DOTALL,
)
#: they want, plan or think of killing themselves, in so many words: then that is not asked again
_SAID_PLAINLY = re.compile(
    r"\bi\b(?:(?!\b(?:not|never|no|(?:do|did|wo|would|ca|could)n'?t)\b)[^.!?\n]){0,30}\b(?:want|wanna|going|gonna|plan(?:ning)?|thinking|thought|thoughts|decided|ready|about)\b"
    r"(?:(?!\b(?:not|never)\b)[^.!?\n]){0,20}\b(?:kill(?:ing)? myself|end(?:ing)? my (?:own )?life|tak(?:e|ing) my (?:own )?life|"
    r"commit(?:ting)? suicide|(?:of|about) suicide)"
    r"|(?:我|一直|总)[^。！？\n没不未别]{0,6}(?:想|要|打算|准备|决定)[^。！？\n没不未别]{0,4}(?:自杀|轻生|结束(?:我?自己的?)?生命|了结(?:我?自己|生命))"
)
#: kinds of answer that say no
_PLAIN_NO = frozenset({"a no", "a no inside", "fine", "harmless reason", "once"})


class Reading(msgspec.Struct, frozen=True):
    """A message where it stands: what it tells, and what it answers."""

    finding: Finding
    question: Question | None = None
    answer: Answer | None = None
    acts: tuple[Act, ...] = ()
    explained: bool = False  # a no with a harmless reason: what was only suspected is taken back
    firm: bool = False  # the answer is of a known kind; readers of the conversation do not overrule it
    kind: str = ""  # of answer (`answers`)
    names_danger: bool = False  # a word of a place, means, intake, plan, wound or death stands in it
    place: Literal["", "there", "left"] = ""  # a height, tracks, water or a road is named, or they came away from it
    said_plainly: bool = False  # that they want to kill themselves, in so many words

    @property
    def plainly_no(self) -> bool:
        """It may be answered as a no: it is of a kind that says no, and names no danger."""
        known = self.kind in _PLAIN_NO or (self.question == "safe_now" and self.firm)
        return self.said_no and known and not self.names_danger

    @property
    def hints_with_others(self) -> bool:
        """It may be a hint together with other messages: it neither answers a question nor tells of the past, of
        someone else, or that there is no danger."""
        return self.question is None and not (self.finding.past or self.finding.denied or self.finding.other)

    @property
    def said_no(self) -> bool:
        """It says, asked, that there is no danger."""
        if self.finding.level in ("high", "emergency"):
            return False
        if self.question == "safe_now":
            return self.answer == "yes"
        return self.question in ("taken", "plan", "means", "desire", "in_danger") and self.answer == "no"


def questions_in(reply: str, worried: bool = True) -> tuple[Question, ...]:
    """What a supporter's reply asks about safety, in order.

    Not `worried`, where nothing gave cause yet, only plain questions count ("Do you have any plans?" may be about the
    weekend): about a wish to die, about being safe, and others only beside one of these.

    >>> questions_in("I'm here. Are you thinking about killing yourself?"), questions_in("What happened then?")
    (('desire',), ())
    """
    found: list[Question] = []
    sentences = [one.lower().replace("’", "'") for one in question_sentences(reply)]
    for plain in sentences:
        for question in _SERIOUS:
            if _ASKS[question].search(plain):
                found.append(question)
                break
    if not worried and any(_PLAINLY_HOW.search(one) for one in sentences):
        worried = True
    about_dying = bool(_ASKS["desire"].search(reply.lower().replace("’", "'"))) and "?" in reply.replace("？", "?")
    if about_dying and not {"taken", "means", "plan", "desire"} & set(found):
        found.append("desire")  # "You told me you think of killing yourself. How long has that been so?"
    if not worried and not {"taken", "desire", "safe_now"} & set(found) and not about_dying:
        return ()
    return tuple(dict.fromkeys(found))


def heard_in(reply: str, worried: bool = True) -> tuple[Question, ...]:
    """The question about safety that a reply puts in words which `questions_in` does not know, by a small network.

    >>> heard_in("Is there a part of you that wishes you would not wake up?"), heard_in("How was work today?")
    (('desire',), ())
    """
    odds = question_odds(reply)
    if odds is None or 1 - odds["none"] < (HEARD if worried else HEARD_CALMLY):
        return ()
    return (max(_SERIOUS, key=lambda question: odds[question]),)


def answer_to(questions: tuple[Question, ...], message: str) -> tuple[Question | None, Answer | None]:
    """Which of the questions a message answers, and how; no answer: (None, None).

    >>> answer_to(("desire",), "yeah, kind of"), answer_to(("safe_now",), "不安全"), answer_to(("desire",), "My boss...")
    (('desire', 'yes'), ('safe_now', 'no'), (None, None))
    """
    if not questions:
        return None, None
    text = fold(message).text.strip()
    serious = next(one for one in _SERIOUS if one in questions)
    if serious == "safe_now":
        if _NOT_SAFE.search(text):
            return "safe_now", "no"
        if _SAFE.search(text):
            return "safe_now", "yes"
        if _BARE_NO.search(text):
            return "safe_now", "no"
    kind = kind_of(serious, text)
    if kind is None or kind.kind == "no answer":
        return None, None
    if serious == "safe_now" and kind.answer == "yes" and len(WORDS.findall(text)) > 3:
        return None, None  # "I want to wait until the kids are at school": that is no yes to being safe
    return kind.question or serious, kind.answer


def read(
    message: str,
    last_reply: str = "",
    risk: Risk | None = None,
    *,
    asked: tuple[Question, ...] = (),
    before: Sequence[str] = (),
    around: str = "",
) -> Reading:
    """A message as it stands after the supporter's last reply and what is known so far.

    `asked`: what that reply asked, where it is known; else it is read from the reply. `before`: what the person wrote
    before, since they last said, asked, that there is no danger; where it is given, hints that are only hints together
    are read too. `around`: what both said just before, where "them" in "I took them" may be named.
    """
    risk = risk or Risk()
    questions = asked or questions_in(last_reply, at_least(risk.level, "high"))
    about_self = any(one in questions for one in ("taken", "desire", "plan", "means", "in_danger", "safe_now"))
    worried = at_least(risk.level, "watch") or about_self
    finding = whose(screen(message, worried=worried, raised=at_least(risk.level, "high")), risk, message)
    hurt_now = finding.level == "emergency" and bool(set(finding.kinds) & set(DANGER_OF))
    question, answer = answer_to(questions, message)
    folded = fold(message).text
    if finding.kinds == ("intake",) and _ORDINARY.search(fold(around).text):
        finding = Finding()  # "Did you get the photos?" "I took them."
    direct = next((one for one in ("taken", "means", "plan", "desire") if one in questions), None)
    explained = firm = False
    kind = kind_of(direct, folded) if direct else None
    level = None
    if hurt_now:
        question = answer = kind = None  # "he is on the stairs" answers no question
    elif direct is not None and not finding.other:
        taken = _what_was_taken(folded, risk, kind) if direct == "taken" else None
        if taken and not at_least(risk.level, "high"):
            question, answer, explained, firm = direct, taken, taken == "no", True
            finding = Finding(denied=True) if explained else finding
        elif kind is None:
            question, answer, level = _unknown(direct, folded, finding, risk)
            firm = answer == "yes"
        else:
            question, answer, level, firm = kind.question or direct, kind.answer, kind.level, True
            finding, explained, firm = _as_kind(kind, finding, risk, folded)
            level = level if kind.answer != "no" else None
    elif question in ("safe_now", "in_danger") and answer and not at_least(finding.level, "high"):
        plainly = len(WORDS.findall(folded)) <= 3 or _NOT_SAFE.search(folded)
        firm = answer != "no" or question != "safe_now" or bool(plainly)
        if answer == ("yes" if question == "safe_now" else "no") and finding.kinds == ("hint",):
            finding = Finding()
    elif "who_is_near" in questions and (alone := kind_of("who_is_near", folded)) and alone.kind == "sent away":
        finding |= Finding("high" if risk.level != "none" else "watch", ("plan",), hint=1.0)
    elif "safe_now" in questions and answer is None and risk.level != "none" and not risk.asked:
        finding |= Finding("watch", ("unanswered",))  # nothing was promised
    so_to_say_yes = answer == "yes" or (kind is not None and kind.kind == "a question for an answer")
    if so_to_say_yes and direct == "desire" and _UP_THERE.search(fold(around).text):
        finding |= Finding("emergency", ("means",))  # "Did you go up there because you think of suicide?" "why else"
    in_own_danger = risk.danger == "suicide" and not risk.about_other
    told_as = kind if direct else kind_of("taken", folded)
    done = told_as is not None and told_as.kind == "done"
    if done and in_own_danger and (about_self or at_least(risk.level, "high")):
        finding |= Finding("emergency", ("ingestion",))
        answer, question, firm = "yes", question or (questions[0] if questions else None), True
    elif level := level or _level_of(question, answer):
        named = "unanswered" if level == "watch" else _kind_of(question, risk)
        if named in DANGER_OF and at_least(finding.level, "high") and OWN & set(finding.kinds):
            named = next(kind for kind in finding.kinds if kind in OWN)  # they speak of their own life now
        finding |= Finding(level, (named,), other=risk.about_other)
    if answer == "no" and finding.kinds == ("hint",):
        finding = Finding()  # a short "no" sounds like many things
    elif not at_least(worst(risk.level, finding.level), "high") and Reading(finding, question).hints_with_others:
        together = hear_together([*before, message]) if before else None
        if together is not None and together >= TOGETHER_HIGH:
            finding |= Finding("high", ("hint",), hint=1.0)
    acts = [act for act, pattern in _ACTS.items() if pattern.search(folded)]
    if len(WORDS.findall(folded)) <= 2 and not answer:
        acts.append("few_words")
    if "joking" in acts and not at_least(risk.level, "watch"):
        acts.remove("joking")
    return Reading(
        finding, question, answer, tuple(acts), explained, firm, kind.kind if kind else "",
        names_danger=names_danger(message, finding.denied),
        place="left" if _CAME_AWAY.search(folded) else "there" if _EDGE.search(folded) else "",
        said_plainly=not (finding.past or finding.denied or finding.other) and bool(_SAID_PLAINLY.search(folded)),
    )  # fmt: skip


def whose(finding: Finding, risk: Risk, message: str) -> Finding:
    """A finding with the danger that the conversation is about: who hurts a child and is at the door now is found as
    `near`, a weapon that somebody carries for others as means, and what a friend has planned as a plan."""
    if risk.about_other and finding.level != "none" and _SOMEONE.search(fold(message).text):
        return msgspec.structs.replace(finding, kinds=("third",), other=True)
    if "third" in finding.kinds and at_least(risk.level, "high") and finding.level == "emergency":
        own = tuple(span for span in finding.spans if span.kind != "third")
        kinds = tuple(dict.fromkeys(span.kind for span in own))
        finding = msgspec.structs.replace(finding, level=worst(*(span.level for span in own)), kinds=kinds, spans=own)
    hurt = next((one for one in risk.dangers if one in ("child_abuse", "partner_violence")), None)
    kinds = finding.kinds
    if "near" in kinds:
        if hurt is None:
            rest = tuple(span for span in finding.spans if span.kind != "near")
            level = worst(*(span.level for span in rest))
            kinds = tuple(kind for kind in kinds if kind != "near")
            return msgspec.structs.replace(finding, level=level, kinds=kinds, spans=rest)
        kinds = tuple(hurt if kind == "near" else kind for kind in kinds)
    if risk.danger == "child_abuse":
        kinds = tuple("child_abuse" if kind == "partner_violence" else kind for kind in kinds)
    if risk.danger == "violence_to_others" or "violence" in kinds:
        kinds = tuple("violence" if kind in ("means", "plan") else kind for kind in kinds)
    return msgspec.structs.replace(finding, kinds=tuple(dict.fromkeys(kinds)))


def _what_was_taken(folded: str, risk: Risk, kind: Kind | None) -> Answer | None:
    """The answer to "what did you take?", where nothing worse is known: too much is yes, a usual dose, a meal or a photo
    is no, and after something unclear a few words that do not say it are unsure. None: other rules read it."""
    plain = re.sub(r"(?:like|as) the box says|(?:dose )?on the box", "", folded)
    grave, ordinary = _GRAVE.search(plain), _ORDINARY.search(plain)
    if ordinary and not (grave and _DRUG.search(folded)):
        return "no"
    if grave:
        return "yes"
    if not set(risk.kinds) <= {"intake", "hint"} or not risk.kinds or (kind is not None and kind.answer == "yes"):
        return None
    if (kind is not None and kind.answer == "no") or len(WORDS.findall(folded)) > 12:
        return "no"
    return "unsure"


def _unknown(
    direct: Question, folded: str, finding: Finding, risk: Risk
) -> tuple[Question | None, Answer | None, Level | None]:
    """What fits no kind. A few words after a question about means or something taken say what or where ("my dad's"), one or
    two after others are unsure; a sentence about something else is no answer, and the question comes again."""
    size = len(WORDS.findall(folded))
    if (direct == "taken" and size <= 6) or (direct == "means" and size <= 2):
        return direct, "yes", None
    if size <= (4 if direct in ("plan", "means") else 2) and not risk.asked:
        return direct, "unsure", None
    known = at_least(finding.level, "watch") or risk.asked  # who said no before need not answer again
    return None, None, None if known else "watch"


def _as_kind(kind: Kind, finding: Finding, risk: Risk, folded: str) -> tuple[Finding, bool, bool]:
    """What a message tells that is this kind of answer, whether it takes back what was only suspected, and whether the
    kind stands against readers."""
    if kind.kind == "once":
        return Finding("watch", ("wish",), past=True), False, True
    if kind.kind == "other person":
        return finding | Finding("watch", ("third",), other=True, hint=1.0), False, True
    told = finding.level == "emergency" and at_least(risk.level, "high") and not set(risk.kinds) <= SUSPECTED
    if kind.explained and not told:  # "it is tonight, after the game"
        return Finding(denied=True), True, not at_least(finding.level, "high")
    only_named = set(finding.kinds) <= {"third", "mention", "denial"}  # "I wouldn't die for him"
    if kind.answer != "no" or (at_least(finding.level, "high") and not only_named):
        return finding, False, kind.answer != "no"
    longer = len(WORDS.findall(folded)) > 4
    if longer and set(risk.kinds) <= SUSPECTED:
        return Finding(denied=True), True, True
    return (Finding() if finding.kinds == ("hint",) else finding), False, True


def _level_of(question: Question | None, answer: Answer | None) -> Level | None:
    """The level that an answer alone gives cause for."""
    if question is None or answer is None or question == "who_is_near":
        return None
    if question == "in_danger":
        return {"yes": "emergency", "unsure": "high", "no": None}[answer]
    if question == "safe_now":
        return {"no": "emergency", "unsure": "high", "yes": None}[answer]
    if answer == "no":
        return None
    return "emergency" if question in ("means", "taken") and answer == "yes" else "high"


def _kind_of(question: Question | None, risk: Risk) -> str:
    """The kind of finding that an alarming answer is."""
    if risk.danger != "suicide" and question in ("in_danger", "safe_now"):
        return next(kind for kind, danger in DANGER_OF.items() if danger == risk.danger)
    if risk.about_other:
        return "third"
    return {"means": "means", "plan": "plan", "taken": "ingestion"}.get(str(question), "wish")
