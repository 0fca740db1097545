"""Words of the annotator's pages."""

from __future__ import annotations

from compeer.studio.words import Text

WORK = {
    "label.name": Text("Label", "标注"),
    "label.about": Text(
        "People judge how a model thought and which of two replies helps more: two independently, a third where they "
        "differ.",
        "由人来判断模型想得对不对、两句回复哪句更有帮助：两人各自独立判断，意见不同的地方由第三人决定。",
    ),
    "label.off": Text(
        "Start the studio with --db and a file or a database, and labelling opens here.",
        "启动工作室时用 --db 指定一个文件或数据库，这里就会开放标注。",
    ),
    "label.welcome.title": Text("Welcome to labelling, {name}", "{name}，欢迎来标注"),
    "label.welcome.what": Text(
        "You will read a moment of a conversation in which somebody looked for support, then how a model thought about "
        "it in three steps, then two replies. You say whether each step is true, and which reply helps more. Another "
        "person does the same without knowing what you said.",
        "你会读到一段求助对话、模型分三步的思考，以及两句回复。请判断每一步想得对不对、哪句回复更有帮助。"
        "另一个人也会做同样的判断，你们互相看不到对方的答案。",
    ),
    "label.warning.title": Text("Before you begin", "开始之前"),
    "label.warning.what": Text(
        "These conversations can be painful. People write about loss, fear, violence, illness and the wish to die.",
        "这些对话可能让人难受：里面会谈到失去、恐惧、暴力、疾病，也会谈到不想活的念头。",
    ),
    "label.warning.may": Text(
        "You may put away any of them at any time, with the button under it or the key D, without giving a reason. "
        "Nobody counts that against you. Take breaks; stop when it is enough.",
        "任何一条，随时可以用下面的按钮或按 D 放下，不需要理由，也不会影响你。累了就休息，够了就停。",
    ),
    "label.help.title": Text("If it gets heavy, talk to a person", "如果心里难受，请找人聊聊"),
    "label.help.us": Text("United States and Canada", "美国和加拿大"),
    "label.help.china": Text("China", "中国大陆"),
    "label.help.elsewhere": Text("Elsewhere", "其他地区"),
    "label.begin": Text("I have read this. Begin", "我看过了，开始"),
    "label.mine.link": Text("Look at what I handed in", "看看我交过的"),
    "label.counts": Text(
        "Handed in: {done}, today {today}. Put away: {skipped}.", "已交 {done} 条，今天 {today} 条；跳过 {skipped} 条。"
    ),
    "label.paused": Text(
        "Your coordinator has paused your work for now. Everything you handed in is kept.",
        "负责人暂时停下了你的工作。你交过的都还在。",
    ),
    "label.keys.title": Text("Everything by keyboard", "全部可以用键盘"),
    "label.keys.step": Text("True or False on the marked step", "给当前这一步选“正确”或“错误”"),
    "label.keys.pair": Text("A better, B better, both, neither", "A 更好、B 更好、差不多好、都不可取"),
    "label.keys.enter": Text("hand in (in the note: Ctrl and Enter)", "交上去（写备注时按 Ctrl 加 Enter）"),
    "label.keys.undo": Text("undo: the last answer, then the item before", "撤销：先撤上一个答案，再撤上一条"),
    "label.keys.skip": Text("skip, with a reason", "跳过，并说明理由"),
    "label.keys.distress": Text("this one distresses me", "这一条让我难受"),
    "label.keys.move": Text("move between questions", "在题目之间移动"),
    "label.keys.note": Text("write a note; Esc leaves it", "写备注，按 Esc 离开"),
    "label.keys.help": Text("show these keys", "显示这些按键"),
    "label.bar.item": Text("Item {number} of {items}", "第 {number} 条，共 {items} 条"),
    "label.bar.today": Text("yours today {today}", "今天已交 {today} 条"),
    "label.bar.hidden": Text("agreement hidden until the end", "一致率结束后才显示"),
    "label.bar.again": Text(
        "You handed this in. You can change it until the item closes.", "这一条你已交过；结束之前都可以改。"
    ),
    "label.bar.done": Text("handed in", "已交"),
    "label.conversation": Text("Conversation", "对话"),
    "label.speaker.seeker": Text("Seeker", "求助者"),
    "label.speaker.supporter": Text("Supporter", "支持者"),
    "label.picture": Text("Picture {number} of the conversation", "对话里的第 {number} 张图片"),
    "label.questions": Text("Questions", "题目"),
    "label.ask.history": Text("History", "处境"),
    "label.ask.emotion": Text("Emotion", "情绪"),
    "label.ask.strategy": Text("Strategy", "策略"),
    "label.ask.preference": Text("Replies", "回复"),
    "label.asked.history": Text("Is this what the person faces?", "这是这个人面对的处境吗？"),
    "label.asked.emotion": Text("Is this what they feel?", "这是他们的感受吗？"),
    "label.asked.strategy": Text("Would this help now?", "此刻这样做有帮助吗？"),
    "label.asked.preference": Text("Which reply helps more?", "哪句回复更有帮助？"),
    "label.answer.true": Text("True", "正确"),
    "label.answer.false": Text("False", "错误"),
    "label.answer.first": Text("A is better", "A 更好"),
    "label.answer.second": Text("B is better", "B 更好"),
    "label.answer.both": Text("Both about equally good", "差不多好"),
    "label.answer.neither": Text("Neither is acceptable", "都不可取"),
    "label.reply.a": Text("Reply A", "回复 A"),
    "label.reply.b": Text("Reply B", "回复 B"),
    "label.others": Text("The other steps, to read; they are not asked here", "其他步骤，供参考，这里不用判断"),
    "label.note": Text("Note", "备注"),
    "label.note.hint": Text("Optional: what made it hard, or what is odd", "选填：难判断的地方，或不对劲的地方"),
    "label.hand_in": Text("Hand in", "交上去"),
    "label.hand_in.again": Text("Hand in the change", "交上修改"),
    "label.undo": Text("Undo", "撤销"),
    "label.skip": Text("Skip", "跳过"),
    "label.distress": Text("This one distresses me", "这一条让我难受"),
    "label.help": Text("Keys", "按键"),
    "label.state.saved": Text("saved", "已保存"),
    "label.state.unsaved": Text(
        "Not saved: the studio does not answer. Your answers stay here; it is tried again.",
        "没能保存：工作室没有回应。答案还在页面上，会自动重试。",
    ),
    "label.state.lapsed": Text(
        "You were away for long. Handing in still works unless somebody took this over.",
        "你离开得有点久。只要还没被别人领走，仍然可以交。",
    ),
    "label.state.missing": Text("Not answered yet: {names}", "还没回答：{names}"),
    "label.state.away": Text(
        "Not handed in: the studio does not answer. Your answers stay here; press Enter again in a moment.",
        "没能交上去：工作室没有回应。答案还在页面上，过一会儿再按 Enter。",
    ),
    "label.state.nothing": Text("There is nothing to take back.", "没有可以撤销的。"),
    "label.close": Text("Close", "关闭"),
    "label.skip.title": Text("Skip this one", "跳过这一条"),
    "label.skip.what": Text(
        "It goes to somebody else and does not come back to you. Why do you skip it?",
        "它会交给别人，不会再出现在你这里。为什么跳过？",
    ),
    "label.skip.unclear": Text("I cannot make sense of it", "看不懂"),
    "label.skip.language": Text("I do not read this language well", "这种语言我读不好"),
    "label.skip.private": Text("It shows who somebody is", "里面有别人的隐私"),
    "label.skip.broken": Text("Something is missing or broken", "内容缺失或有错"),
    "label.skip.other": Text("Something else", "其他原因"),
    "label.skip.words": Text("A word on it, if you like", "想说的话，选填"),
    "label.skip.do": Text("Skip it", "跳过"),
    "label.stay": Text("Stay here", "留在这里"),
    "label.distress.title": Text("You need not read this one", "这一条可以不读"),
    "label.distress.what": Text(
        "Put it away: it goes to somebody else, no reason is asked, and it does not count against you.",
        "把它放下吧：它会交给别人，不问理由，也不会影响你。",
    ),
    "label.distress.do": Text("Put it away", "放下它"),
    "label.rest.title": Text("It is put away", "已经放下了"),
    "label.rest.what": Text(
        "It will not come back to you. Take the time you need: stand up, look out of the window, drink something. The "
        "work waits, and stopping for today is fine.",
        "它不会再出现。按自己的节奏来：站起来走走，看看窗外，喝口水。工作可以等，今天就到这里也没关系。",
    ),
    "label.rest.on": Text("Go on when you are ready", "准备好了再继续"),
    "label.idle.title": Text("Nothing for you just now", "现在没有要标注的"),
    "label.idle.what": Text(
        "What is left waits for other people, or is being worked on. Look in again later.",
        "剩下的要由别人来做，或者正有人在做。晚些再来看看。",
    ),
    "label.idle.paused": Text("Your work is paused", "你的工作已暂停"),
    "label.idle.finished": Text("All done. Thank you", "全部完成，谢谢你"),
    "label.idle.agreed": Text(
        "So often the two first answers were the same, over everybody:", "所有人的两个初次答案相同的比例："
    ),
    "label.idle.look": Text("Look again", "再看看"),
    "label.idle.undo": Text("Take back my last one", "撤回我交的最后一条"),
    "label.mine.title": Text("What you handed in", "你交过的"),
    "label.mine.what": Text(
        "The newest first. Open one to read it again; you can change it until the item closes.",
        "最新的排在最前。点开可以重读；结束之前都可以改。",
    ),
    "label.mine.none": Text("Nothing yet.", "还没有。"),
    "label.mine.back": Text("Go on labelling", "继续标注"),
}
