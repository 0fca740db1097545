"use strict";
// Shows the transcripts: what was said is data and reaches the screen as text only.
(() => {
  const PER_PAGE = 25;
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const read = (id) => JSON.parse($(id).textContent);

  // --- theme: the system's until the reader chooses
  const button = $("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const named = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  try { const kept = localStorage.getItem("compeer-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* no storage: the system's */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("compeer-theme", root.dataset.theme); } catch { /* it holds for this visit */ }
    named();
  });
  dark.addEventListener("change", named);
  named();

  // --- small makers
  const make = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const svg = (tag, values) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    return made;
  };
  const written = (element, text, query) => {
    const low = query ? text.toLowerCase() : "";
    let from = 0;
    // lower case can be longer than the text ("İ"); then nothing is marked
    for (let at = query && low.length === text.length ? low.indexOf(query) : -1; at >= 0; at = low.indexOf(query, from)) {
      element.append(text.slice(from, at), make("mark", "", text.slice(at, at + query.length)));
      from = at + query.length;
    }
    element.append(text.slice(from));
    return element;
  };
  const shown = (value) => value === null ? "no number" : Number.isInteger(value) ? String(value) : value.toFixed(Math.abs(value) < 2 ? 3 : 2);

  // --- figures as files: the drawing is in the page, its style sheet for a file of its own beside it
  for (const button of document.querySelectorAll(".as-svg")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const shown = button.closest("figure"), file = shown.querySelector("svg").cloneNode(true);
      const style = svg("style", {});
      style.textContent = read("chart-style");
      file.prepend(style);
      const link = make("a");
      link.download = `${shown.dataset.name}.svg`;
      link.href = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(file))}`;
      link.click();
    });
  }

  // --- the runs; a run's dialogues are read when it is first chosen
  const runs = read("runs");
  if (!runs.length) { $("transcripts").hidden = true; return; }
  $("reader").hidden = false;
  const loaded = new Map();
  const runOf = (number) => {
    if (!loaded.has(number)) loaded.set(number, read(`run-${number}`));
    return loaded.get(number);
  };
  const samplesOf = (number) => runOf(number).samples;
  const words = new WeakMap();
  const wordsOf = (sample) => {
    if (!words.has(sample)) {
      const parts = [sample.id, sample.end ?? "", ...Object.values(sample.about)];
      for (const said of sample.said) {
        parts.push(said.text, said.note ?? "");
        if (said.thought) parts.push(said.thought.raw ?? "", ...(said.thought.steps ?? []).flatMap((step) => [step.text, ...step.labels]));
      }
      words.set(sample, parts.join("\n").toLowerCase());
    }
    return words.get(sample);
  };
  // one number on one scale, chosen by the benchmark (tables.case_score); never a mean over different scales
  const scoreOf = (sample) => sample.score ?? null;

  const state = { run: runs[0].number, page: 0, chosen: null, found: [] };
  for (const run of runs) {
    const option = make("option", "", run.name);
    option.value = run.number;
    $("which").append(option);
  }

  const options = (select, values) => {
    while (select.options.length > 1) select.remove(1);
    for (const [value, text] of values) { const option = make("option", "", text); option.value = value; select.append(option); }
    select.parentElement.hidden = values.length < 2;
  };
  const LANGUAGES = { en: "English", zh: "Chinese" };
  const ENDS = { content: "content", lost: "gave up", goodbye: "said goodbye", turns: "turn limit reached", rounds: "turn limit reached" };

  function chooseRun(number) {
    state.run = number;
    $("which").value = String(number);
    const samples = samplesOf(number);
    options($("language"), [...new Set(samples.map((one) => one.language))].sort().map((one) => [one, LANGUAGES[one] ?? one]));
    options($("ended"), [...new Set(samples.map((one) => one.end).filter(Boolean))].sort().map((one) => [one, ENDS[one] ?? one]));
    const { score } = runOf(number);
    for (const [value, text] of [["up", "lowest first"], ["down", "highest first"]]) {
      $("order").querySelector(`[value=${value}]`).textContent = score ? `${score}: ${text}` : text;
    }
    if (!score) $("order").value = "";
    $("order").parentElement.hidden = !score;
    state.page = 0;
    find();
  }

  function find() {
    const query = $("query").value.trim().toLowerCase();
    const { value: language } = $("language"), { value: ended } = $("ended"), { value: order } = $("order");
    const samples = samplesOf(state.run).filter((one) =>
      (!language || one.language === language) && (!ended || one.end === ended) && (!query || wordsOf(one).includes(query)));
    if (order) {
      const sign = order === "up" ? 1 : -1;
      const key = (one) => scoreOf(one) ?? (sign > 0 ? Infinity : -Infinity);
      samples.sort((one, two) => sign * (key(one) - key(two)) || 0);
    }
    state.found = samples;
    state.page = Math.min(state.page, Math.max(0, Math.ceil(samples.length / PER_PAGE) - 1));
    list();
    if (!samples.includes(state.chosen)) show(samples[state.page * PER_PAGE] ?? null);
    else show(state.chosen);
  }

  function list() {
    const whole = samplesOf(state.run).length, { found, page } = state;
    $("count").textContent = `${found.length === whole ? "" : `${found.length} of `}${whole} ${whole === 1 ? "dialogue" : "dialogues"}`;
    const from = page * PER_PAGE, some = found.slice(from, from + PER_PAGE);
    $("cases").replaceChildren(...some.map(entry));
    $("where").textContent = found.length ? `${from + 1} to ${from + some.length}` : "";
    $("before").disabled = page === 0;
    $("after").disabled = from + some.length >= found.length;
    $("before").parentElement.hidden = found.length <= PER_PAGE;
  }

  function entry(sample) {
    const item = make("li"), choose = make("button");
    choose.type = "button";
    choose.sample = sample;
    const line = make("span", "line");
    line.append(make("b", "", sample.id));
    if (sample.curve && sample.curve.length > 1) line.append(spark(sample.curve));
    const score = scoreOf(sample);
    if (score !== null) {
      const number = make("span", "", shown(score));
      number.title = runOf(state.run).score;
      line.append(number);
    }
    const first = sample.said.find((one) => one.who === "seeker") ?? sample.said[0];
    const said = make("span", "said", first ? first.text : "");
    said.lang = sample.language;
    choose.append(line, said);
    choose.addEventListener("click", () => { show(sample); $("case").focus({ preventScroll: true }); reveal(); });
    if (sample === state.chosen) choose.setAttribute("aria-current", "true");
    item.append(choose);
    return item;
  }

  function spark(curve) {
    const low = Math.min(0, ...curve), high = Math.max(100, ...curve);
    const points = curve.map((value, turn) => `${(turn * 52) / (curve.length - 1) + 1},${17 - ((value - low) / (high - low)) * 16}`);
    const picture = svg("svg", { viewBox: "0 0 54 18", "aria-hidden": "true" });
    picture.append(svg("polyline", { class: "spark", points: points.join(" ") }));
    return picture;
  }

  const reveal = () => {
    const place = $("case").getBoundingClientRect();
    if (place.top < 0 || place.top > innerHeight * 0.6) $("case").scrollIntoView({ block: "start" });
  };

  function show(sample) {
    state.chosen = sample;
    for (const choose of $("cases").querySelectorAll("button")) choose.toggleAttribute("aria-current", false);
    for (const choose of $("cases").querySelectorAll("button")) if (choose.sample === sample) choose.setAttribute("aria-current", "true");
    const place = $("case");
    place.replaceChildren();
    if (!sample) { place.append(make("p", "quiet", "No matching dialogue. Try other words.")); return; }
    const query = $("query").value.trim().toLowerCase();
    place.append(written(make("h3"), sample.id, query));
    const about = make("dl", "about");
    about.lang = sample.language;
    for (const [name, text] of Object.entries(sample.about)) {
      const row = make("div");
      row.append(make("dt", "", name), long(text, query));
      about.append(row);
    }
    if (about.children.length) place.append(about);
    const figures = make("div", "figures");
    const figure = (name, value) => { const one = make("span", "", `${name} `); one.append(make("b", "", value)); figures.append(one); };
    if (sample.curve) figure("emotion at the end", String(sample.curve.at(-1)));
    if (sample.end) figure("ended", ENDS[sample.end] ?? sample.end);
    for (const [name, value] of Object.entries(sample.scores)) figure(name, shown(value));
    if (figures.children.length) place.append(figures);
    let mood = null;
    for (const said of sample.said) { place.append(turn(said, sample.language, query, mood)); mood = said.emotion ?? mood; }
    place.append(neighbours(sample));
  }

  // personas and scenes can be pages long; the dialogue should not begin below them
  function long(text, query) {
    const cell = make("dd");
    if (text.length <= 280) return written(cell, text, query);
    const folded = make("details", "long");
    folded.append(make("summary", "", `${text.slice(0, 90).replace(/\s+/g, " ").trim()}…`), written(make("div"), text, query));
    folded.open = Boolean(query) && text.toLowerCase().includes(query);
    cell.append(folded);
    return cell;
  }

  const WHO = { en: { seeker: "Seeker", supporter: "Supporter" }, zh: { seeker: "求助者", supporter: "支持者" } };
  function turn(said, language, query, before) {
    const made = make("div", `turn ${said.who === "supporter" ? "supporter" : "seeker"}`);
    made.lang = language;
    const who = make("div", "who");
    who.append(make("span", "", (WHO[language] ?? WHO.en)[said.who] ?? said.who));
    if (said.emotion !== undefined) {
      const change = before === null ? 0 : said.emotion - before;
      const told = before === null ? `emotion ${said.emotion}` : `emotion ${said.emotion} (${change > 0 ? "+" : ""}${change})`;
      who.append(make("span", `mood${change > 0 ? " up" : change < 0 ? " down" : ""}`, told));
    }
    made.append(who, written(make("div", "text"), said.text, query));
    if (said.thought) made.append(thought(said.thought, query));
    if (said.note) {
      const note = make("details", "note-of");
      note.append(make("summary", "", said.who === "supporter" ? "note" : "what the simulator noted"));
      const box = make("div", "steps");
      box.append(written(make("p"), said.note, query));
      note.append(box);
      made.append(note);
    }
    return made;
  }

  function thought(value, query) {
    const folded = make("details", "thought");
    folded.open = $("unfold").checked;
    const chips = (value.chips ?? []).join(" · ");
    folded.append(make("summary", "", chips ? `${chips} · why?` : "what it thought"));
    const box = make("div", "steps");
    for (const step of value.steps ?? []) {
      const head = make("h4", "", step.name);
      if (step.labels.length) head.append(make("span", "", step.labels.join(" · ")));
      box.append(head, written(make("p"), step.text || "(nothing)", query));
    }
    if (value.raw) box.append(written(make("p"), value.raw, query));
    if ((value.problems ?? []).length) box.append(make("p", "problem", `Not complete: ${value.problems.join("; ")}`));
    folded.append(box);
    return folded;
  }

  function neighbours(sample) {
    const bar = make("div", "turns"), at = state.found.indexOf(sample);
    for (const [text, to] of [["Previous dialogue", at - 1], ["Next dialogue", at + 1]]) {
      const go = make("button", "", text);
      go.type = "button";
      go.disabled = !state.found[to];
      go.addEventListener("click", () => {
        state.page = Math.floor(to / PER_PAGE);
        list();
        show(state.found[to]);
        $("case").focus({ preventScroll: true });
        $("case").scrollIntoView({ block: "start" });
      });
      bar.append(go);
    }
    return bar;
  }

  // --- what the reader does
  let waiting = 0;
  $("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { state.page = 0; find(); }, 120); });
  for (const id of ["language", "ended", "order"]) $(id).addEventListener("change", () => { state.page = 0; find(); });
  $("which").addEventListener("change", () => { state.chosen = null; chooseRun(Number($("which").value)); });
  $("unfold").addEventListener("change", () => { for (const one of document.querySelectorAll("#case .thought")) one.open = $("unfold").checked; });
  $("before").addEventListener("click", () => { state.page -= 1; list(); });
  $("after").addEventListener("click", () => { state.page += 1; list(); });
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  for (const curve of document.querySelectorAll(".chart[data-run] .one")) {
    curve.addEventListener("click", () => {
      const number = Number(curve.closest(".chart").dataset.run);
      const sample = samplesOf(number).find((one) => one.id === curve.dataset.case);
      if (!sample) return;
      $("query").value = $("language").value = $("ended").value = "";
      state.chosen = sample;
      chooseRun(number);
      state.page = Math.max(0, Math.floor(state.found.indexOf(sample) / PER_PAGE));
      list();
      show(sample);
      $("transcripts").scrollIntoView({ block: "start" });
    });
  }
  chooseRun(state.run);
})();
