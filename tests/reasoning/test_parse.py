"""What is complete and what is not, and which problems are named: each row with a word on why."""

import html

import pytest

from compeer.reasoning import fields, parse

H = "She lost her job and has told nobody.\nStage: exploration"
E = "She is ashamed and afraid of being judged.\nSentiment: negative\nEmotion: shame\nIntensity: 4"
S = "Ask gently before anything else.\nStrategy: question"
R = "That sounds hard. What happened?"
HISTORY, EMOTION, STRATEGY = f"<history>{H}</history>", f"<emotion>{E}</emotion>", f"<strategy>{S}</strategy>"


def en(history: str = H, emotion: str = E, strategy: str = S, reply: str = R) -> str:
    """An English output; complete when nothing is changed."""
    return (
        f"<think>\n<history>\n{history}\n</history>\n<emotion>\n{emotion}\n</emotion>\n"
        f"<strategy>\n{strategy}\n</strategy>\n</think>\n{reply}"
    )


def zh(
    history: str = "她丢了工作，谁也没告诉。\n阶段：探索",
    emotion: str = "她觉得丢脸，怕被人看不起。\n情感倾向：消极\n情绪：羞耻\n强度：4",
    strategy: str = "先温和地问一问。\n策略：提问",
    reply: str = "听起来很难。发生了什么？",
) -> str:
    """A Chinese output; complete when nothing is changed."""
    return en(history, emotion, strategy, reply)


def labels(sentiment: str = "negative", emotion: str = "shame", intensity: str = "4") -> str:
    """An English output with these words on the lines of the emotion step."""
    return en(emotion=f"She is ashamed.\nSentiment: {sentiment}\nEmotion: {emotion}\nIntensity: {intensity}")


THREE_MISSING = "missing-step missing-step missing-step"

COMPLETE = [
    ("English", en()),
    ("Chinese", zh()),
    ("upper-case tags", en().replace("think>", "THINK>").replace("<history>", "<History>")),
    ("upper-case keys and values", en(history="She lost her job.\nSTAGE: EXPLORATION")),
    ("spaces inside tags", en().replace("<think>", "< think >").replace("</think>", "< / think\t>")),
    ("white space around the whole", " \n\n" + en() + "\n \n"),
    ("no line breaks around the tags", en().replace(">\n", ">").replace("\n<", "<")),
    ("Windows line ends", en().replace("\n", "\r\n")),
    ("blank lines between the labelled lines", en(emotion=E.replace("\n", "\n\n"))),
    ("indented labelled lines", en(history="She lost her job.\n \t Stage: exploration")),
    ("labelled lines indented the Chinese way", zh(history="她丢了工作。\n　　阶段：探索")),
    ("no-break space before the value", en(history="She lost her job.\nStage:\xa0exploration")),
    ("space before the colon", en(history="She lost her job.\nStage : exploration")),
    ("no space after the colon", en(history="She lost her job.\nStage:exploration")),
    ("spaces inside a name", en(strategy="Mirror it.\nStrategy: reflection  of   feelings ")),
    ("full-width colon in English", en(history="She lost her job.\nStage：exploration")),
    ("ASCII colon in Chinese", zh(history="她丢了工作。\n阶段: 探索")),
    ("several paragraphs in a step", en(history="She lost her job.\n\nShe told nobody.\n\nStage: exploration")),
    ("a colon inside the free text", en(history='She said: "I am lost".\nStage: exploration')),
    ("a key inside a sentence", en(history="At this stage: nothing is decided.\nStage: exploration")),
    ("a word that begins like a key", en(history="Stage fright: that is all.\nStage: exploration")),
    ("the key of another step is prose here", en(history="Emotion: too early to say.\nStage: exploration")),
    ("markdown in the free text", en(history="- **lost** her job\n- _told_ nobody\nStage: exploration")),
    ("foreign markup in the free text", en(history="Her <b>job</b> is gone.\nStage: exploration")),
    ("a heart in the free text", en(history="She signs with <3.\nStage: exploration")),
    ("a heart in the reply", en(reply="I am with you <3")),
    ("less-than and greater-than in the reply", en(reply="1 < 2 and 3 > 2, as you said.")),
    ("escaped tags in the reply", en(reply="They wrote &lt;think&gt; there.")),
    ("a reply of several paragraphs", en(reply="That sounds hard.\n\nWhat happened?")),
    ("a labelled line in the reply is only words", en(reply="Stage: action, you said?")),
    ("reply on the line of the closing tag", en().replace("</think>\n", "</think> ")),
    ("a reply of one character", zh(reply="嗯")),
    ("a reply of one digit", en(reply="2?")),
    ("Chinese prose, English labels: the labels decide", en(history="她丢了工作。\nStage: exploration")),
]

