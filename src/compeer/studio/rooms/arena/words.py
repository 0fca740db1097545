"""Words of the arena in both languages. What labelling says in the same way is in `workplace`."""

from __future__ import annotations

from compeer.studio.words import Text

WORDS = {
    "arena.name": Text("Arena", "竞技场"),
    "arena.about": Text(
        "People compare two replies to the same conversation without knowing who wrote them.",
        "在不知道是谁写的情况下，由人来比较同一段对话的两句回复。",
    ),
    "arena.off": Text(
        "Start the studio with --db and a file or a database, and comparing opens here.",
        "启动工作室时用 --db 指定一个文件或数据库，这里就会开放比较。",
    ),
    "arena.welcome.title": Text("Welcome, {name}", "{name}，欢迎你"),
    "arena.welcome.what": Text(
        "You will read a conversation in which somebody looks for support, and two replies to it. You say which helps "
        "more. Who wrote them is not told, and the sides change at random.",
        "你会读到一段求助对话和两句回复，请选出哪一句更有帮助。回复是谁写的不会告诉你，左右位置也是随机的。",
    ),
    "arena.bar.number": Text("Comparison {number}", "第 {number} 次比较"),
    "arena.bar.left": Text("{left} of {comparisons} still open", "共 {comparisons} 次，还剩 {left} 次"),
    "arena.ask": Text("Which reply helps more?", "哪句回复更有帮助？"),
    "arena.thoughts": Text("How it was thought through", "它是怎么想的"),
    "arena.missing": Text("Choose one of the four first.", "请先在四个选项里选一个。"),
    "arena.counts": Text(
        "You have compared {done}, today {today}. Put away: {skipped}.",
        "你已比较 {done} 次，今天 {today} 次；跳过 {skipped} 次。",
    ),
    "arena.idle.title": Text("That was all for you. Thank you", "你的部分完成了，谢谢你"),
    "arena.idle.what": Text(
        "{left} comparisons are still with others. When the last one is in, the result appears on this page.",
        "还有 {left} 次比较在别人手里。全部交齐之后，结果会显示在这一页。",
    ),
    "arena.over.title": Text("The result. Thank you", "结果出来了，谢谢你"),
    "arena.over.what": Text(
        "This is what everybody's comparisons came to. Your votes can no longer be changed.",
        "这是所有人比较的结果。你的投票不能再改了。",
    ),
    "arena.onward": Text("Go on comparing", "继续比较"),
    "arena.list.title": Text("Arenas", "竞技场"),
    "arena.list.none": Text("There is no arena yet", "还没有竞技场"),
    "arena.list.none.next": Text(
        "Make one from cases and the replies of at least two models, then invite people.",
        "先用案例和至少两个模型的回复建一个，再邀请大家来比较。",
    ),
    "arena.list.done": Text("{done} of {total} comparisons", "{total} 次比较中已完成 {done} 次"),
    "arena.list.new": Text("New arena", "新建竞技场"),
    "arena.list.all": Text("All arenas", "全部竞技场"),
    "arena.new.title": Text("A new arena", "新建竞技场"),
    "arena.new.cases": Text("Upload cases", "上传案例"),
    "arena.new.replies": Text("Upload replies, one file a model", "上传回复，每个模型一个文件"),
    "arena.new.hint": Text(
        "JSON lines, as compeer arena generate and import write them; up to 16 MB together",
        "JSON lines 格式，由 compeer arena generate 或 import 生成；合计不超过 16 MB",
    ),
    "arena.new.cases_path": Text("Or name files on this machine: the cases", "或填写本机上的文件：案例"),
    "arena.new.replies_path": Text("and the replies, a file or a folder a line", "以及回复，每行一个文件或文件夹"),
    "arena.new.votes": Text("People for each comparison", "每次比较由几人判断"),
    "arena.new.focus": Text("Compare only with this model (empty: all pairs)", "只与这个模型比较（留空则两两比较）"),
    "arena.new.show": Text("Show people how the models thought, too", "同时展示模型的思考过程"),
    "arena.new.do": Text("Make the arena", "建立竞技场"),
    "arena.new.wrong": Text("The arena was not made", "竞技场没有建成"),
    "arena.new.no_replies": Text("The replies of the models are missing.", "缺少模型的回复。"),
    "arena.one.comparisons": Text("comparisons", "次比较"),
    "arena.one.done": Text("done", "已完成"),
    "arena.one.held": Text("being read", "正在比较"),
    "arena.one.models": Text("models", "个模型"),
    "arena.one.cases": Text("cases", "个案例"),
    "arena.one.close": Text("Close the arena", "结束竞技场"),
    "arena.one.reopen": Text("Open it again", "重新开放"),
    "arena.one.close.what": Text(
        "Closing ends the comparing and shows everybody in it the result. Votes stay; you can open it again.",
        "结束后不再发放比较，所有参与者会看到结果。投票都会保留，之后也可以重新开放。",
    ),
    "arena.one.nobody": Text("Nobody is in this arena yet.", "还没有人参与。"),
    "arena.one.lean": Text("Side lean", "左右偏差"),
    "arena.one.lean.what": Text(
        "Side lean: the most that one model stood on one side of a person more often than on the other.",
        "左右偏差：某个模型在这个人面前出现在一侧比另一侧多出的次数，取最大的。",
    ),
    "arena.one.files": Text("Take it out", "导出"),
    "arena.one.votes_file": Text("Votes", "投票"),
    "arena.one.votes_anonymous": Text("Votes without names", "不带姓名的投票"),
    "arena.one.results_file": Text("Results as JSON", "JSON 格式的结果"),
    "arena.one.svg": Text("Figure (SVG)", "图（SVG）"),
    "arena.one.png": Text("Figure (PNG)", "图（PNG）"),
    "arena.links.back": Text("I have them. Back to the arena", "已保存，回到竞技场"),
    "arena.results.title": Text("Results", "结果"),
    "arena.results.none": Text("There are no votes yet.", "还没有投票。"),
    "arena.results.what": Text(
        "{votes} votes on {cases} cases by {people} people. Brackets and marks: 95 % intervals, by drawing cases "
        "again.",
        "{people} 人对 {cases} 个案例投了 {votes} 票。括号和短线是 95% 区间，由重新抽取案例得到。",
    ),
    "arena.results.bar": Text(
        "{one} against {two}, {votes} votes: {one} better {won} percent, both good {both} percent, neither {neither} "
        "percent, {two} better {lost} percent",
        "{one} 对 {two}，{votes} 票：{one} 更好 {won}%，差不多好 {both}%，都不可取 {neither}%，{two} 更好 {lost}%",
    ),
    "arena.results.one": Text("left model better", "左边的模型更好"),
    "arena.results.both": Text("both good", "差不多好"),
    "arena.results.neither": Text("neither", "都不可取"),
    "arena.results.two": Text("right model better", "右边的模型更好"),
    "arena.results.span": Text("{low} to {high}", "{low} 至 {high}"),
    "arena.results.ranking": Text("Ranking", "排名"),
    "arena.results.ranking.what": Text(
        "Bradley-Terry points: 400 more means ten times the odds of being preferred. A tie counts half for each side.",
        "Bradley-Terry 分数：高 400 分表示被选中的几率是对方的十倍。打平时双方各计一半。",
    ),
    "arena.results.rank": Text("Rank", "名次"),
    "arena.results.model": Text("Model", "模型"),
    "arena.results.points": Text("Points", "分数"),
    "arena.results.may": Text("Could be rank", "可能的名次"),
    "arena.results.votes": Text("Votes", "票数"),
    "arena.results.sides": Text("Sides", "左右位置"),
    "arena.results.sides.what": Text(
        "How often the first model of each pair stood on the left and on the right. Of the votes for one side, {left} "
        "% were for the left.",
        "每一对里，前一个模型出现在左边和右边的次数。在选了某一边的票里，{left}% 选了左边。",
    ),
    "arena.results.pair": Text("Pair", "组合"),
    "arena.results.left": Text("Left", "左"),
    "arena.results.right": Text("Right", "右"),
}
