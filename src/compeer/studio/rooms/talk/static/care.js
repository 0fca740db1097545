// Whom to call: in the notice, and in the banner while someone may be in danger.

export function care({ make, say, countries, language, move }) {
  const regions = new Intl.DisplayNames([language], { type: "region" });

  function line(one, several) {
    const call = (phone) => make("a", { href: `tel:${phone.replace(/[^\d+]/g, "")}`, class: "phone" }, phone);
    const parts = [several ? `${regions.of(one.country)} · ` : "", make("strong", {}, one.name), " ", call(one.phone)];
    if (one.also && !several) parts.push(` ${say("talk.help.also", { phone: "" }).trim()} `, call(one.also));
    if (one.text && !several) parts.push(` ${say("talk.help.text", { number: one.text })}`);
    parts.push(make("span", { class: "hours" }, ` ${say("talk.help.hours", one)} `));
    parts.push(make("a", { href: one.url, target: "_blank", rel: "noreferrer noopener" }, say("talk.help.site")));
    return make("li", {}, parts);
  }

  function lines(help) {
    const several = help.country === null;
    const danger = help.emergency ? say("talk.help.emergency", { number: help.emergency }) : say("talk.help.local");
    return [
      make("ul", { class: "lines" }, help.lines.map((one) => line(one, several))),
      make(
        "p",
        { class: "danger" },
        make("strong", {}, danger),
        " · ",
        make("a", { href: `https://${help.directory}`, target: "_blank", rel: "noreferrer noopener" }, say("talk.help.directory")),
      ),
    ];
  }

  function where(help) {
    const select = make("select", { onchange: () => move(select.value || null) });
    const named = countries.map((code) => [regions.of(code), code]).sort((one, other) => one[0].localeCompare(other[0], language));
    for (const [named_, code] of named) select.append(make("option", { value: code }, named_));
    select.append(make("option", { value: "" }, say("talk.help.several")));
    select.value = help.country ?? "";
    return make("label", { class: "where row-s" }, make("span", {}, say("talk.help.country")), " ", select);
  }

  return {
    notice: (place, help) => place.replaceChildren(...lines(help), where(help)),
    banner(place, banner, help) {
      place.hidden = banner === null;
      if (banner === null) return place.replaceChildren();
      place.classList.toggle("calm", !banner.urgent);
      place.replaceChildren(make("div", { class: "talk-read" }, make("p", { class: "banner-words" }, banner.words), lines(help)));
    },
  };
}