INCOMPLETE = [
    # nothing there
    ("nothing at all", "", f"no-think {THREE_MISSING} empty-reply"),
    ("white space only", " \n\t ", f"no-think {THREE_MISSING} empty-reply"),
    ("a plain reply", "What happened?", f"no-think {THREE_MISSING}"),
    ("an empty think block", "<think></think>a", THREE_MISSING),
    ("an empty think block and nothing else", "<think></think>", f"{THREE_MISSING} empty-reply"),
    ("prose in the think block", "<think>She is sad. I ask.</think>What happened?", THREE_MISSING),
    ("escaped tags are not tags", html.escape(en()), f"no-think {THREE_MISSING}"),
    ("full-width brackets are not tags", "＜think＞＜/think＞好。", f"no-think {THREE_MISSING}"),
    # the think block
    ("<think> missing", en().replace("<think>\n", ""), "no-think"),
    ("</think> missing", en().replace("</think>\n", ""), "unclosed-think"),
    ("<think> never closed, cut in step 2", en().partition("Sentiment")[0],
     "unclosed-think unclosed-step missing-step empty-reply"),
    ("<think> twice", en().replace("<think>", "<think><think>"), "repeated-think"),
    ("<think> mentioned in a step", en(history="He wrote <think> here.\nStage: action"), "repeated-think"),
    ("</think> twice", en().replace("</think>", "</think></think>"), "tag-in-reply"),
    ("two whole outputs", en() + en(), "tag-in-reply"),
    ("a second, empty think block", en() + "<think></think>", "tag-in-reply"),
    ("a line break inside a tag", en().replace("<think>", "<think\n>"), "no-think"),
    ("too much space inside a tag", en().replace("<think>", "<think" + 5 * " " + ">"), "no-think"),
    ("the Kelvin sign is not a k", en().replace("<think>", "<thin\u212a>"), "no-think"),
    # text outside the steps
    ("text before", "Sure! " + en(), "stray-text"),
    ("a code fence around everything", f"```\n{en()}\n```", "stray-text"),
    ("text after <think>", en().replace("<think>", "<think>Well."), "stray-text"),
    ("text between steps 1 and 2", en().replace("</history>", "</history>and"), "stray-text"),
    ("text between steps 2 and 3", en().replace("</emotion>", "</emotion>."), "stray-text"),
    ("text after step 3", en().replace("</think>", "So.</think>"), "stray-text"),
    ("text in two gaps", en().replace("</history>", "</history>a").replace("</emotion>", "</emotion>b"),
     "stray-text stray-text"),
    # steps
    ("no history", en().replace(f"<history>\n{H}\n</history>\n", ""), "missing-step"),
    ("no emotion", en().replace(f"<emotion>\n{E}\n</emotion>\n", ""), "missing-step"),
    ("no strategy", zh().partition("<strategy>")[0] + "</think>你好", "missing-step"),
    ("history twice", en().replace("<emotion>", f"<history>{H}</history><emotion>"), "repeated-step"),
    ("an opening tag twice", en().replace("<history>", "<history><history>"), "repeated-step"),
    ("a closing tag twice", en().replace("</emotion>", "</emotion></emotion>"), "repeated-step"),
    ("a step never closed", en().replace("</history>", ""), "unclosed-step"),
    ("a step never opened", en().replace("<strategy>", ""), "unopened-step"),
    ("emotion before history", f"<think>{EMOTION}{HISTORY}{STRATEGY}</think>{R}", "order"),
    ("emotion inside history", f"<think><history>a{EMOTION}{H}</history>{STRATEGY}</think>{R}", "order"),
    ("history before <think>", f"{HISTORY}<think>{EMOTION}{STRATEGY}</think>{R}", "order"),
    ("closed before opened", en().replace("<emotion>", "</emotion >").replace("</emotion>", "<emotion>"), "order"),
    ("steps after </think>", f"<think></think>{HISTORY}a", f"{THREE_MISSING} tag-in-reply"),
    # free text
    ("an empty step", en(history=""), "empty-step missing-label"),
    ("an empty emotion step", en(emotion=""), "empty-step missing-label missing-label missing-label"),
    ("white space instead of free text", en(history=" \n\t\nStage: exploration"), "empty-step"),
    ("dots instead of free text", en(history="...\nStage: exploration"), "empty-step"),
    ("Chinese punctuation instead of free text", zh(strategy="……。\n策略：提问"), "empty-step"),
    ("an emoji instead of free text", en(strategy="😢\nStrategy: question"), "empty-step"),
    ("labels alone", en(emotion="Sentiment: negative\nEmotion: shame\nIntensity: 4"), "empty-step"),
    ("labels before the free text", en(history="Stage: exploration\nShe lost her job."), "empty-step misplaced-text"),
    ("text after the labels", en(history=H + "\nAnd so on."), "misplaced-text"),
    ("text between the labels", en(emotion=E.replace("\nEmotion", "\nthat is\nEmotion")), "misplaced-text"),
    ("another step's label after the labels", en(history=H + "\nEmotion: shame"), "misplaced-text"),
    # labelled lines
    ("no stage", en(history="She lost her job."), "missing-label"),
    ("no sentiment", en(emotion=E.replace("Sentiment: negative\n", "")), "missing-label"),
    ("no emotion label", en(emotion=E.replace("Emotion: shame\n", "")), "missing-label"),
    ("no intensity", en(emotion=E.replace("\nIntensity: 4", "")), "missing-label"),
    ("no strategy label", zh(strategy="先问。"), "missing-label"),
    ("the label inside a sentence", en(history="She lost her job. Stage: exploration"), "missing-label"),
    ("the label said in prose", en(history="She lost her job; this is the stage of exploration."), "missing-label"),
    ("a label in bold", en(history="She lost her job.\n**Stage:** exploration"), "missing-label"),
    ("a label as a list item", en(history="She lost her job.\n- Stage: exploration"), "missing-label"),
    ("a key without a colon", en(history="She lost her job.\nStage exploration"), "missing-label"),
    ("an equals sign for the colon", en(history="She lost her job.\nStage = exploration"), "missing-label"),
    ("too much space before the colon", en(history="She lost her job.\nStage     : exploration"), "missing-label"),
    ("an unknown key", en(history="She lost her job.\nPhase: exploration"), "missing-label"),
    ("old Macintosh line ends are no lines", en(history="She lost her job.\rStage: exploration"), "missing-label"),
    ("a long s is not an s", en(history="She lost her job.\n\u017ftage: exploration"), "missing-label"),
    ("a dotless i is not an i", en(emotion=E.replace("Intensity", "\u0131ntensity")), "missing-label misplaced-text"),
    ("nor is a dotted one", en(emotion=E.replace("Intensity", "\u0130ntensity")), "missing-label misplaced-text"),
    ("the same label twice", en(history=H + "\nStage: exploration"), "repeated-label"),
    ("two values for a label", en(history=H + "\nStage: action"), "repeated-label"),
    ("a label twice, once invalid", en(history=H + "\nStage: none"), "repeated-label"),
    ("another order", en(emotion="Ashamed.\nEmotion: shame\nSentiment: negative\nIntensity: 4"), "label-order"),
    # values
    ("no stage named", en(history="She lost her job.\nStage:"), "invalid-label"),
    ("an unknown stage", en(history="She lost her job.\nStage: crisis"), "invalid-label"),
    ("a stage by its alias", en(history="She lost her job.\nStage: explore"), "invalid-label"),
    ("two stages on a line", en(history="She lost her job.\nStage: exploration, action"), "invalid-label"),
    ("a full stop after the value", en(history="She lost her job.\nStage: exploration."), "invalid-label"),
    ("a remark after the value", en(history="She lost her job.\nStage: exploration (early)"), "invalid-label"),
    ("the placeholder of the prompt", en(history="She lost her job.\nStage: one of the stages"), "invalid-label"),
    ("an unknown sentiment", labels(sentiment="bad"), "invalid-label"),
    ("a sentiment by its alias", labels(sentiment="ambiguous"), "invalid-label"),
    ("an unknown emotion", labels(emotion="weltschmerz"), "invalid-label"),
    ("an emotion by its alias", labels(emotion="sad"), "invalid-label"),
    ("two emotions", labels(emotion="shame and fear"), "invalid-label"),
    ("an unknown strategy", en(strategy="Ask.\nStrategy: hypnosis"), "invalid-label"),
    ("FailedESConv's name for a strategy", en(strategy="Ask.\nStrategy: Questions"), "invalid-label"),
    ("the paper's name for a strategy", en(strategy="Map.\nStrategy: emotional mapping"), "invalid-label"),
    ("a Chinese alias", zh(strategy="先问。\n策略：渐进式提问"), "invalid-label"),
    ("intensity 0", labels(intensity="0"), "invalid-label"),
    ("intensity 6", labels(intensity="6"), "invalid-label"),
    ("a negative intensity", labels(intensity="-4"), "invalid-label"),
    ("a signed intensity", labels(intensity="+4"), "invalid-label"),
    ("a leading zero", labels(intensity="04"), "invalid-label"),
    ("a fraction", labels(intensity="4.0"), "invalid-label"),
    ("a rating", labels(intensity="4/5"), "invalid-label"),
    ("a range", labels(intensity="3-4"), "invalid-label"),
    ("a number word", labels(intensity="four"), "invalid-label"),
    ("a full-width digit", labels(intensity="４"), "invalid-label"),
    ("an Arabic-Indic digit", labels(intensity="٤"), "invalid-label"),
    ("a superscript digit, which int() cannot read", labels(intensity="²"), "invalid-label"),
    ("a Chinese digit", zh(emotion="她很难过。\n情感倾向：消极\n情绪：羞耻\n强度：四"), "invalid-label"),
    ("three bad values", labels("bad", "sad", "9"), "invalid-label invalid-label invalid-label"),
    # languages
    ("a Chinese value under an English key", en(history="She lost her job.\nStage: 探索"), "invalid-label"),
    ("an English value under a Chinese key", zh(history="她丢了工作。\n阶段：exploration"), "invalid-label"),
    ("a Chinese step in English", en(history="She lost her job.\n阶段：探索"), "mixed-languages"),
    ("both keys in one step", en(history=H + "\n阶段：探索"), "repeated-label mixed-languages"),
    ("two languages in the emotion step", en(emotion=E.replace("Intensity:", "强度：")), "mixed-languages"),
    # the reply
    ("no reply", en(reply=""), "empty-reply"),
    ("white space for a reply", en(reply=" \n\u3000"), "empty-reply"),
    ("dots for a reply", en(reply="..."), "empty-reply"),
    ("a reasoning tag in the reply", en(reply="I see. <strategy>Ask.</strategy>"), "tag-in-reply"),
    ("a lone reasoning tag in the reply", en(reply="I see.</HISTORY>"), "tag-in-reply"),
    ("nothing but a tag in the reply", en(reply="<emotion>"), "tag-in-reply empty-reply"),
    ("HTML in the reply", en(reply="That is <b>hard</b>."), "tag-in-reply"),
    ("a self-closing tag in the reply", en(reply="That is hard.<br/>What happened?"), "tag-in-reply"),
    ("a closing tag in the reply", en(reply="That is hard.</div>"), "tag-in-reply"),
    ("a tag with attributes in the reply", en(reply="See <a href='x'>this."), "tag-in-reply"),
    ("a tag with long attributes in the reply", en(reply=f"See <img src='{300 * 'x'}'> this."), "tag-in-reply"),
    ("a made-up tag in the reply", en(reply="<answer>What happened?"), "tag-in-reply"),
    # several at once, each named
    ("bad in three places", "Hi " + en(history="Stage: action", reply="<i>Ok"), "stray-text empty-step tag-in-reply"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "text"), COMPLETE, ids=[row[0] for row in COMPLETE])
