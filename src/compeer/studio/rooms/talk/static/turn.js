// A turn: what was said, the answer, earlier answers beside it, and the quiet line of conclusions under each.

const LONG = 2400; // characters of a reply that are shown at once

export function turns({ make, say, name, labels, menu }) {
  let many = false; // more than one model has answered: each answer says which
  let plain = false; // high risk: words alone

  function chips(answer) {
    const found = [];
    if (answer.labels.stage) found.push(name("stage", answer.labels.stage).name);
    if (answer.labels.emotion) {
      const strength = answer.labels.intensity ? ` ${answer.labels.intensity}/5` : "";
      found.push(name("emotion", answer.labels.emotion).name + strength);
    }
    if (answer.labels.strategy) found.push(name("strategy", answer.labels.strategy).name);
    if (many && answer.model) found.push(answer.model);
    return found;
  }

  function reply(text) {
    const shown = make("p", { class: "reply" }, text.length > LONG ? `${text.slice(0, LONG / 2)}…` : text);
    if (text.length <= LONG) return [shown];
    const more = make("button", { type: "button", class: "plain-button" }, say("talk.all"));
    more.addEventListener("click", () => {
      shown.textContent = text;
      shown.tabIndex = -1;
      more.remove();
      shown.focus();
    });
    return [shown, more];
  }

  /** Thumbs up and down; what they are kept for is said where it is chosen. */
  function thumbs(one, number, does) {
    const button = (thumb) =>
      make(
        "button",
        {
          type: "button",
          class: "plain-button thumb",
          "aria-pressed": String(one.thumb === thumb),
          "data-focus": `${thumb}-${number}`,
          onclick: () => does.rate(number, one.thumb === thumb ? null : thumb),
        },
        say(`talk.thumb.${thumb}`),
      );
    const kept = one.thumb && (does.keeps() ? make("span", {}, say("talk.thumb.kept")) : make("button", { type: "button", class: "plain-button", onclick: (event) => (event.stopPropagation(), does.consent()) }, say("talk.thumb.ask")));
    return make("span", { class: "thumbs row-s" }, button("up"), button("down"), kept);
  }

  function answer(one, { old, actions }) {
    const conclusions = plain ? [] : chips(one);
    return make(
      "article",
      { class: old ? "answer old" : "answer" },
      old ? make("p", { class: "answer-name" }, say("talk.other")) : null,
      one.note ? make("p", { class: "said-note quiet small" }, one.note) : null,
      one.reply ? reply(one.reply) : null,
      one.problem ? make("p", { class: "said-note small" }, one.problem) : null,
      make(
        "p",
        { class: "chips" },
        conclusions.length ? make("span", {}, conclusions.join(" · ")) : null,
        plain ? null : actions,
      ),
    );
  }

  function pictures(keys) {
    if (!keys.length) return null;
    const shown = keys.map((key) => make("img", { src: `/talk/picture/${key}`, alt: say("talk.picture.alt") }));
    return make("div", { class: "sent-pictures" }, shown);
  }

  /** What the person said, as the beginning of a turn. `edit`: says it in other words, where that is possible. */
  function said(text, keys, edit = null, number = 0) {
    const words = make("p", { class: "said" }, text);
    const head = make("div", { class: "said-head" }, make("h2", { class: "who" }, say("talk.you")));
    if (edit) {
      const named = { "aria-label": say("talk.rewrite.of", { number }), "data-focus": `rewrite-${number}` };
      const open = make("button", { type: "button", class: "plain-button rewrite", onclick: () => rewriting(words, open, text, edit), ...named }, say("talk.rewrite"));
      head.append(open);
    }
    return [head, pictures(keys), words];
  }

  /** One's own words, to be changed in their place. */
  function rewriting(words, open, text, edit) {
    const box = make("textarea", { rows: 3, "aria-label": say("talk.write.label"), autocomplete: "off" });
    box.value = text;
    const close = () => {
      form.replaceWith(words);
      open.hidden = false;
      open.focus();
    };
    const form = make(
      "form",
      { class: "rewriting", onsubmit: (event) => (event.preventDefault(), box.value.trim() && edit(box.value.trim())) },
      box,
      make("p", { class: "quiet small" }, say("talk.rewrite.effect")),
      make("div", { class: "thought-tools" }, make("button", { class: "main small-button" }, say("talk.rewrite.go")), make("button", { type: "button", class: "small-button", onclick: close }, say("talk.cancel"))),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
    words.replaceWith(form);
    open.hidden = true;
    box.focus();
  }

  /** What stood in a turn's place before its message was rewritten. */
  function earlier(one, number, changeable, does) {
    return one.earlier.map((branch, which) =>
      make(
        "details",
        { class: "more-answers earlier" },
        make("summary", {}, say("talk.earlier", { count: branch.length })),
        branch.flatMap((old) => [make("p", { class: "said" }, old.said), make("article", { class: "answer old" }, make("p", { class: "reply" }, old.reply || say("talk.unanswered")))]),
        changeable ? make("button", { type: "button", class: "small-button", onclick: () => does.restore(number, which) }, say("talk.earlier.back")) : null,
      ),
    );
  }

  function again(one, ask) {
    const choice = menu("strategy", labels, say("talk.again.same"), null, { "aria-label": say("talk.again.with") });
    for (const option of choice.options) if (option.value === one.labels.strategy) option.remove();
    const form = make(
      "form",
      { class: "again-form", onsubmit: (event) => (event.preventDefault(), ask(choice.value ? { strategy: choice.value } : {})) },
      make("label", {}, make("span", {}, say("talk.again.with")), " ", choice),
      make("button", { class: "small-button" }, say("talk.again.go")),
    );
    return make("details", { class: "again" }, make("summary", { class: "plain-button" }, say("talk.again")), form);
  }

  /** A whole turn. `latest`: it can still be answered otherwise. `free`: nothing is being written. */
  function turn(one, number, latest, free, does) {
    const why = (which) =>
      make("button", { type: "button", class: "plain-button why", "data-focus": `why-${number}-${which}`, onclick: () => does.why(number, which) }, say("talk.why"));
    const current = answer(one.answer, { actions: [why(null), latest ? again(one.answer, does.again) : null, one.answer.reply ? thumbs(one.answer, number, does) : null] });
    const old = one.others.map((other, which) =>
      answer(other, {
        old: true,
        actions: [
          why(which),
          latest
            ? make("button", { type: "button", class: "plain-button", onclick: () => does.choose(which) }, say("talk.choose"))
            : null,
        ],
      }),
    );
    const beside = old.pop();
    return make(
      "li",
      { class: "turn" },
      said(one.said, one.pictures, free && !plain ? (text) => does.rewrite(number, text) : null, number),
      make("h2", { class: "who" }, say("talk.supporter")),
      make("div", { class: beside ? "answers beside" : "answers" }, current, beside),
      old.length
        ? make("details", { class: "more-answers" }, make("summary", {}, say("talk.others", { count: old.length })), old)
        : null,
      plain ? null : earlier(one, number, free, does),
    );
  }

  /** All turns. `bare`: without conclusions and without anything to press. */
  function all(list, does, changeable, free, bare = false) {
    plain = bare;
    many = new Set(list.flatMap((one) => [one.answer, ...one.others].map((answer) => answer.model))).size > 1;
    return list.map((one, index) => turn(one, index + 1, changeable && index + 1 === list.length, free, does));
  }

  return { all, said, answer, again };
}

/** Shows a text word by word as it comes; at once where motion is not wanted. */
export function reveal(place) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let waiting = [];
  let timer = 0;
  let ended = null;
  const step = () => {
    // far behind: more words at a time, so that nobody waits for the show
    place.append(waiting.splice(0, still || document.hidden ? waiting.length : 1 + Math.floor(waiting.length / 24)).join(""));
    if (waiting.length) timer = setTimeout(step, 28);
    else {
      timer = 0;
      ended?.();
    }
  };
  return {
    add(text) {
      waiting.push(...(text.match(/[\u3400-\u9fff]|\s*[^\s\u3400-\u9fff]+|\s+/g) ?? []));
      if (!timer) step();
    },
    /** Resolves when all of it is shown. */
    end: () => new Promise((done) => (timer ? (ended = done) : done())),
    cut() {
      clearTimeout(timer);
      waiting = [];
      timer = 0;
      ended?.();
    },
  };
}
