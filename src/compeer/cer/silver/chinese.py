"""Chinese for all three steps: the same banks as the English files, smaller. TA stands for the seeker."""

from __future__ import annotations

from compeer.cer.silver.feelings import Feeling, family
from compeer.reasoning.ontology import EMOTIONS

#: a feeling by its name and its definition; families are the same in every language
FEELINGS: dict[str, Feeling] = {
    value.id: Feeling(family(value.id), (value.zh, f"{value.zh}，{value.definition_zh}"), (value.zh,)) for value in EMOTIONS
}

PROBLEMS: dict[str, tuple[str, ...]] = {
    "job crisis": ("工作上的难处", "饭碗不稳这件事"),
    "academic pressure": ("学业的压力", "考试和成绩"),
    "breakup": ("分手", "一段感情的结束"),
    "relationship": ("两个人之间的问题", "感情里的疙瘩"),
    "family": ("家里的事", "和家人之间的结"),
    "friendship": ("朋友之间的裂痕", "和朋友的关系"),
    "loss": ("失去", "一个人不在了这件事"),
    "health": ("身体的状况", "健康出了问题"),
    "money": ("钱的窟窿", "经济上的压力"),
    "loneliness": ("没人可说的孤单", "一个人扛着"),
    "self-worth": ("觉得自己不够好", "怎么看自己"),
    "parenting": ("带孩子的难", "做父母的担子"),
    "migration": ("离家在外", "在异地扎不下根"),
    "guilt": ("一件放不下的亏欠", "做过的那件事"),
    "everyday": ("日子里的琐碎", "平常日子的累"),
}

ISSUE = (
    "[说到底|归根到底|往里看|剥开来看]，[是|还是]{problem}：{fact}。",
    "{fact}[，这才是根子|，别的都绕着它转|，这句话很重|]。",
    "[TA反复提到|绕来绕去|话里话外]，[都是|离不开]{problem}，[比如|像]{quote}。",
    "{quote}，[这一句|短短一句]里[装着|藏着]{problem}。",
    "[真正压着TA的|TA眼下过不去的|TA带来的]是{problem}，[原话是|TA的说法是]{quote}。",
    "[事情大概是这样|目前知道的是|听下来]：{fact}。",
    "[表面上|听上去]在说{quote}，[底下|其实]是{problem}。",
    "{quote}，[我记住了这句|这句最要紧|先把这句放在心上]。",
    "{fact}，{fact2}，[两件事连在一起|放在一起看才明白]。",
    "[不是一时的情绪|不只是抱怨]：{fact}。",
)

MOMENT: dict[str, tuple[str, ...]] = {
    "any": (
        "[刚才|最后|这会儿][TA说的是|TA留下一句]{last}。",
        "[还不知道的是|没说出来的是|TA没提的是][谁在身边|这样多久了|自己试过什么|想从这里得到什么]。",
        "{last}[，话停在这里|，TA说到这儿]。",
    ),
    "short": ("[回得很短|只有几个字|话不多]：{last}。",),
    "long": ("[一口气说了很多|这次说得长]，[像憋了很久|里头有{last}]。",),
    "asks": ("TA[反过来问我|在问]：{last}。",),
    "first": ("[才刚开口|说得还不多|聊了没几句]，[先别下结论|还看不清]。",),
    "answered": ("[问了一句|刚问过]，TA[答的是|回了]{last}。",),
}

STANDING: dict[str, tuple[str, ...]] = {
    "exploration": (
        "[现在还在|目前还是][摸情况|听TA讲|弄明白是怎么回事]的时候。",
        "[知道的太少|事情还没说全]，[先了解|先听|不急着安慰也不急着出主意]。",
        "[后面还有话|故事只讲了一半]，[得先问清楚|等TA说下去]。",
    ),
    "comforting": (
        "[事情大致说清了|该说的说出来了]，[现在要有人陪着|现在最要紧的是这份难受]。",
        "[不是出主意的时候|办法可以晚一点]，[先接住TA|先让TA觉得有人懂]。",
        "[聊到疼的地方了|到了心里最软的那块]，[在这里待一会儿|得稳稳托住]。",
    ),
    "action": (
        "[该听的听了|情绪也顺了些]，[可以想想下一步|能聊聊怎么办了]。",
        "[TA已经在往前看|TA开始问怎么办]，[到了能做点什么的时候|接下来就是具体的事]。",
        "[原因清楚了|来龙去脉都有了]，[缺的是一个抓手|剩下的是怎么走]。",
    ),
}

GIVEAWAYS: dict[str, str] = {
    "fear": "怕|担心|焦虑|慌|紧张|不安",
    "sadness": "难过|哭|累|孤单|想他|想她|没意思|疼|空",
    "anger": "气|烦|恨|凭什么|讨厌|不公平",
    "shame": "丢人|没用|对不起|怪我|羞|后悔",
    "joy": "开心|谢谢|好多了|放心|高兴",
    "open": "不知道|奇怪|随便",
}

