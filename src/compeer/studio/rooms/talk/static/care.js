// Whom to call: in the notice, behind "Get help now", and in the banner while someone may be in danger.

export function care({ make, say, countries, language, move }) {
  const regions = new Intl.DisplayNames([language], { type: "region" });

  const link = (address, words) => make("a", { href: address, target: "_blank", rel: "noreferrer noopener" }, words);

  const call = (tel, shown) => make("a", { href: `tel:${tel}`, class: "phone" }, shown);

  function line(one, several) {
    const parts = [several ? `${regions.of(one.country)} · ` : "", make("strong", {}, one.name)];
    if (one.phone) parts.push(" ", one.tel ? call(one.tel, one.phone) : make("b", {}, one.phone));
    if (one.text && !several) parts.push(one.phone ? ` ${say("help.or")} ` : " ", say("help.text", { number: one.text }));
    parts.push(make("span", { class: "hours" }, ` ${say("help.hours", one)} `));
    if (one.url) parts.push(link(one.url, say("help.site")));
    return make("li", {}, parts);
  }

  function danger(help) {
    const numbers = help.emergency.flatMap((one, index) => [index ? " / " : " ", call(one.tel, one.shown)]);
    const words = numbers.length ? [say("help.emergency"), ...numbers] : [say("help.local")];
    return make("p", { class: "danger" }, make("strong", {}, words));
  }

  /** The emergency number first, then the lines, then the directory. */
  function lines(help) {
    const several = help.country === null;
    const all = make("p", {}, link(help.directory_url, say("help.directory")));
    return [danger(help), make("ul", { class: "lines" }, help.lines.map((one) => line(one, several))), all];
  }

  function where(help) {
    const select = make("select", { onchange: () => move(select.value || null) });
    const named = countries.map((code) => [regions.of(code), code]).sort((one, other) => one[0].localeCompare(other[0], language));
    for (const [name, code] of named) select.append(make("option", { value: code }, name));
    select.append(make("option", { value: "" }, say("help.several")));
    select.value = help.country ?? "";
    return make("label", { class: "where row-s" }, make("span", {}, say("help.country")), " ", select);
  }

  let unfolded = !matchMedia("(max-width: 640px)").matches; // on a phone the conversation needs the space

  /** What is folded: the lines but the first, and the directory. */
  function more(help) {
    const [, others, all] = lines(help);
    others.firstElementChild?.remove();
    const fold = make("details", { class: "banner-more", open: unfolded }, make("summary", {}, say("help.more")), others, all);
    fold.addEventListener("toggle", () => (unfolded = fold.open));
    return fold;
  }

  return {
    notice: (place, help) => place.replaceChildren(...lines(help), where(help)),
    control: (place, help) => place.replaceChildren(make("div", { class: "help-lines" }, lines(help))),
    /** `level` "emergency": above everything else on the page, the number to call first. */
    banner(place, banner, help, level) {
      place.hidden = !banner;
      if (!banner) return place.replaceChildren();
      const emergency = level === "emergency";
      place.classList.toggle("emergency", emergency);
      place.classList.toggle("calm", !emergency && !banner.urgent);
      if (emergency) document.querySelector(".top").before(place);
      else document.querySelector(".talk-main").prepend(place);
      const words = make("p", { class: "banner-words" }, banner.words);
      const first = make("ul", { class: "lines" }, help.lines.slice(0, 1).map((one) => line(one, help.country === null)));
      const numbers = danger(help);
      place.replaceChildren(make("div", { class: "talk-read" }, emergency ? [numbers, words] : [words, numbers], first, more(help)));
    },
  };
}
