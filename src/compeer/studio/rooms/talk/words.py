"""Words of the room Talk."""

from __future__ import annotations

from compeer.studio.words import Text

WORDS = {
    "talk.name": Text("Talk", "聊聊"),
    "talk.about": Text(
        "Write about what weighs on you. It thinks before it answers, and you can look at how.",
        "把压在心里的事写下来。它会先想一想再回应，你可以看到它是怎么想的。",
    ),
    "talk.off": Text(
        "Start the studio with --model, and there is someone to talk with.",
        "启动工作室时用 --model 指定一个模型，就可以在这里聊天。",
    ),
    "talk.script": Text(
        "This page needs JavaScript: the answer is shown while it is being written.",
        "这个页面需要 JavaScript：回答会一边写一边显示出来。",
    ),
    # the first screen
    "talk.kept": Text(
        "Nothing is kept: what you write is in memory only, goes to the model that answers, and is gone when you "
        "delete it or after two silent hours.",
        "什么都不会留下：你写的话只在内存里，发给回答你的模型；你删除它，或两小时没有动静，它就消失了。",
    ),
    "talk.small": Text(
        "The model that comes along is tiny and untrained: it often makes no sense.",
        "自带的模型很小，也没有训练过：它常常答非所问。",
    ),
    "talk.help": Text("Whom to call", "可以打给谁"),
    "talk.help.hours": Text("({hours})", "（{hours}）"),
    "talk.help.also": Text("or {phone}", "或 {phone}"),
    "talk.help.text": Text("or text {number}", "或发短信 {number}"),
    "talk.help.site": Text("website", "网站"),
    "talk.help.emergency": Text("In immediate danger: {number}", "有紧急危险请拨打 {number}"),
    "talk.help.local": Text("In immediate danger: your local emergency number", "有紧急危险请拨打当地的报警或急救电话"),
    "talk.help.directory": Text("Lines of all countries", "各国热线目录"),
    "talk.help.country": Text("Where you are", "你所在的地方"),
    "talk.help.several": Text("Somewhere else", "其他地方"),
    "talk.banner": Text("Help from people", "真人帮助"),
    # the conversation
    "talk.conversation": Text("Conversation", "对话"),
    "talk.you": Text("You", "你"),
    "talk.supporter": Text("Supporter", "支持者"),
    "talk.write": Text("Write to me…", "想说什么，就写在这里……"),
    "talk.write.label": Text("Your message", "你的话"),
    "talk.send": Text("Send", "发送"),
    "talk.send.hint": Text("Enter sends, Shift and Enter begin a new line.", "回车发送，Shift 加回车换行。"),
    "talk.stop": Text("Stop", "停下"),
    "talk.stopped": Text("Stopped. Your message is kept.", "已停下。你的话还在。"),
    "talk.unanswered": Text("This message has no answer yet.", "这句话还没有得到回应。"),
    "talk.answer": Text("Answer it", "请它回应"),
    "talk.thinking": Text("Thinking", "正在想"),
    "talk.thinking.history": Text("Reading what was said", "在读你说的话"),
    "talk.thinking.emotion": Text("Listening for the feeling", "在体会你的感受"),
    "talk.thinking.strategy": Text("Choosing how to help", "在想怎样帮到你"),
    "talk.thinking.reply": Text("Answering", "正在回应"),
    "talk.thinking.long": Text(
        "It is taking long. You can stop at any time; your message stays.", "这次有点久。随时可以停下，你的话不会丢。"
    ),
    "talk.all": Text("Show all of it", "显示全部"),
    "talk.picture.alt": Text("A picture that you sent", "你发的图片"),
    # how it thinks
    "talk.why": Text("Why?", "为什么？"),
    "talk.panel": Text("How it thinks", "它是怎么想的"),
    "talk.panel.close": Text("Close", "关闭"),
    "talk.panel.none": Text("Once it has answered, its thinking stands here.", "等它回应之后，它的想法会出现在这里。"),
    "talk.panel.of": Text("Answer {number}", "第 {number} 次回应"),
    "talk.panel.earlier": Text(
        "Only the latest answer can be changed. This one is for reading.", "只有最近一次回应可以改，这一次只供阅读。"
    ),
    "talk.panel.broken": Text(
        "This thinking is not whole, so it cannot be changed step by step. Ask for another answer.",
        "这次的想法不完整，没法一步一步修改。可以请它再答一次。",
    ),
    "talk.panel.missing": Text("Nothing stands here.", "这里是空的。"),
    "talk.step.history": Text("What you face", "你面对的"),
    "talk.step.emotion": Text("What you feel", "你的感受"),
    "talk.step.strategy": Text("What would help", "怎样会有帮助"),
    "talk.strength": Text("{n} of 5", "5 分里的 {n} 分"),
    "talk.fixed": Text("fixed by you", "由你定下"),
    "talk.edit": Text("Edit", "修改"),
    "talk.edit.text": Text("This step in your words", "用你的话写这一步"),
    "talk.edit.follows": Text("follows from the words", "由文字得出"),
    "talk.edit.effect": Text("What will change", "会有什么变化"),
    "talk.edit.stays": Text("{step}: stays as it is", "{step}：保持不变"),
    "talk.edit.yours": Text("{step}: in your words", "{step}：用你的话"),
    "talk.edit.anew": Text("{step}: thought anew", "{step}：重新想过"),
    "talk.edit.reply": Text(
        "The reply: written anew. The present one stays beside it.", "回应：重新写。现在这一条会留在旁边。"
    ),
    "talk.edit.go": Text("Continue from here", "从这里继续"),
    "talk.cancel": Text("Cancel", "取消"),
    # pins
    "talk.pin": Text("Pin", "固定"),
    "talk.release": Text("Release", "放开"),
    "talk.pins": Text("Pinned", "已固定"),
    "talk.pins.none": Text("Nothing. It decides for itself.", "没有。由它自己判断。"),
    "talk.pins.lead": Text(
        "What you pin holds for every answer from now on.", "固定之后，接下来的每次回应都会照此来。"
    ),
    "talk.pins.free": Text("free", "不固定"),
    "talk.pins.all": Text("Release all", "全部放开"),
    # other answers
    "talk.again": Text("Answer again", "再答一次"),
    "talk.again.with": Text("With the strategy", "换一种方式"),
    "talk.again.same": Text("as it likes", "由它决定"),
    "talk.again.go": Text("Ask", "请它回应"),
    "talk.other": Text("Earlier answer", "之前的回应"),
    "talk.others": Text("{count} more earlier answers", "还有 {count} 条之前的回应"),
    "talk.choose": Text("Go on with this one", "用这一条继续"),
    # the curve
    "talk.curve": Text("Feeling over time", "感受的变化"),
    "talk.curve.up": Text("lighter", "轻一些"),
    "talk.curve.down": Text("heavier", "重一些"),
    "talk.curve.point": Text("{number}: {emotion} {n}/5", "第 {number} 次：{emotion} {n}/5"),
    # tools
    "talk.tools": Text("This conversation", "这次对话"),
    "talk.model": Text("Model", "模型"),
    "talk.model.here": Text("{name}, on this server", "{name}，就在这台服务器上"),
    "talk.model.there": Text("{name}, at {place}", "{name}，位于 {place}"),
    "talk.picture": Text("Add a picture", "添加图片"),
    "talk.picture.remove": Text("Remove the picture", "去掉图片"),
    "talk.picture.ready": Text("The picture goes along with your next message.", "图片会随下一句话一起发出。"),
    "talk.save": Text("Save", "保存"),
    "talk.save.json": Text("For programs (JSON)", "给程序用（JSON）"),
    "talk.save.txt": Text("For reading (text)", "阅读用（文本）"),
    "talk.save.note": Text(
        "The file goes to your browser; no copy stays here.", "文件只存到你的浏览器，这里不留副本。"
    ),
    "talk.delete": Text("Delete", "删除"),
    "talk.delete.sure": Text("Delete this conversation?", "删除这次对话？"),
    "talk.delete.what": Text(
        "Everything is gone at once: words, thinking, pictures. It cannot be brought back.",
        "文字、想法、图片会立刻全部消失，无法恢复。",
    ),
    "talk.delete.yes": Text("Delete everything", "全部删除"),
    "talk.deleted": Text("Everything is deleted.", "已全部删除。"),
    # a file
    "talk.file.head": Text(
        "A conversation with an AI ({model}), saved {saved}", "与人工智能（{model}）的对话，保存于 {saved}"
    ),
    "talk.file.picture": Text("[pictures: {count}]", "［图片 {count} 张］"),
    # what is odd about an answer
    "talk.problem.nothing": Text(
        "The model sent nothing at all. Your message is kept; ask again, or choose another model.",
        "模型什么也没有发来。你的话还在；可以再问一次，或换一个模型。",
    ),
    "talk.problem.silent": Text("It thought, but said nothing. Ask again.", "它想了，却什么也没说。可以请它再答一次。"),
    "talk.problem.endless": Text(
        "It did not stop by itself, so it was cut off here.", "它一直停不下来，所以在这里截断了。"
    ),
    "talk.problem.withheld": Text(
        "A part of its thinking is not shown: it could do harm.", "它的一部分想法没有显示，因为可能造成伤害。"
    ),
    "talk.problem.pin": Text(
        "It did not keep to what you pinned. This model's server may not support it.",
        "它没有照你固定的来。这个模型的服务器可能不支持。",
    ),
    "talk.problem.given": Text(
        "It changed the words that you gave it. This model's server may not support keeping them.",
        "它改动了你写的话。这个模型的服务器可能不支持保留原文。",
    ),
    "talk.problem.markup": Text(
        "It wrote marks that do not belong in a reply. They are shown as plain text and do nothing.",
        "它写了不该出现在回应里的标记。这里只当普通文字显示，不起任何作用。",
    ),
    "talk.problem.form": Text(
        "Its thinking is not in the usual form, so a part may be missing.",
        "它的想法没有按通常的格式写，可能缺了一部分。",
    ),
    # what went wrong
    "talk.error.model": Text(
        "The model did not answer. Your message is kept here. Ask again, or choose another model.",
        "模型没有回应。你的话还在这里。可以再问一次，或换一个模型。",
    ),
    "talk.error.long": Text(
        "The conversation has become too long for this model. Nothing is lost. Choose another model, or save this "
        "conversation and begin a new one.",
        "对话太长，这个模型装不下了。内容都还在。可以换一个模型，或保存后重新开始。",
    ),
    "talk.error.control": Text(
        "What you fixed does not go together. Nothing has changed. Release one of them, or write the step otherwise.",
        "你定下的内容互相矛盾。什么都没有改动。请放开其中一项，或换一种写法。",
    ),
    "talk.error.refused": Text("That did not work. Nothing has changed.", "没有成功。什么都没有改动。"),
    "talk.error.busy": Text(
        "An answer is being written already, perhaps in another window. Wait for it, or stop it there.",
        "已经有一个回应正在写，也许在另一个窗口里。请等它写完，或在那边停下。",
    ),
    "talk.error.elsewhere": Text(
        "This conversation has changed meanwhile: in another window, or it was forgotten after two hours. The page "
        "now shows it as it is. Your message is still in the box.",
        "这次对话有了变化：可能在另一个窗口里改过，也可能两小时没有动静已被清除。页面已更新，你写的话还在输入框里。",
    ),
    "talk.error.gone": Text(
        "The conversation was deleted while the answer was being written. Nothing of it is left.",
        "回应还没写完，对话就被删除了。什么都没有留下。",
    ),
    "talk.error.stopped": Text(
        "The answer was stopped, perhaps in another window. Your message is kept.",
        "回应被停下了，也许是在另一个窗口里。你的话还在。",
    ),
    "talk.error.message": Text(
        "A message needs some words, at most {most} characters. Nothing was sent; shorten it, or send it in parts.",
        "一句话至少要有内容，最多 {most} 个字符。还没有发出；请缩短，或分几次发。",
    ),
    "talk.error.turns": Text(
        "This conversation has {most} messages, as many as fit. Save it if you like, delete it, begin anew.",
        "这次对话已有 {most} 条，装满了。可以先保存，再删除，重新开始。",
    ),
    "talk.error.answers": Text(
        "There are {most} answers to this message already. Go on with one of them.",
        "这句话已经有 {most} 个回应了。请选一个继续。",
    ),
    "talk.error.picture_large": Text(
        "The picture is larger than {most} MB. It was not kept; choose a smaller one.",
        "图片超过 {most} MB，没有保存。请换一张小一点的。",
    ),
    "talk.error.picture_kind": Text(
        "This is no picture that can be shown here. Choose a PNG, JPEG, GIF or WebP; nothing was kept.",
        "这不是这里能显示的图片。请选 PNG、JPEG、GIF 或 WebP；没有保存任何内容。",
    ),
    "talk.error.picture_blind": Text(
        "This model reads words only and cannot see pictures. Tell it what is in the picture, or choose another model.",
        "这个模型只读文字，看不了图片。可以把图里的内容写给它，或换一个模型。",
    ),
    "talk.error.picture_many": Text(
        "There are {most} pictures in this conversation already, as many as fit.",
        "这次对话已有 {most} 张图片，装满了。",
    ),
    "talk.error.network": Text(
        "The studio cannot be reached. What you see is still here; try again in a moment.",
        "联系不上工作室。你看到的内容还在，请稍后再试。",
    ),
}
