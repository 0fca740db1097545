"""Words of the coordinator's pages: making something to work on, people, personal links."""

from __future__ import annotations

from compeer.studio.words import Text

COORDINATE = {
    "workplace.list.ended": Text("closed", "已结束"),
    "workplace.list.people": Text("{count} people", "{count} 人"),
    "workplace.new.name": Text("Name", "名称"),
    "workplace.new.path.hint": Text("In one of: {folders}", "须在这些文件夹内：{folders}"),
    "workplace.new.images": Text("Folder of the pictures", "图片文件夹"),
    "workplace.new.images.hint": Text(
        "Only when the items have pictures. For a named file: the folder it lies in.",
        "条目里有图片时才需要；填写本机文件时，默认是文件所在的文件夹。",
    ),
    "workplace.new.more": Text("More settings", "更多设置"),
    "workplace.new.lease": Text("Minutes after which an abandoned item goes back", "离开多少分钟后条目退回"),
    "workplace.new.nothing": Text("Choose a file to upload, or name one.", "请选择要上传的文件，或填写一个文件。"),
    "workplace.new.taken": Text(
        "There is a project or an arena {name} already; choose another name.",
        "已有名为 {name} 的项目或竞技场，请换一个名称。",
    ),
    "workplace.new.no_file": Text("There is no file {path} to read.", "找不到可读的文件 {path}。"),
    "workplace.new.outside": Text(
        "Behind a public address only files in these folders can be named: {folders}.",
        "对外开放时，只能使用这些文件夹里的文件：{folders}。",
    ),
    "workplace.new.no_folder": Text("none (the studio was started without --items)", "无（启动时没有用 --items 指定）"),
    "workplace.progress": Text("Progress", "进度"),
    "workplace.people": Text("People", "人员"),
    "workplace.people.name": Text("Name", "姓名"),
    "workplace.people.role": Text("Role", "角色"),
    "workplace.role.annotator": Text("annotator", "标注者"),
    "workplace.role.coordinator": Text("coordinator", "负责人"),
    "workplace.people.done": Text("Done", "已交"),
    "workplace.people.held": Text("Holds", "手头"),
    "workplace.people.skipped": Text("Skipped", "跳过"),
    "workplace.people.distressed": Text("Distressed", "难受"),
    "workplace.people.seconds": Text("Seconds an item", "每条秒数"),
    "workplace.people.paused": Text("paused", "已暂停"),
    "workplace.people.no_link": Text("no link", "无链接"),
    "workplace.people.change": Text("Change {name}", "更改 {name}"),
    "workplace.people.actions": Text("Actions", "操作"),
    "workplace.people.pause": Text("Pause", "暂停"),
    "workplace.people.resume": Text("Resume", "恢复"),
    "workplace.people.link": Text("New link", "新链接"),
    "workplace.people.revoke": Text("End access", "收回访问"),
    "workplace.invite.title": Text("Invite", "邀请"),
    "workplace.invite.names": Text("Names, one a line", "姓名，每行一个"),
    "workplace.invite.do": Text("Make links", "生成链接"),
    "workplace.people.nobody": Text("Give 1 to {most} names, one a line.", "请填写 1 到 {most} 个姓名，每行一个。"),
    "workplace.people.odd": Text(
        "A name has 1 to 100 printable characters; this has not: {name}",
        "姓名须是 1 到 100 个可显示的字符，这个不是：{name}",
    ),
    "workplace.people.twice": Text(
        "These have a link already: {names}. Nobody was invited. To replace a lost link, use New link beside the name.",
        "这些人已有链接：{names}。没有邀请任何人。链接丢了，请用姓名旁的“新链接”。",
    ),
    "workplace.links.title": Text("Personal links", "专属链接"),
    "workplace.links.once": Text(
        "They are shown this once: only hashes are kept. Send each to its person, by a way that others do not read.",
        "链接只显示这一次，系统只保存散列值。请用别人看不到的方式分别发给本人。",
    ),
    "workplace.links.of": Text("Link of {name}", "{name} 的链接"),
    "workplace.links.copy": Text("Copy", "复制"),
    "workplace.links.copied": Text("Copied", "已复制"),
}
