// How it thinks: the three steps of one answer, with what can be done about each, and what is pinned.

export function panel({ make, say, name, labels, steps, menu, again, editor }) {
  const order = Object.keys(steps);

  function strength(n) {
    return make("span", { class: "dots", role: "img", "aria-label": say("talk.strength", { n }) }, "●".repeat(n) + "○".repeat(5 - n));
  }

  function conclusions(step, answer) {
    const found = steps[step].filter((label) => answer.labels[label] !== undefined && answer.labels[label] !== null);
    if (!found.length) return null;
    return make(
      "p",
      { class: "conclusions" },
      found.map((label) => {
        const value = answer.labels[label];
        const fixed = answer.fixed?.pins[label] === value;
        const shown = label === "intensity" ? strength(value) : name(label, value).name;
        return make("span", { class: fixed ? "fixed" : "", title: fixed ? say("talk.fixed") : name(label, value).about }, shown);
      }),
    );
  }

  function thought(step, view, does) {
    const { answer, pins } = view;
    const text = answer.texts[step];
    const place = make("section", { class: "thought", "data-step": step });
    const own = steps[step].filter((label) => answer.labels[label] !== undefined);
    const pinned = own.length > 0 && own.every((label) => pins[label] === answer.labels[label]);
    const button = (words, act, more = {}) => make("button", { type: "button", class: "small-button", onclick: act, ...more }, words);
    const named = ` ${say(`talk.step.${step}`)}`;
    const edit = () => {
      place.replaceChildren(editor(step, order, view, does, () => place.replaceWith(thought(step, view, does))));
      place.querySelector("textarea").focus();
    };
    const given = answer.fixed?.steps.includes(step);
    place.append(
      make("h3", {}, `${order.indexOf(step) + 1} ${say(`talk.step.${step}`)}`),
      conclusions(step, answer) ?? "",
      text
        ? make("p", { class: "thought-text" }, text)
        : make("p", { class: "quiet" }, view.live ? say(`talk.thinking.${step}`) : say("talk.panel.missing")),
      given ? make("p", { class: "quiet small" }, say("talk.fixed")) : "",
    );
    if (view.live) return place;
    place.append(
      make(
        "div",
        { class: "thought-tools" },
        view.changeable && answer.whole ? button([say("talk.edit"), make("span", { class: "unseen" }, named)], edit) : null,
        own.length
          ? button(
              [pinned ? say("talk.release") : say("talk.pin"), make("span", { class: "unseen" }, named)],
              () => does.pin(Object.fromEntries(own.map((label) => [label, pinned ? null : answer.labels[label]]))),
              { "aria-pressed": String(pinned), "data-focus": step },
            )
          : null,
        step === "strategy" && view.changeable ? again(answer, does.again) : null,
      ),
    );
    return place;
  }

  /** How much it thinks: what is chosen holds for the visit. */
  function switching(view, does) {
    const choices = ["off", "brief", "full"].map((one) => {
      const choice = make("input", { type: "radio", name: "think", value: one, checked: view.think === one, "data-focus": `think-${one}`, onchange: () => does.think(one) });
      return make("label", {}, choice, " ", make("span", {}, say(`talk.think.${one}`)));
    });
    const offer = make(
      "div",
      { class: "offer" },
      make("p", {}, say("talk.think.none")),
      make("button", { type: "button", class: "main small-button", "data-focus": "think-brief", onclick: () => does.think("brief") }, say("talk.think.offer")),
    );
    return [view.think === "off" && !view.live ? offer : null, make("fieldset", { class: "choices" }, make("legend", {}, say("talk.think")), choices)];
  }

  /** What a pin does to the words of a reply, as it was measured. */
  function measured({ name, steering }) {
    const percent = (share) => Math.round(100 * share);
    if (!steering) return say("talk.steering.none", { name });
    const { share, low, high } = steering;
    return say("talk.steering", { ...steering, name, share: percent(share), low: percent(low), high: percent(high) });
  }

  function pinning(pins, model, does) {
    const count = Object.keys(pins).length;
    const rows = Object.keys(labels).map((label) => {
      const select = menu(label, labels, say("talk.pins.free"), pins[label], {
        "data-pin": label,
        "data-focus": `pin-${label}`,
        onchange: () => does.pin({ [label]: select.value === "" ? null : label === "intensity" ? Number(select.value) : select.value }),
      });
      return make("label", { class: pins[label] ? "pin-row on" : "pin-row" }, make("span", {}, labels[label].name), select);
    });
    return make(
      "section",
      { class: "pins" },
      make("h3", {}, say("talk.pins")),
      make("p", { class: "quiet small" }, count ? say("talk.pins.lead") : `${say("talk.pins.none")} ${say("talk.pins.lead")}`),
      make("p", { class: "small steering" }, measured(model)),
      rows,
      count
        ? make("button", { type: "button", class: "small-button", "data-focus": "all", onclick: () => does.pin(null) }, say("talk.pins.all"))
        : null,
    );
  }

  /** `view`: { number, answer, changeable, latest, live, old, pins, think, model }; answer null: nothing yet. */
  return (place, view, does) => {
    const head = make(
      "div",
      { class: "panel-head" },
      make("h2", {}, say("talk.panel")),
      make("button", { type: "button", class: "plain-button", onclick: does.close }, say("talk.panel.close")),
    );
    const parts = [head, ...switching(view, does).filter(Boolean)];
    const bare = view.answer && !view.live && !view.answer.problem && !Object.keys(view.answer.texts).length;
    if (bare) parts.push(make("p", { class: "quiet" }, say("talk.panel.bare", { number: view.number })));
    else if (!view.answer && view.think !== "off") parts.push(make("p", { class: "quiet" }, say("talk.panel.none")));
    else if (view.answer) {
      const which = say("talk.panel.of", { number: view.number });
      parts.push(make("p", { class: "quiet small panel-of" }, view.old ? `${which} · ${say("talk.other")}` : which));
      if (view.latest && !view.live && !view.answer.whole) parts.push(make("p", { class: "said-note small" }, say("talk.panel.broken")));
      if (!view.latest && !view.live) parts.push(make("p", { class: "quiet small" }, say("talk.panel.earlier")));
      parts.push(...order.map((step) => thought(step, view, does)));
    }
    parts.push(pinning(view.pins, view.model, does));
    place.replaceChildren(...parts);
  };
}