def test_complete(why: str, text: str) -> None:
    parsed = parse(text)
    assert parsed.problems == ()
    assert parsed.complete
    assert parsed.reasoning is not None
    assert parsed.response


@pytest.mark.parametrize(("why", "text", "codes"), INCOMPLETE, ids=[row[0] for row in INCOMPLETE])
def test_incomplete(why: str, text: str, codes: str) -> None:
    parsed = parse(text)
    assert [problem.code for problem in parsed.problems] == codes.split()
    assert not parsed.complete


@pytest.mark.parametrize("text", [en(), zh()], ids=["en", "zh"])
def test_labels_are_canonical_in_both_languages(text: str) -> None:
    parsed = parse(text)
    assert parsed.labels == {
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
        "strategy": "question",
    }


def test_language_is_that_of_the_labels() -> None:
    assert parse(en()).language == "en"
    assert parse(zh()).language == "zh"
    assert parse(en(history="x\n阶段：探索")).language is None
    assert parse("Hello.").language is None


def test_texts_and_reply_without_their_white_space(english: str) -> None:
    parsed = parse(english)
    assert parsed.texts["emotion"] == 'She is ashamed: she says "I let everyone down", twice.'
    assert parsed.texts["strategy"].count("\n") == 2, "paragraphs are kept"
    assert parsed.response == "That sounds like a heavy week to carry alone.\n\nWhat was Monday like?"


