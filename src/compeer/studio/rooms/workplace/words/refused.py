"""Words for what the store refuses: what happened, what is safe, what to do."""

from __future__ import annotations

from compeer.studio.words import Text

_SAFE = Text("Everything that you handed in is kept.", "你交过的都还在。")
_NEXT = Text("Go on with the next item.", "请继续下一条。")

REFUSED = {
    "workplace.refused.token.title": Text("Your access has ended", "你的访问已结束"),
    "workplace.refused.token.what": Text(
        "Your link was replaced or taken back while you were here.", "在你使用期间，你的链接被更换或收回了。"
    ),
    "workplace.refused.token.safe": _SAFE,
    "workplace.refused.token.next": Text("Ask your coordinator for a new link.", "请向负责人要一个新链接。"),
    "workplace.refused.role.title": Text("This is for the coordinator", "这是负责人的页面"),
    "workplace.refused.role.what": Text("You label here; others watch over it.", "你在这里做标注，管理由别人负责。"),
    "workplace.refused.role.safe": _SAFE,
    "workplace.refused.role.next": _NEXT,
    "workplace.refused.paused.title": Text("Your work is paused", "你的工作已暂停"),
    "workplace.refused.paused.what": Text(
        "Your coordinator has paused it, so this was not handed in.", "负责人暂停了你的工作，所以这一条没有交上去。"
    ),
    "workplace.refused.paused.safe": Text(
        "What you handed in before is kept, and so is the draft of this one.", "之前交的都在，这一条的草稿也在。"
    ),
    "workplace.refused.paused.next": Text(
        "Ask your coordinator, or come back later.", "可以问问负责人，或者晚些再来。"
    ),
    "workplace.refused.not-yours.title": Text("This one is not yours", "这一条不是给你的"),
    "workplace.refused.not-yours.what": Text(
        "It was never given to you, or you have put it away. Nobody sees the work of others here.",
        "它没有分给你，或者你已经跳过了它。在这里谁也看不到别人的工作。",
    ),
    "workplace.refused.not-yours.safe": Text("Nothing has been changed.", "什么都没有改动。"),
    "workplace.refused.not-yours.next": _NEXT,
    "workplace.refused.lapsed.title": Text("Somebody else has this one now", "这一条已经给了别人"),
    "workplace.refused.lapsed.what": Text(
        "You were away for a while, so it went back and another person took it.",
        "你离开了一段时间，它退了回去，被另一个人领走了。",
    ),
    "workplace.refused.lapsed.safe": Text(
        "What you handed in before is kept. Only this one was not counted.", "之前交的都在，只有这一条没有计入。"
    ),
    "workplace.refused.lapsed.next": _NEXT,
    "workplace.refused.closed.title": Text("This can no longer be changed", "这一条不能再改了"),
    "workplace.refused.closed.what": Text(
        "The item is closed, was put away, or somebody has been given it after you.",
        "它已经结束，或者你跳过了它，或者已经交给了下一个人。",
    ),
    "workplace.refused.closed.safe": Text("Your answers stand as you handed them in.", "你交上去的答案原样保留。"),
    "workplace.refused.closed.next": _NEXT,
    "workplace.refused.form.title": Text("This was sent before", "这个已经交过了"),
    "workplace.refused.form.what": Text(
        "The same page was sent twice; the first time counted.", "同一页交了两次，以第一次为准。"
    ),
    "workplace.refused.form.safe": Text("Nothing has been changed this time.", "这一次没有改动任何内容。"),
    "workplace.refused.form.next": _NEXT,
    "workplace.refused.path.title": Text("There is no such picture", "没有这张图片"),
    "workplace.refused.path.what": Text(
        "The item has fewer pictures, or its picture does not lie where pictures may lie.",
        "这一条没有这么多图片，或者图片不在允许的位置。",
    ),
    "workplace.refused.path.safe": Text("Nothing has been changed.", "什么都没有改动。"),
    "workplace.refused.path.next": _NEXT,
}
