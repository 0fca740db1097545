"""The guideline, version 1: what makes each question True or False, with one right and one wrong example.

All examples are about one message, so that they can be compared: "My sister got the job I applied for. I said
congratulations and then sat in the car for an hour."
"""

from __future__ import annotations

from compeer.studio.words import Text

GUIDE = {
    "label.guide.title": Text("Guideline", "标注指南"),
    "label.guide.message": Text(
        "The examples are about this message: “My sister got the job I applied for. I said congratulations and then "
        "sat in the car for an hour.”",
        "下面的例子都针对这句话：“我投的那个职位，最后录用了我妹妹。我跟她说了恭喜，然后在车里坐了一个小时。”",
    ),
    "label.guide.right": Text("True, for example", "正确，例如"),
    "label.guide.wrong": Text("False, for example", "错误，例如"),
    "label.guide.better": Text("A good judgement", "这样判断是对的"),
    "label.guide.worse": Text("A poor judgement", "这样判断不对"),
    "label.guide.why": Text("Why:", "理由："),
    "label.guide.history.rule": Text(
        "True when the text says what this person really faces and where the talk stands, adds nothing that was not "
        "said, and the stage fits: exploration (finding out), comforting (the feeling needs company), action (ready "
        "for steps). One invented fact, the main thing missed, or the wrong stage: False.",
        "文字说出了这个人真正面对的事和对话走到了哪里，没有添加对话里没有的内容，阶段也对，就选“正确”。阶段有三种："
        "探索（还在了解）、安慰（情绪需要陪伴）、行动（可以谈下一步）。凭空添了事实、漏了关键、阶段不对，都选“错误”。",
    ),
    "label.guide.history.right": Text(
        "“She lost a job she wanted to her own sister and has told nobody how that was. We have only begun. "
        "Stage: exploration”",
        "“她想要的工作给了自己的妹妹，心里什么滋味还没跟人说过。对话刚刚开始。阶段：探索”",
    ),
    "label.guide.history.wrong": Text(
        "“She is unemployed and needs help with applications. Stage: action”",
        "“她失业了，需要有人帮她找工作。阶段：行动”",
    ),
    "label.guide.history.why": Text(
        "nothing says that she is unemployed, and nobody has asked yet what hurts.",
        "没有任何一句说她失业，也还没有人问过她难过的是什么。",
    ),
    "label.guide.emotion.rule": Text(
        "True when the feeling, its sign and its strength fit what the words, and pictures if there are any, let you "
        "see. Accept a neighbouring word for the feeling, and a strength that is one off. Do not accept a feeling for "
        "which there is no sign.",
        "情绪、倾向和强度都与文字（有图时也看图）流露出来的相符，就选“正确”。用了相近的情绪词，或者强度差一级，可以接受；"
        "看不出任何迹象的情绪，不能接受。",
    ),
    "label.guide.emotion.right": Text(
        "“An hour alone in the car: she is hurt, and ashamed of not being glad. Sentiment: negative. Emotion: "
        "disappointment. Intensity: 4”",
        "“一个人在车里坐了一小时：她很受伤，又为自己高兴不起来而羞愧。情感倾向：消极，情绪：失望，强度：4”",
    ),
    "label.guide.emotion.wrong": Text(
        "“She is proud of her sister. Sentiment: positive. Emotion: pride. Intensity: 2”",
        "“她为妹妹感到骄傲。情感倾向：积极，情绪：自豪，强度：2”",
    ),
    "label.guide.emotion.why": Text(
        "the congratulations were for her sister; the hour in the car tells how she is.",
        "恭喜是说给妹妹听的，车里的那一个小时才是她自己的心情。",
    ),
    "label.guide.strategy.rule": Text(
        "True when this way of answering would help this person now, and the reason given for it holds. A good idea at "
        "the wrong time is False. More than one strategy can be right: judge this one, not the one that you would have "
        "chosen.",
        "这种回应方式对这个人此刻有帮助，给出的理由也站得住，就选“正确”。主意再好，时机不对也选“错误”。"
        "合适的策略可能不止一种：只看这一种行不行，不看它是不是你会选的那种。",
    ),
    "label.guide.strategy.right": Text(
        "“She skipped over that hour. Ask about it before anything else. Strategy: question”",
        "“那一个小时她一句带过。先问问那时的她，再说别的。策略：提问”",
    ),
    "label.guide.strategy.wrong": Text(
        "“Give her a list of other openings so that she looks ahead. Strategy: providing suggestions”",
        "“给她列几个别的职位，让她往前看。策略：提供建议”",
    ),
    "label.guide.strategy.why": Text(
        "too early: the feeling has not been heard yet.", "太早了：她的感受还没有被听见。"
    ),
    "label.guide.preference.rule": Text(
        "Which reply would do this person more good at this moment? Look at the replies alone, not at the thinking or "
        "the length. Both: you would be glad to get either. Neither: both hurt, brush aside or miss the point; merely "
        "plain is not enough for that.",
        "此时此刻，哪句回复对这个人更好？只看回复本身，不看前面的思考，也不看长短。“差不多好”：收到哪句都不错。"
        "“都不可取”：两句都伤人、敷衍或答非所问；只是平淡，还不算。",
    ),
    "label.guide.preference.right": Text(
        "A: “What went through you in that hour?” B: “There will be other jobs!” You choose A.",
        "A：“那一个小时里，你心里都想了些什么？”B：“以后还会有别的机会的！”你选了 A。",
    ),
    "label.guide.preference.wrong": Text(
        "You choose B, since it is cheerful and would take less time to answer.", "你选了 B，因为它听起来乐观，也省事。"
    ),
    "label.guide.preference.why": Text(
        "cheer that skips the feeling leaves her alone with it.", "绕开感受的安慰，等于把她一个人留在那里。"
    ),
}
