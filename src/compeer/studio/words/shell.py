"""Words of the shell: navigation, home, entering, errors. Rooms have their own."""

from __future__ import annotations

from compeer.studio.words import Text

SHELL = {
    "shell.name": Text("Compeer studio", "Compeer 工作室"),
    "shell.skip": Text("Skip to the content", "跳到正文"),
    "shell.rooms": Text("Rooms", "各个房间"),
    "shell.theme": Text("Theme", "外观"),
    "shell.theme.system": Text("System theme", "跟随系统"),
    "shell.theme.light": Text("Light theme", "浅色外观"),
    "shell.theme.dark": Text("Dark theme", "深色外观"),
    "shell.leave": Text("Leave", "退出"),
    "shell.apply": Text("Apply", "应用"),
    "shell.foot": Text(
        "Research software. No therapist, and no replacement for help in a crisis.",
        "研究用软件。它不是心理咨询师，遇到危机时请向真人求助。",
    ),
    "home.title": Text("A place to talk, to judge and to look closely", "在这里交谈、评判、细看"),
    "home.what": Text(
        "This is a workshop for emotional support by a computer: models that think about a person's situation, feeling "
        "and needs before they answer, and the people who teach and check them.",
        "这里是一间研究情感支持的工作室：模型先想清楚一个人的处境、感受和需要，再开口回应；也有人在这里教它、检查它。",
    ),
    "home.ai": Text(
        "Whatever answers here is an AI. It can be wrong, it does not know you, and it cannot come and help.",
        "在这里回应你的是人工智能。它会出错，并不真的认识你，也没法来到你身边。",
    ),
    "home.kept": Text(
        "What is kept: the votes of people who label, and the results of runs. A conversation is gone when you close "
        "it, unless you save it yourself.",
        "会保存的只有两样：标注者投的票，和训练、评测的结果。聊天内容关掉就没了，除非你自己保存。",
    ),
    "home.hello": Text("Welcome, {name}.", "{name}，欢迎。"),
    "home.rooms": Text("The rooms", "房间"),
    "home.open": Text("Open", "进入"),
    "home.off": Text("Not on this instance", "这里没有开放"),
    "home.link": Text(
        "To go further you need your personal link. Whoever runs this studio sends it to you.",
        "要继续，需要你的专属链接。请向这间工作室的负责人索取。",
    ),
    "enter.title": Text("Come in", "请进"),
    "enter.what": Text(
        "This link is yours alone. Pressing the button signs this browser in for 30 days; please do not pass the "
        "link on.",
        "这个链接只属于你。点下面的按钮，这个浏览器就会登录，有效期三十天；请不要把链接转给别人。",
    ),
    "enter.button": Text("Come in", "进入工作室"),
    "error.back": Text("Go to the first page", "回到首页"),
    "error.status": Text("Error {status}", "错误 {status}"),
    "error.safe": Text("What is safe", "哪些没有受影响"),
    "error.next": Text("What to do", "接下来怎么办"),
    "error.missing.title": Text("There is nothing here", "这里什么也没有"),
    "error.missing.what": Text(
        "The address leads nowhere. It may be mistyped, or what was here has been moved or removed.",
        "这个地址没有对应的页面。可能是输错了，也可能内容已经移走或删除。",
    ),
    "error.missing.safe": Text("Nothing has been changed.", "什么都没有改动。"),
    "error.missing.next": Text("Go back, or begin again at the first page.", "请返回上一页，或从首页重新开始。"),
    "error.forbidden.title": Text("This is not open to you", "这个页面没有对你开放"),
    "error.forbidden.what": Text(
        "You are known here, but this page is for someone with another task.",
        "我们认得你，但这个页面是给负责其他工作的人用的。",
    ),
    "error.forbidden.safe": Text("Your own work is untouched.", "你自己的工作没有受影响。"),
    "error.forbidden.next": Text(
        "If you think that you should see it, ask whoever invited you.", "如果你觉得应该能看到它，请联系邀请你的人。"
    ),
    "error.link.title": Text("You need your personal link", "需要你的专属链接"),
    "error.link.what": Text(
        "This studio does not know who you are: you have not entered yet, your 30 days are over, or your link was "
        "taken back.",
        "工作室还不认识你：也许你还没有登录，也许三十天已到，也许链接已被收回。",
    ),
    "error.link.safe": Text("What you did before is kept.", "你之前做过的都还在。"),
    "error.link.next": Text(
        "Open the link that you were sent. If you cannot find it, ask whoever invited you for a new one.",
        "请打开发给你的链接。找不到的话，向邀请你的人要一个新的。",
    ),
    "error.bad_link.title": Text("This link does not work", "这个链接用不了"),
    "error.bad_link.what": Text(
        "It is incomplete, or it has been replaced by a newer one.", "链接不完整，或者已经换成了新的。"
    ),
    "error.bad_link.safe": Text("Nothing has been changed.", "什么都没有改动。"),
    "error.bad_link.next": Text(
        "Copy the whole link from the message and try again, or ask for a new one.",
        "请从消息里完整复制链接再试一次，或者要一个新的。",
    ),
    "error.form.title": Text("This could not be sent", "没有发送成功"),
    "error.form.what": Text(
        "The page had been open for too long, or the request did not come from a page of this studio.",
        "页面打开太久了，或者这个请求不是从工作室的页面发出的。",
    ),
    "error.form.safe": Text(
        "Nothing has been changed, and what was saved before is kept.", "什么都没有改动，之前保存的都还在。"
    ),
    "error.form.next": Text("Go back, load the page again and send it once more.", "请返回，刷新页面，再发送一次。"),
    "error.busy.title": Text("A little too fast", "稍微快了一点"),
    "error.busy.what": Text(
        "More came in than this studio takes at once, so it asks for a pause.",
        "短时间内请求太多，工作室需要喘口气。",
    ),
    "error.busy.safe": Text("What was saved is kept.", "已经保存的都在。"),
    "error.busy.next": Text("Wait {seconds} s and try again.", "请等 {seconds} 秒再试。"),
    "error.large.title": Text("This is too large", "内容太大了"),
    "error.large.what": Text("What you sent is larger than this page accepts.", "你发送的内容超过了这个页面的上限。"),
    "error.large.safe": Text("It was not kept, and nothing else has changed.", "它没有被保存，其他也没有变化。"),
    "error.large.next": Text("Send something smaller.", "请发送小一点的内容。"),
    "error.invalid.title": Text("This was not understood", "没有看懂这个请求"),
    "error.invalid.what": Text(
        "The request lacks something, or has something in it that does not belong there.",
        "请求里少了什么，或者多了不该有的东西。",
    ),
    "error.invalid.safe": Text("Nothing has been changed.", "什么都没有改动。"),
    "error.invalid.next": Text("Go back and try again.", "请返回再试一次。"),
    "error.host.title": Text("This address is not known", "不认识这个地址"),
    "error.host.what": Text(
        "The studio was reached under a name that it does not go by. That can be an attack on your browser, or a "
        "setting that is missing.",
        "有人用工作室不认识的名字访问它。这可能是针对浏览器的攻击，也可能是少了一项设置。",
    ),
    "error.host.safe": Text("Nothing has been shown or changed.", "没有显示、也没有改动任何内容。"),
    "error.host.next": Text(
        "Open it under the address that it printed when it was started; whoever runs it can add another with --public.",
        "请用启动时显示的地址打开；负责人可以用 --public 加上别的地址。",
    ),
    "error.broken.title": Text("Something broke on our side", "我们这边出了问题"),
    "error.broken.what": Text(
        "It is not your doing. The error has been written to the studio's log.",
        "不是你的问题。错误已经记在工作室的日志里。",
    ),
    "error.broken.safe": Text("What was saved before is kept.", "之前保存的都还在。"),
    "error.broken.next": Text(
        "Try again in a moment. If it happens again, tell whoever runs this studio what you were doing.",
        "请过一会儿再试。如果还是这样，请告诉负责人你当时在做什么。",
    ),
}
