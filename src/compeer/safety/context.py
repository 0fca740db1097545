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

An answer is yes, no or unsure. Yes and unsure to desire are high, yes to means or to having taken something is an
emergency, and so is "I already did". After such a question whatever is not plainly a no counts as unsure: people answer
"since monday", "what do you think", "8". A longer sentence about something else is no answer where danger was only
suspected. A no with a harmless reason ("it's a song", 是搬家) takes back what was only
suspected. A "no" never lowers the level by itself: it is remembered as having been asked (`levels`). Where one reply asks
several things, "yes" is taken for the most serious of them and "no" for the last.
"""

# patterns are kept on the line of what they stand for
# ruff: noqa: E501
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from compeer.safety.levels import DANGER_OF, SUSPECTED, Finding, Level, Risk, at_least, worst
from compeer.safety.network import TOGETHER_HIGH, hear_together
from compeer.safety.normalise import fold
from compeer.safety.screen import screen

Question = Literal["taken", "desire", "plan", "means", "in_danger", "safe_now", "who_is_near"]
Answer = Literal["yes", "no", "unsure"]
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
#: from the most serious on
_SERIOUS: tuple[Question, ...] = ("taken", "means", "plan", "desire", "in_danger", "safe_now", "who_is_near")

_ASKS: dict[Question, re.Pattern[str]] = {
    "taken": re.compile(
        r"have you (?:already )?(?:taken (?:something|anything|them|it\b|any (?:pills|medication|tablets)|an overdose|pills)|swallowed|drunk (?:something|anything)|(?:hurt|harmed|cut) yourself"
        r"|done (?:something|anything) to)|did you (?:take (?:something|anything|them|any|the|all)|swallow|hurt yourself|cut yourself|do something to)"
        r"|are you (?:hurt|bleeding|injured)|(?:吃|喝|吞)了?(?:什么|药|多少)|(?:是不是|有没有)(?:吃|喝|吞|伤|割|做)|受伤了?[吗嘛]|伤(?:到|了)自己"
    ),
    "means": re.compile(
        r"(?:do you have|have you got|is there|are there|with you|near you|around you|in reach|to hand|have access|got)"
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
        r"suicid|kill(?:ing)? yourself|end(?:ing)? (?:their|things|it all)|about to do (?:something )?to yourself|(?:end|tak)(?:e|ing) your (?:own )?life|want(?:ing)? to die|wish you were dead"
        r"|not want(?:ing)? to (?:live|be alive|be here)|hurt(?:ing)? yourself"
        r"|harm(?:ing)? yourself|thoughts of (?:dying|death|not being)|wanting to be dead|wishing you were dead"
        r"|不活了|活不下去|离开人世|跳下去|自杀|轻生|结束(?:自己的?)?生命|想死|想过死|不想活|伤害自己|自残|死的念头|了结(?:自己|生命)|结束自己|寻短见"
    ),
    "in_danger": re.compile(r"\bdanger\b(?![^?]*\bsafe\b)|(?<!没)有(?:没有)?危险|危险吗"),
    "safe_now": re.compile(r"(?:are|do|feel\w*)\b[^?]{0,20}\bsafer?\b|你[^？?]{0,10}安全|安全吗"),
    "who_is_near": re.compile(
        r"(?:is|are) (?:there )?(?:any|some)(?:one|body)|are you alone|who (?:is|could|can|else|would)|with you (?:now|right)"
        r"|someone (?:near|close|with|who)|by yourself|身边(?:有没有|有)?(?:人|谁)|一个人吗|谁(?:能|可以|在)|有人(?:陪|在)|陪着?你"
    ),
}
_LEAD = r"^\W*(?:(?:um+|uh+|er+|well|honestly|i mean|so|ok|okay|actually|tbh|to be honest|look|oh|hmm+|please|lol|i|just|and)\W+)*"
_UNSURE_EN = (
    r"(?:maybe|perhaps|possibly|i might(?: be)?|might be|not sure|unsure|im not sure|idk|i dont know|dont know|dunno|"
    r"hard to say|no idea|no clue|yes and no|not yet|not exactly|i guess(?! so)|i suppose(?! so)|could be|who knows|"
    r"its complicated|depends|cant say|i cant tell|sort of not|not tonight|not today|no but|not really but|"
    r"kind of not|i wish i could say no|not completely|not entirely)"
)
_YES_EN = (
    r"(?:yes+|ye+a+h*|yep+|yup+|yh|ya+h*|ye|y|mhm+|mm+ ?hm+|uh ?huh|am|do|have(?: been)?|did|was|think so|"
    r"i think so|i guess so|i suppose so|probably|kind of|kinda|sort of|sorta|sometimes|a (?:bit|little|lot)|often|always|"
    r"every ?(?:day|night)|all the time|constantly|most (?:days|nights)|definitely|of course(?! not)|obviously|pretty much|"
    r"more or less|correct|right|true|thats right|it is|it does|guilty|affirmative|si|im thinking (?:about|of) it|"
    r"ive thought (?:about|of) it|thought (?:about|of) it|think (?:about|of) it|thinking (?:about|of) it|"
    r"it crosse[sd] my mind|crosse[sd] my mind|been thinking|for (?:a while|weeks|months|years)|more (?:than|and more)|lately|"
    r"what do you think|does it matter|is it that obvious|how did you know|wouldnt you|who wouldnt|i am|i do|i have|i did)"
)
_NO_EN = (
    r"(?:no+|nope|nah+|naw|n|not really|not at all|never|am not|im not|dont(?! (?:tell|call|send|you|say|ask|let|leave|make|judge|give))|havent|have not|wouldnt|would never|"
    r"of course not|definitely not|absolutely not|not right now|not any ?more|god no|hell no|nothing like that|didnt|none|"
    r"dont worry|not (?:like )?that|not suicidal|noo+|no way|not me|no plans?|nothing|nothing specific|not thinking)"
)
_SAFE_EN = (
    r"(?:im|i am|yes im|yeah im|yes i am|feel|feeling)\W+(?:ok|okay|fine|safe|good|alright|all right)\b|\bsafe\b(?! no)"
)
_NOT_SAFE_EN = r"(?:not|dont feel|isnt|im not|no longer|am not|not really|not that|never) (?:very |really |so |too )?safe|unsafe|in danger"
_UNSURE_ZH = (
    r"(?:可能|也许|或许|大概|说不清|不知道|不清楚|不确定|不好说|没想好|还没|不太确定|好像|应该是?吧|一半一半|看情况|"
    r"算是吧?|差不多|不一定|难说|谁知道|说不准|不晓得)"
)
_YES_ZH = (
    r"(?:嗯+|恩+|唔+|是(?!不是|吗)|有(?!病|什么|没有|事|点烦)|对(?!不起|方)|想(?!不|问)|会(?!不)|经常|有时|偶尔|每天|一直|"
    r"天天|早就|当然(?!没|不)|确实|没错|我有|我想(?!问|说)|我是(?!不)|我在想|的确|可以这么说|en+|yes|老是|总是|常常|"
    r"无时无刻|好几次|很多次|不止一次|最近有|就是|被你(?:看|猜)|你怎么知道|瞒不过|反正|谁不想|有点|一点点|在(?:手|身|桌|旁|床|这|我))"
)
_NO_ZH = (
    r"(?:没有?(?!错|想好|办法|人|勇气|意思|意义|希望)|不是|不(?!知道|清楚|确定|好说|一定|太确定|安全|晓得|想活|想说|关你)|"
    r"从来没|从没|哪有|怎么会|怎么可能|放心|我没|我不(?:会|是|想死|想自杀)|绝对没|绝对不|还不至于|没的事|没那|no+)"
)
_SAFE_ZH = r"(?:我)?(?:很|挺|现在|目前|暂时|还|蛮|算)*安全|没(?:有)?危险|我没事|我还好|还好|挺好"
_NOT_SAFE_ZH = r"(?:不|不太|不怎么|没有|不是很)安全|有危险|不太好|不好"
_ALREADY = re.compile(
    r"(?:i |ive |have |yes |yeah |think i )*already (?:did|have|done|took|taken|started|tried|cut|swallowed|doing)(?! (?:told|said|"
    r"called|talked|tried (?:that|calling|everything)|have (?:a|an|one)|thought|heard))|(?:its|it is) (?:already )?(?:done|too late)"
    r"|\btoo late\b|(?:i )?(?:just )?did it(?: already| just now| tonight)?\W*$|already in (?:me|my system)"
    r"|已经(?:吃|吞|喝|割|做|服|开始|动手|跳|划|死过?|晚|来不及|点|打开|准备)|(?:刚|刚刚|刚才)(?:吃|吞|喝|割|服|做|咽)|来不及了|太迟了"
    r"|(?:都|全)(?:吃|吞)(?:了|下去)|^\W*(?:我)?(?:吃|吞|割|做)了\W*$"
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
#: a yes anywhere in a short answer
_YES_INSIDE = re.compile(
    r"\b(?:yes+|ye+ah*|yep+|yup+|ya|afraid so|both|i have|i did|i am|ive been|only every|every (?:day|night)|all the time)\b"
    r"|是的|有的|想过|确实|对啊|嗯嗯|都有|每天"
)
#: where something is, as an answer to whether it is within reach
_HERE = re.compile(
    r"\b(?:in|on|by|under|at) (?:the|my|dads|moms|mums|his) (?:\w+ )?(?:table|hands?|lap|drawer|nightstand|pocket|bag|car|truck|seat|kitchen|garage|bed|desk|counter|"
    r"pillow|cabinet|closet)\b|in front of me|right here|next to me|beside me|with me|over here|within reach|(?:im|i am) (?:holding|looking at) (?:it|them)"
    r"|(?:在|放)(?:我)?(?:桌|手|床|抽屉|包|车|身边|身上|旁边|面前|这|枕头|腿上|口袋)|拿着|握着|就在|够得着|枕头底下"
)
#: a time that is now, as an answer to when
_SOON = re.compile(
    r"\b(?:tonight|now|today|soon|this (?:evening|afternoon|morning)|in (?:an?|one|\d+|a few) (?:hours?|minutes?)|(?:when|once|after|till|until) (?:everyone|they|he|she|mum|mom|dad)"
    r"|then i do it|before (?:morning|tomorrow|they))\b|今晚|今天|现在|马上|待会|等(?:他们|大家|都|会|过)|一会儿|天亮(?:之?前)"
)
#: harmless reasons
_HARMLESS = re.compile(
    r"\b(?:songs?|lyrics?|movie|series|novel|video ?game|meme|quote|band|album|cards? for|moving (?:out|house|to)|new (?:job|flat|place|house)|retir\w+|quit(?:ting)? (?:my|the) job|"
    r"antihistamines?|allerg\w+|hay ?fever|vitamins?|fish oil|paracetamol for|ibuprofen for|for (?:my|a) (?:headache|tooth\w*|back|period|cold|knee)|dentist|surgery|bungee|skydiv\w+|"
    r"diet|haircut|boss fight|speedrun|homework|halloween|costume|onions?|kebab|hungry)\b"
    r"|首歌|歌词|台词|小说里|打游戏|作业|特辣|雪道|滑雪|绑行李|睡觉|搬家|搬去|调去|辞职|离职|散伙|合伙|外卖|过敏|感冒药|维生素|钙片|鱼油|褪黑素|布洛芬|段子|梗|台词|蹦极|跳伞|减肥|剪头|毕业|退休|扫墓|上坟|清明"
)
#: what may be taken, eaten or drunk without harm: a usual dose, a meal, a photo. What "them" in "I took them" can mean
_ORDINARY = re.compile(
    r"\b(?:one|two|1|2|a couple of|half an?) (?:ibuprofen|advil|tylenol|paracetamol|aspirin|nurofen|aleve|tablets?|pills?|melatonin|benadryl|painkillers?|gumm(?:y|ies))\b"
    r"|\bmy (?:usual|normal|regular|daily|morning|evening|nightly|prescribed|antibiotics?|vitamins?|inhaler|insulin|birth control|thyroid)\b|as (?:prescribed|usual|directed)|like every (?:day|night|morning)"
    r"|(?:doctor|pharmacist|dentist|gp|nurse) (?:gave|said|told|prescribed)|\b(?:antibiotics?|vitamins?|melatonin|antihistamines?|cough syrup|cold medicine|probiotics?|electrolytes?"
    r"|photos?|pictures?|pics|selfies?|kids?|children|dogs?|puppy|train|bus|cab|uber|exams?|tests?|quiz|finals|class(?:es)?|course|lessons?|lunch|dinner|breakfast|food|meal|snack|coffee|tea|shower|bath|nap|walk|break"
    r"|notes|stairs|job|offer|money|cash|bribe|donuts?|cookies?|cake|pizza|leftovers|chocolates?|sandwich|soup|smoothie|water|juice|milk|beers?|wine|advice|compliment|blame|lead|keys|books?|laundry|boxes to|measurements|screenshots?|minutes)\b"
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
#: a wish to be dead without doing anything, beside a no
_PASSIVE = re.compile(
    r"(?:didnt|never|not|dont) wak\w+ up|(?:everything|it all|it) to (?:just )?stop|be all right with it|wouldnt mind (?:if|dying|not)|not be here|if i (?:died|disappeared|was gone)"
    r"|不醒|醒不过来|消失|停下来|不在了|无所谓死|死了也(?:好|行|罢)"
)
#: not answering
_EVADES = re.compile(
    r"^\W*(?:so anyway|anyway\W*$|my (?:boss|job|work|car|day|class|teacher|landlord|flat)\b|can we|did i)|something else|why would you ask|change the subject|dont want to (?:answer|say|talk about (?:it|that))|why (?:do|does) .{0,30} ask|聊点别的|换个话题|不想(?:回答|说)|别问"
)
#: someone else is meant
_OTHERS = re.compile(
    r"\b(?:my|a) (?:\w+ )?(?:mate|friend|brother|sister|son|daughter|wife|husband|girlfriend|boyfriend|mum|mom|dad|roommate|cousin)\b.*\b(?:he|she|they|him|her)\b|(?:是|我)(?:我)?(?:老公|老婆|朋友|同学|弟|妹|哥|姐|儿子|女儿|室友|爸|妈).{0,30}(?:他|她|写|说)"
)
#: it was so once, and is not now
_ONCE = re.compile(
    r"(?:long time|ages|years) ago|很久以前|过去的事|(?:back then|years ago|when i was|used to).{0,60}\b(?:now no|not now|not any ?more|not (?:for|in) \w+ years)|now no\b|(?:以前|那时|当年|年轻).{0,30}(?:现在不|现在没|早就不)|现在不想|现在没有了"
)
_CLEAR_NO = re.compile(
    rf"{_LEAD}(?:{_NO_EN})(?![a-z])|^(?:\W*\w+){{0,3}}\W+no+(?:pe)?\b(?! (?:idea|clue|one|body|point))|\b(?:god no|hell no|no no|not suicidal|nothing like that|never would|would never|of course not|not at all)\b"
    rf"|^\W*(?:哈+|嗐|害|啊|哎|天|喂|笑死|神经病吧?|想哪去了|想多了|误会)*\W*(?:{_NO_ZH})|想哪去了|想多了|你想啥|误会|不是不是|^.{{0,6}}没有没有"
)
_WORDS = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")


class Reading(msgspec.Struct, frozen=True):
    """A message where it stands: what it tells, and what it answers."""

    finding: Finding
    question: Question | None = None
    answer: Answer | None = None
    acts: tuple[Act, ...] = ()
    explained: bool = False  # a no with a harmless reason: what was only suspected is taken back

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
    for sentence in re.findall(r"[^.!。！\n?？]*[?？]", reply):
        plain = sentence.lower().replace("’", "'")
        for question in _SERIOUS:
            if _ASKS[question].search(plain):
                found.append(question)
                break
    about_dying = bool(_ASKS["desire"].search(reply.lower().replace("’", "'"))) and "?" in reply.replace("？", "?")
    if about_dying and not {"taken", "means", "plan", "desire"} & set(found):
        found.append("desire")  # "You told me you think of killing yourself. How long has that been so?"
    if not worried and not {"taken", "desire", "safe_now"} & set(found) and not about_dying:
        return ()
    return tuple(dict.fromkeys(found))


def answer_to(questions: tuple[Question, ...], message: str) -> tuple[Question | None, Answer | None]:
    """Which of the questions a message answers, and how; no answer: (None, None).

    >>> answer_to(("desire",), "yeah, kind of"), answer_to(("safe_now",), "不安全"), answer_to(("desire",), "My boss...")
    (('desire', 'yes'), ('safe_now', 'no'), (None, None))
    """
    if not questions:
        return None, None
    text = fold(message).text.strip()
    serious = next(one for one in _SERIOUS if one in questions)
    last = questions[-1]
    if "safe_now" in questions:
        if re.search(
            rf"\b(?:roof|ledge|bridge|tracks|edge)\b|(?:^|\W)no\W*$|{_NOT_SAFE_EN}|^.{{0,6}}(?:{_NOT_SAFE_ZH})", text
        ):
            return "safe_now", "no"
        if re.search(f"{_SAFE_EN}|^.{{0,6}}(?:{_SAFE_ZH})", text):
            return "safe_now", "yes"
    elif re.search(f"^(?:yes|yeah|嗯|是的?)?\\W*(?:{_SAFE_EN}|(?:{_SAFE_ZH}))", text) and serious != "who_is_near":
        return serious, "no"
    english = re.search("[a-z]", text) is not None
    for answer, words in (
        ("unsure", (_UNSURE_EN, _UNSURE_ZH)),
        ("no", (_NO_EN, _NO_ZH)),
        ("yes", (_YES_EN, _YES_ZH)),
    ):
        if (english and re.search(rf"{_LEAD}{words[0]}(?![a-z])", text)) or re.search(
            rf"^\W*(?:我也?|就|其实|应该)?{words[1]}", text
        ):
            asked = serious if answer == "yes" or "safe_now" not in questions else last
            return (serious if answer == "unsure" else asked), answer  # type: ignore[return-value]
    return None, None


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
    finding = screen(message, worried=worried)
    question, answer = answer_to(questions, message)
    folded = fold(message).text
    if finding.kinds == ("intake",) and _ORDINARY.search(fold(around).text):
        finding = Finding()  # "Did you get the photos?" "I took them."
    direct = next((one for one in ("taken", "means", "plan", "desire") if one in questions), None)
    explained = False
    if direct is not None and not finding.other:
        if _EVADES.search(folded) and not _YES_INSIDE.search(folded):
            finding |= Finding("watch", ("hint",), hint=0.5)  # no answer is remembered, and the question comes again
        elif _OTHERS.search(folded) and _CLEAR_NO.search(folded):
            question, answer = direct, "no"
            finding |= Finding("watch", ("third",), other=True, hint=1.0)
        elif _ONCE.search(folded):
            question, answer = direct, "no"
            finding = Finding("watch", ("wish",), past=True)
        elif direct == "taken" and not at_least(risk.level, "high") and (taken := _what_was_taken(folded, risk)):
            question, answer = direct, taken
            explained = taken == "no"
            finding = Finding(denied=True) if explained else finding
        elif _HARMLESS.search(folded) and not (_YES_INSIDE.search(folded) and not _CLEAR_NO.search(folded)):
            question, answer, explained = direct, "no", True
            finding = Finding(denied=True)
        elif answer is None and _speaks_of_something_else(folded, finding, risk):
            finding |= Finding("watch", ("hint",), hint=0.5)  # the question comes again
        elif answer == "unsure" or not (
            _CLEAR_NO.search(folded) or (answer == "no" and re.search(f"{_SAFE_EN}|{_SAFE_ZH}", folded))
        ):
            question, answer = _pressed(direct, question, answer, folded)
        elif _PASSIVE.search(folded):
            question, answer = direct, "no"
            finding |= Finding("watch", ("wish",), hint=1.0)
        else:
            question, answer = direct, "no"
            only_suspected = set(risk.kinds) <= SUSPECTED
            explained = only_suspected and len(_WORDS.findall(folded)) > 4 and not at_least(finding.level, "high")
            if explained:
                finding = Finding(denied=True)
    in_own_danger = risk.danger == "suicide" and not risk.about_other
    if in_own_danger and (about_self or at_least(risk.level, "high")) and _ALREADY.search(folded):
        finding |= Finding("emergency", ("ingestion",))
        answer, question = "yes", question or (questions[0] if questions else None)
    elif level := _level_of(question, answer):
        finding |= Finding(level, (_kind_of(question, risk),), other=risk.about_other)
    if answer == "no" and finding.kinds == ("hint",):
        finding = Finding()  # a short "no" sounds like many things
    elif not at_least(worst(risk.level, finding.level), "high") and Reading(finding, question).hints_with_others:
        together = hear_together([*before, message]) if before else None
        if together is not None and together >= TOGETHER_HIGH:
            finding |= Finding("high", ("hint",), hint=1.0)
    acts = [act for act, pattern in _ACTS.items() if pattern.search(folded)]
    if len(_WORDS.findall(folded)) <= 2 and not answer:
        acts.append("few_words")
    if "joking" in acts and not at_least(risk.level, "watch"):
        acts.remove("joking")
    return Reading(finding, question, answer, tuple(acts), explained)


def _what_was_taken(folded: str, risk: Risk) -> Answer | None:
    """The answer to "what did you take?", where nothing worse is known: too much is yes, a usual dose, a meal or a photo
    is no, and after something unclear a few words that do not say it are unsure. None: other rules read it."""
    grave, ordinary = _GRAVE.search(folded), _ORDINARY.search(folded)
    if ordinary and not (grave and _DRUG.search(folded)):
        return "no"
    if grave:
        return "yes"
    if not set(risk.kinds) <= {"intake", "hint"} or not risk.kinds or _YES_INSIDE.search(folded):
        return None
    if _CLEAR_NO.search(folded) or len(_WORDS.findall(folded)) > 12:
        return "no"
    return "unsure"


def _speaks_of_something_else(folded: str, finding: Finding, risk: Risk) -> bool:
    """Whether a whole sentence after a question about safety is about ordinary things, where danger is only suspected.

    Someone who tells of their job search has not answered, and must not be taken at their word for a yes. Short answers
    and those after a disclosure count as unsure (`_pressed`).
    """
    suspected = risk.level == "watch" and set(risk.kinds) <= SUSPECTED - {"third", "bare"}
    long = len(_WORDS.findall(folded)) > 6
    return suspected and long and finding.level == "none" and not (_YES_INSIDE.search(folded) or _HERE.search(folded))


def _pressed(
    direct: Question, question: Question | None, answer: Answer | None, folded: str
) -> tuple[Question | None, Answer | None]:
    """The answer to a direct question that is not plainly a no: where it is, when it will be, yes somewhere inside, or
    anything else, which is unsure."""
    if direct in ("means", "desire", "plan") and _HERE.search(folded):
        return "means", "yes"
    if direct == "plan" and _SOON.search(folded):
        return "means", "yes"  # a plan for now is as grave as means in hand
    short = len(_WORDS.findall(folded)) <= 24
    if direct == "taken" and answer != "no" and short:
        return "taken", "yes"
    if answer is None or (answer == "no" and short):
        return direct, "yes" if _YES_INSIDE.search(folded) and short else "unsure"
    return question, answer


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
