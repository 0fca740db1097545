"""Words of the annotator's pages that are about labelling."""

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
    "label.mine.link": Text("Look at what I handed in", "看看我交过的"),
    "label.counts": Text(
        "Handed in: {done}, today {today}. Put away: {skipped}.", "已交 {done} 条，今天 {today} 条；跳过 {skipped} 条。"
    ),
    "label.keys.step": Text("True or False on the marked step", "给当前这一步选“正确”或“错误”"),
    "label.keys.move": Text("move between questions", "在题目之间移动"),
    "label.bar.item": Text("Item {number} of {items}", "第 {number} 条，共 {items} 条"),
    "label.bar.hidden": Text("agreement hidden until the end", "一致率结束后才显示"),
    "label.bar.again": Text(
        "You handed this in. You can change it until the item closes.", "这一条你已交过；结束之前都可以改。"
    ),
    "label.questions": Text("Questions", "题目"),
    "label.asked.history": Text("Is this what the person faces?", "这是这个人面对的处境吗？"),
    "label.asked.emotion": Text("Is this what they feel?", "这是他们的感受吗？"),
    "label.asked.strategy": Text("Would this help now?", "此刻这样做有帮助吗？"),
    "label.asked.preference": Text("Which reply helps more?", "哪句回复更有帮助？"),
    "label.others": Text("The other steps, to read; they are not asked here", "其他步骤，供参考，这里不用判断"),
    "label.note.hint": Text("Optional: what made it hard, or what is odd", "选填：难判断的地方，或不对劲的地方"),
    "label.hand_in.again": Text("Hand in the change", "交上修改"),
    "label.state.saved": Text("saved", "已保存"),
    "label.state.unsaved": Text(
        "Not saved: the studio does not answer. Your answers stay here; it is tried again.",
        "没能保存：工作室没有回应。答案还在页面上，会自动重试。",
    ),
    "label.state.missing": Text("Not answered yet: {names}", "还没回答：{names}"),
    "label.idle.title": Text("Nothing for you just now", "现在没有要标注的"),
    "label.idle.what": Text(
        "What is left waits for other people, or is being worked on. Look in again later.",
        "剩下的要由别人来做，或者正有人在做。晚些再来看看。",
    ),
    "label.idle.finished": Text("All done. Thank you", "全部完成，谢谢你"),
    "label.idle.agreed": Text(
        "So often the two first answers were the same, over everybody:", "所有人的两个初次答案相同的比例："
    ),
    "label.mine.title": Text("What you handed in", "你交过的"),
    "label.mine.what": Text(
        "The newest first. Open one to read it again; you can change it until the item closes.",
        "最新的排在最前。点开可以重读；结束之前都可以改。",
    ),
    "label.mine.none": Text("Nothing yet.", "还没有。"),
    "label.onward": Text("Go on labelling", "继续标注"),
}