@pytest.mark.parametrize(
    ("why", "text", "response"),
    [
        ("no tags at all", "What happened?", "What happened?"),
        ("</think> alone", "</think>What happened?", "What happened?"),
        ("unclosed think: what follows the last step", en().replace("</think>\n", ""), R),
        ("unclosed think and no strategy: nothing", "<think>\n<history>\nShe", ""),
        ("tags are taken out", en(reply="A<history>B"), "A\nB"),
        ("taking a tag out makes no new one", en(reply="A <th<think>ink> B"), "A <th\nink> B"),
        ("nor with white space inside", en(reply="A <<think> think> B"), "A <\n think> B"),
    ],
)
def test_reply_of_a_broken_output(why: str, text: str, response: str) -> None:
    assert parse(text).response == response


def test_what_was_found_is_kept_when_a_step_is_broken() -> None:
    parsed = parse(en(strategy="Ask.\nStrategy: hypnosis"))
    assert parsed.reasoning is None
    assert parsed.labels["emotion"] == "shame"
    assert "strategy" not in parsed.labels
    assert parsed.texts["strategy"] == "Ask."


def test_the_first_of_two_values_is_kept() -> None:
    assert parse(en(history=H + "\nStage: action")).labels["stage"] == "exploration"


@pytest.mark.parametrize(
    ("text", "step", "said"),
    [
        (en(history=""), "history", "<history>"),
        (en(emotion=E.replace("\nIntensity: 4", "")), "emotion", "Intensity"),
        (en(strategy="Ask.\nStrategy: hypnosis"), "strategy", "'hypnosis'"),
        (en(strategy="Ask.\nStrategy:"), "strategy", "nothing"),
        (zh(strategy="先问。\n策略：催眠"), "strategy", "提问"),
        (en().replace("</emotion>", "</emotion>x"), None, "between </emotion> and <strategy>"),
        (en(reply="That is <b>hard</b>."), None, "<b>"),
    ],
)
def test_a_problem_says_what_and_where(text: str, step: str | None, said: str) -> None:
    problem = parse(text).problems[0]
    assert problem.step == step
    assert said in problem
    assert "\n" not in problem


