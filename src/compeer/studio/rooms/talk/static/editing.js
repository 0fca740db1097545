// A step in the person's own words, with what will change from there on.

export function editing({ make, say, labels, steps, menu }) {
  return (step, order, view, does, cancel) => {
    const words = make("textarea", { rows: 5, "aria-label": say("talk.edit.text"), autocomplete: "off" });
    words.value = view.answer.texts[step] ?? "";
    const menus = steps[step].map((label) => {
      const select = menu(label, labels, say("talk.edit.follows"), null, { "data-label": label });
      return make("label", { class: "pin-row" }, make("span", {}, labels[label].name), select);
    });
    const title = (one) => say(`talk.step.${one}`);
    const place = order.indexOf(step);
    const effect = order.map((one, index) => {
      const key = index < place ? "talk.edit.stays" : index === place ? "talk.edit.yours" : "talk.edit.anew";
      return make("li", { class: index < place ? "stays" : "changes" }, say(key, { step: title(one) }));
    });
    const send = (event) => {
      event.preventDefault();
      const fixed = {};
      for (const select of form.querySelectorAll("[data-label]")) {
        const { label } = select.dataset;
        if (select.value) fixed[label] = label === "intensity" ? Number(select.value) : select.value;
      }
      does.edit(step, words.value, fixed);
    };
    const form = make(
      "form",
      { class: "editing", onsubmit: send },
      make("h3", {}, `${place + 1} ${title(step)}`),
      words,
      menus,
      make("p", { class: "small effect-title" }, say("talk.edit.effect")),
      make("ul", { class: "effect small" }, effect, make("li", { class: "changes" }, say("talk.edit.reply"))),
      make(
        "div",
        { class: "thought-tools" },
        make("button", { class: "main small-button" }, say("talk.edit.go")),
        make("button", { type: "button", class: "small-button", onclick: cancel }, say("talk.cancel")),
      ),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      cancel();
    });
    return form;
  };
}