SIGNS: dict[str, tuple[str, ...]] = {
    "any": (
        "{quote}[，不是随口说的|，这话不轻|，听得出来]。",
        "[语气藏在|看得出来的是|露出来的地方是]{quote}。",
        "[TA没有说自己怎么了|嘴上没提感受]，[可是|但]{quote}[替TA说了|已经是了]。",
        "[能说出|会讲]{quote}的人，[心里不会平静|已经撑了一阵子了]。",
        "{quote}，还有{quote2}，[是同一种味道|说的是一回事]。",
    ),
    "word": ("TA[用的词是|自己说的是]{word}，[我信|不是我加的]。",),
    "loud": ("[感叹号不是白打的|用力全在标点上]：{quote}。",),
    "short": ("[字这么少|惜字如金]，[本身就是话|反而要小心]。",),
}

READING = (
    "[我听到的是|这是|读下来是|我觉得是]{name}[，不是{other}|，比{other}多|]。",
    "[底下|最深处|骨子里][是|藏着]{name}。",
    "[像{other}，其实是|乍看是{other}，细看是|不太像{other}，更像]{name}。",
    "[如果只能选一个词|要我说]，{name}。",
    "[是{other}吗？不像|{other}？不至于]。[更多是|主要是]{name}。",
)

DEGREE: dict[int, tuple[str, ...]] = {
    1: ("[几乎看不出来|只剩一点影子|淡得很]。",),
    2: ("[不重|轻轻的|有一点，压得住][，两分左右|]。",),
    3: ("[看得出来，但还稳得住|中等|不轻也不算重][，三分|]。",),
    4: ("[很强|压得TA喘不过来|重，四分|放不下也躲不开]。",),
    5: ("[快要淹没TA了|到顶了|满得什么都装不下]。",),
}

NEED: dict[str, tuple[str, ...]] = {
    "any": (
        "{last}，[这句要接住|该怎么接|得好好回]。",
        "[要回应的是|摆在面前的是|我从这里接]{last}。",
        "[听完|读完]{last}，[先缓一缓再说|想想TA要的是什么]。",
        "[要是朋友对我说|换了坐在对面]{last}，[我会怎么做|什么话有用]？",
    ),
    "short": ("[TA说得少|只有一句]，[我也别长篇大论|回得轻一点]。",),
    "asks": ("[TA在问我|人家问了]：{last}，[不能躲|得给个回音]。",),
    "refuses": ("TA[没接这个话|在往回推]：{last}。",),
}

PLAN: dict[str, tuple[str, ...]] = {
    "question": ("[问一句|想再问一点|先问]，[只问一个|问完就等|让TA自己讲]。", "[缺的那块只有TA知道|还有没明白的地方]，[所以问|开口问问]。"),
    "restatement or paraphrasing": ("[把话说回去|用自己的话复述一遍]，[看看听对了没有|让TA听见自己]。", "[先确认我听懂了|替TA把话理一理]，[简短说一遍|抓住重点说]。"),
    "reflection of feelings": ("[把那份感受说出来|替TA把心情讲出来]，[当作猜测|说轻一点]。", "[TA的感觉该被看见|先认出这份心情]，[所以点出来|不急着讲道理]。"),
    "self-disclosure": ("[说一点自己的经历|讲讲我也有过的时候]，[短短的|说完把话还给TA]。", "[让TA知道不是只有TA这样|给个伴]，[拿自己的一件小事来说|说一句就好]。"),
    "affirmation and reassurance": ("[肯定TA做到的|把TA的好处说出来]，[实在地|不夸大]。", "[TA在怀疑自己|TA缺一点底气]，[给一句踏实的鼓励|告诉TA没有错]。"),
    "providing suggestions": ("[给一个小建议|出一个能试的主意]，[TA可以不要|小到今天就能做]。", "[可以做点什么|该有个抓手了]，[提一个办法，商量着来|说一步就好]。"),
    "information": ("[讲一点TA可能不知道的|说说一般是怎么回事]，[讲清楚就好|不说教]。", "[有个信息用得上|知道得多一点心里有数]，[告诉TA|简单说明]。"),
    "others": ("[平平常常回一句|不用技巧]，[像人和人聊天|自然就好]。", "[就是寻常的来往|这里只要人情味]，[打个招呼、道声谢|轻松接话]。"),
}

AGAINST: dict[str, tuple[str, ...]] = {
    "question": ("[再问|接着问]就像[审问|填表]了。",),
    "restatement or paraphrasing": ("[光重复|复述一遍][显得空|没什么用]。",),
    "reflection of feelings": ("[一直说感受|点破情绪][反而让TA陷进去|太近了]。",),
    "self-disclosure": ("[讲我自己|说我的事][会抢了TA的位置|就跑题了]。",),
    "affirmation and reassurance": ("[夸两句|说会好的][太轻飘|TA听不进去]。",),
    "providing suggestions": ("[出主意|给办法][太早|像在说TA做得不对]。",),
    "information": ("[讲道理|摆事实][太冷|碰不到TA]。",),
    "others": ("[随便应一句|客气一下][不够|就放过去了]。",),
}