def test_a_long_bad_value_makes_a_short_message() -> None:
    (problem,) = parse(en(history="x\nStage: " + 5000 * "y")).problems
    assert len(problem) < 200


def test_many_bad_lines_make_few_problems() -> None:
    parsed = parse(en(history="x\n" + 1000 * "Stage: y\n"))
    assert [problem.code for problem in parsed.problems] == ["invalid-label", "repeated-label"]


def test_fields_of_a_complete_output() -> None:
    assert fields(parse(en()), en()) == {
        "history": "She lost her job and has told nobody.",
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
        "strategy": "question",
        "reasoning": {
            "history": "She lost her job and has told nobody.",
            "emotion": "She is ashamed and afraid of being judged.",
            "strategy": "Ask gently before anything else.",
        },
        "response": R,
        "raw": en(),
        "complete": True,
        "problems": [],
    }


def test_fields_of_a_broken_output_have_the_same_keys() -> None:
    flat = fields(parse("Hello."), "Hello.")
    assert flat.keys() == fields(parse(en()), en()).keys()
    assert flat["response"] == "Hello."
    assert flat["stage"] is None
    assert flat["reasoning"] == {"history": None, "emotion": None, "strategy": None}
    assert not flat["complete"]
    assert all(type(problem) is str for problem in flat["problems"]), "plain strings, for json"
