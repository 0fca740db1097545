// The conversation page: state in, drawing out, and what happens while an answer is written.
// The other files draw one part each; their addresses carry a hash, so they are loaded from the page's list.

const room = document.querySelector("#room");
const settled = JSON.parse(room.dataset.settled);
const parts = JSON.parse(room.dataset.parts);
const load = (name) => import(parts[name]);
const [{ make, speaker, naming, menu }, { post, get, listen, StudioError }, { turns, reveal }, { panel }, { editing }, { curve }, { care }, { attaching }] =
  await Promise.all(["draw", "stream", "turn", "panel", "editing", "curve", "care", "picture"].map(load));

const at = (id) => document.getElementById(id);
const say = speaker({ ...settled.words, ...JSON.parse(room.dataset.help) });
const { models } = settled;
const labels = Object.fromEntries(settled.labels);
const steps = Object.fromEntries(settled.steps);
const tools = { make, say, name: naming(labels), labels, steps, menu };
const lost = say("talk.error.network");
const drawing = turns(tools);
const drawPanel = panel({ ...tools, again: drawing.again, editor: editing(tools) });
const drawCurve = curve(tools);
const helping = care({ ...tools, countries: settled.countries, language: document.documentElement.lang, move: (country) => change("/talk/country", { country }) });

let state = null; // as the studio sends it
let shown = null; // what the panel shows: { number, which }
let stopping = null; // ends the answer that is being written
let answering = null; // settles when that has ended
let thought = null; // what it has thought so far

const pictures = attaching({
  ...tools, place: at("attached"), button: at("picture"), input: at("file"), model: () => models[state.model],
  post: (address, data) => post(`${address}?which=${state.conversation ?? ""}`, data, lost), trouble: tell, most: settled.picture,
});

function tell(words, detail = "") {
  at("trouble").hidden = !words;
  at("trouble").replaceChildren(...(words ? [words] : []));
  if (words && detail) at("trouble").append(make("span", { class: "detail small" }, detail));
}

function fail(error) {
  tell(error instanceof StudioError ? error.message : lost, error.detail);
  if (!(error instanceof StudioError)) console.error(error);
}

function nearEnd() {
  const scroll = at("scroll");
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
}

/** To the end, or to the beginning of the last turn where that does not fit: one reads from the top. */
function toEnd() {
  const scroll = at("scroll");
  const last = at("turns").lastElementChild;
  const top = last ? last.getBoundingClientRect().top - scroll.getBoundingClientRect().top + scroll.scrollTop : 0;
  scroll.scrollTop = last ? Math.min(top, scroll.scrollHeight) : 0;
}

// --- drawing ---------------------------------------------------------------------------------------------------------

/** High risk: words and help alone; no analysis, no curve, no second answer. */
const urgent = () => Boolean(state.urgent ?? ["high", "emergency"].includes(state.level));

function drawHelp() {
  helping.notice(at("help"), state.help);
  helping.control(document.querySelector("#help-now .help-card"), state.help);
  helping.banner(at("banner"), state.banner, state.help, state.level);
  room.classList.toggle("urgent", urgent());
  if (urgent() && shown) closePanel();
  at("reminder").hidden = !state.reminder;
  at("reminder").textContent = state.reminder ?? "";
}

/** All turns, then the message that has no answer, if there is one. */
function drawTurns(left = state.unanswered) {
  const items = drawing.all(state.turns, does, !state.unanswered && !stopping && !urgent(), !stopping, urgent());
  if (left) {
    const button = stopping ? null : make("button", { type: "button", class: "small-button", onclick: () => does.again({}) }, say("talk.answer"));
    const number = state.turns.length + 1;
    const edit = stopping || urgent() ? null : (text) => does.rewrite(number, text);
    items.push(make("li", { class: "turn" }, drawing.said(left.said, left.pictures, edit, number), make("p", { class: "waiting row-s" }, make("span", { class: "quiet" }, say("talk.unanswered")), button)));
  }
  const focused = at("turns").contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  at("turns").replaceChildren(...items);
  if (focused) at("turns").querySelector(`[data-focus="${focused}"]`)?.focus({ preventScroll: true });
  drawCurve(at("curve"), urgent() ? [] : state.turns);
}

function drawTools() {
  const select = at("model");
  if (!select.options.length) {
    for (const [index, one] of models.entries()) {
      const words = one.place ? say("talk.model.there", one) : say("talk.model.here", one);
      select.append(make("option", { value: String(index) }, one.no_chinese ? `${words} (${say("talk.model.english")})` : words));
    }
  }
  select.value = String(state.model);
  at("small").hidden = !models[state.model].small;
  at("picture").setAttribute("aria-disabled", String(!models[state.model].sees));
  const empty = state.turns.length === 0 && !state.unanswered;
  const writing = stopping !== null;
  at("save").hidden = empty && !writing;
  at("delete").hidden = !state.conversations.length && !writing;
  for (const link of at("save").querySelectorAll("a")) link.search = state.conversation ? `?which=${state.conversation}` : "";
  drawLists(writing);
  drawLacks();
  at("send").hidden = writing;
  at("stop").hidden = !writing;
  for (const id of ["model", "picture", "new"]) at(id).disabled = writing;
  room.classList.toggle("writing", writing);
}

/** The conversations of this visit, and what is kept of ratings. */
function drawLists(writing) {
  const items = state.conversations.map(({ id, title }) => {
    const here = id === state.conversation;
    const open = make("button", { type: "button", class: "plain-button", disabled: writing || here, "aria-current": here ? "true" : null, onclick: () => move("/talk/open", { conversation: id }) }, title);
    const drop = make("button", { type: "button", class: "plain-button", disabled: writing, "aria-label": say("talk.list.delete.of", { title }), onclick: () => change("/talk/delete", { conversation: id }) }, say("talk.list.delete"));
    return make("li", {}, open, drop);
  });
  at("conversations").replaceChildren(...items);
  for (const choice of at("ratings").querySelectorAll("input")) choice.checked = choice.value === state.kept;
}

/** A model that knows little Chinese says so before it is asked in Chinese. */
function drawLacks() {
  const chinese = document.documentElement.lang.startsWith("zh") || /[\u3400-\u9fff]/.test(at("message").value);
  at("lacks").hidden = !(models[state.model].no_chinese && chinese);
}

function drawThinking(anew = false) {
  const open = shown !== null;
  at("panel").hidden = !open;
  room.classList.toggle("open", open);
  at("think").setAttribute("aria-expanded", String(open));
  if (!open || (!anew && !thought && at("panel").querySelector(".editing"))) return; // someone is writing in it
  let view = { number: state.turns.length, answer: null, pins: state.pins, think: state.think, model: models[state.model] };
  if (thought) view = { ...view, number: thought.number, answer: thought, live: true, latest: true };
  else if (state.turns.length) {
    const number = Math.min(shown.number, state.turns.length);
    const turn = state.turns[number - 1];
    const latest = number === state.turns.length && !state.unanswered;
    const old = shown.which !== null && shown.which < turn.others.length;
    const answer = old ? turn.others[shown.which] : turn.answer;
    view = { ...view, number, answer, old, latest: latest && !old, changeable: latest && !old };
  }
  const focused = document.activeElement?.dataset?.focus;
  drawPanel(at("panel"), view, does);
  if (focused) (at("panel").querySelector(`[data-focus="${focused}"]`) ?? at("panel")).focus({ preventScroll: true });
}

function draw() {
  drawHelp();
  if (!stopping) drawTurns(); // else the answer that is being written would go
  drawTools();
  drawThinking();
}

// --- doing -----------------------------------------------------------------------------------------------------------

async function change(address, data) {
  try {
    state = await post(address, { conversation: state.conversation, ...data }, lost);
    tell(null);
  } catch (error) {
    fail(error);
    if (error.kind === "elsewhere") state = await get("/talk/state", lost);
  }
  draw();
}

/** To another conversation, or a new one. */
async function move(address, data) {
  at("list").open = false;
  shown = null;
  pictures.clear();
  await change(address, data);
  toEnd();
  at("message").focus();
}

let opener = null; // what gets the focus back

function openPanel(number, which = null) {
  opener = document.activeElement?.dataset?.focus ?? null;
  shown = { number, which };
  drawThinking(true);
  at("panel").focus({ preventScroll: true });
}

function closePanel() {
  shown = null;
  at("panel").replaceChildren();
  drawThinking();
  if (urgent()) return;
  const places = [opener && at("turns").querySelector(`[data-focus="${opener}"]`), at("think"), at("message")];
  places.find((one) => one?.checkVisibility())?.focus();
}

const does = {
  why: (number, which) => openPanel(number, which),
  close: closePanel,
  again: (pins) => answer("/talk/again", { pins }, null),
  edit: (step, text, fixed) => answer("/talk/edit", { step, text, labels: fixed }, null),
  choose: (which) => change("/talk/choose", { seen: state.turns.length, which }),
  rewrite(number, text) {
    if (stopping) return;
    const past = state.turns[number - 1];
    // what followed is not shown while the new answer is written; the studio keeps it
    const pictures = past?.pictures ?? state.unanswered?.pictures ?? [];
    answer("/talk/rewrite", { number, text, seen: state.turns.length }, { text, pictures, number });
  },
  restore: (number, which) => change("/talk/restore", { seen: state.turns.length, number, which }),
  rate: (number, thumb) => change("/talk/rate", { seen: state.turns.length, number, thumb }),
  keeps: () => state.kept !== "off",
  consent() {
    room.classList.add("more");
    at("more").setAttribute("aria-expanded", "true");
    at("ratings").open = true;
    at("ratings").querySelector("input:checked").focus();
  },
  think: (think) => change("/talk/think", { think }),
  pin(values) {
    const pins = values === null ? {} : { ...state.pins, ...values };
    for (const [label, value] of Object.entries(pins)) if (value === null) delete pins[label];
    // an emotion brings its own sentiment: the one that was not just chosen gives way
    if (pins.emotion && pins.sentiment && !tools.name("emotion", pins.emotion).sentiments.includes(pins.sentiment)) {
      delete pins[values.emotion ? "sentiment" : "emotion"];
    }
    return change("/talk/pins", { pins });
  },
};

/** What an event says about risk and help. */
function about(event) {
  const { banner, help, level, urgent } = event;
  return { banner, help, level, urgent };
}

/** The place where an answer appears while it is written. */
function stage(message) {
  const status = make("p", { class: "status" }, say("talk.thinking"));
  const thinking = make("p", { class: "thinking small" });
  const reply = make("p", { class: "reply" });
  const place = make("article", { class: "answer coming" }, status, thinking, reply);
  if (message) {
    const turn = make("li", { class: "turn" }, drawing.said(message.text, message.pictures), make("h2", { class: "who" }, say("talk.supporter")), make("div", { class: "answers" }, place));
    at("turns").append(turn);
  } else {
    // the answer on the screen moves to the side, where it stays to compare
    const answers = at("turns").lastElementChild.querySelector(".answers");
    answers.classList.add("beside");
    answers.replaceChildren(place, drawing.answer(state.turns.at(-1).answer, { old: true, actions: [] }));
  }
  return { status, thinking, reply, place, words: reveal(reply) };
}

/** Ask, and show the answer as it comes. `message`: a new one, or null for the last one. */
function answer(address, data, message) {
  if (!stopping) answering = write(address, data, message);
}

async function write(address, data, message) {
  tell(null);
  stopping = new AbortController();
  const known = state.turns.length;
  if (message?.number) state = { ...state, turns: state.turns.slice(0, message.number - 1), unanswered: null };
  drawTurns(message ? state.unanswered : null); // without a new message, this one is answered now
  const waiting = state.unanswered && { text: state.unanswered.said, pictures: state.unanswered.pictures };
  const coming = stage(message ?? waiting);
  thought = { number: state.turns.length + (message ? 1 : 0) + (state.unanswered ? 1 : 0), texts: {}, labels: {} };
  drawTools();
  drawThinking();
  toEnd();
  const status = (words) => {
    coming.status.textContent = words;
    at("heard").textContent = words;
  };
  status(say("talk.thinking"));
  let pulses = 0;
  let failed = null;
  const heard = (event) => {
    const follow = nearEnd();
    if (event.kind === "before") {
      state = { ...state, ...about(event), conversation: event.conversation, reminder: event.reminder };
      if (!state.conversations.some((one) => one.id === event.conversation)) {
        state.conversations = [...state.conversations, { id: event.conversation, title: event.title }];
      }
      drawHelp();
      if (event.banner?.urgent) at("heard").textContent = event.banner.words;
    } else if (event.kind === "wait") {
      pulses += 1;
      if (pulses === 3) status(say("talk.thinking.long"));
    } else if (event.kind === "step") {
      status(say(`talk.thinking.${event.step}`));
      coming.thinking.textContent = "";
    } else if (event.kind === "text") {
      thought.texts[event.step] = (thought.texts[event.step] ?? "") + event.text;
      coming.thinking.append(event.text);
      const live = at("panel").querySelector(`[data-step="${event.step}"] .thought-text`);
      if (live) live.append(event.text);
      else drawThinking();
    } else if (event.kind === "label") {
      if (event.value !== null) thought.labels[event.label] = event.value;
    } else if (event.kind === "reply") {
      coming.status.textContent = say("talk.thinking.reply");
      coming.thinking.remove();
      coming.words.add(event.text);
    } else if (event.kind === "turn") {
      state = { ...state, ...about(event), finished: event.turns };
    } else if (event.kind === "error") failed = new StudioError(event.error);
    if (event.kind === "label" || event.kind === "step") drawThinking();
    if (follow) toEnd();
  };
  try {
    await listen(address, { conversation: state.conversation, ...data, seen: known }, heard, stopping.signal, lost);
    if (!failed) {
      const following = setInterval(() => nearEnd() && toEnd(), 100);
      await coming.words.end();
      clearInterval(following);
    }
  } catch (error) {
    failed = error;
  }
  coming.words.cut();
  await settle(failed, message);
}

/** After an answer, whole or not: the page as the studio knows it. */
async function settle(failed, message) {
  const stopped = failed?.name === "AbortError";
  stopping = thought = null;
  const { finished } = state;
  if (!failed && finished) {
    // all turns: a message before it that got no answer has become a turn as well
    const last = finished.at(-1).answer;
    state = { ...state, turns: finished, unanswered: null, finished: undefined };
    at("heard").textContent = [last.note, last.reply, last.problem].filter(Boolean).join(" ");
  } else {
    if (message && ["busy", "elsewhere", "message", "turns", "network"].includes(failed.kind)) at("message").value = message.text;
    try {
      state = await (stopped ? post("/talk/stop", { conversation: state.conversation }, lost) : get("/talk/state", lost));
    } catch {
      /* the studio is away: the page stays as it is, and the trouble says so */
    }
    if (stopped) at("heard").textContent = say("talk.stopped");
    else fail(failed);
  }
  if (shown) shown = { number: state.turns.length, which: null };
  const follow = nearEnd();
  draw();
  if (follow) toEnd();
  if (!at("panel").contains(document.activeElement) && matchMedia("(hover: hover)").matches) at("message").focus();
}

// --- listening -------------------------------------------------------------------------------------------------------

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("message").value.trim();
  if (!text || stopping || !state) return;
  if (text.length > settled.longest) return tell(say("talk.error.message", { most: settled.longest }));
  const keys = pictures.keys();
  at("message").value = "";
  pictures.clear();
  answer("/talk/say", { text, pictures: keys }, { text, pictures: keys });
});
at("message").addEventListener("keydown", (event) => {
  // while a Chinese word is being composed, Enter belongs to the input method
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
    event.preventDefault();
    at("composer").requestSubmit();
  }
});
at("stop").addEventListener("click", () => stopping?.abort());
at("think").addEventListener("click", () => (shown ? closePanel() : openPanel(state.turns.length)));
at("model").addEventListener("change", () => {
  pictures.clear();
  change("/talk/model", { seen: state.turns.length, which: Number(at("model").value) });
});
const menus = ["list", "ratings", "save"].map(at);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = menus.find((one) => one.open);
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  } else if (shown) closePanel();
  else stopping?.abort();
});
document.addEventListener("click", (event) => {
  for (const one of menus) if (!one.contains(event.target) && event.target.isConnected) one.open = false;
});
at("more").addEventListener("click", () => {
  at("more").setAttribute("aria-expanded", String(room.classList.toggle("more")));
});
at("message").addEventListener("input", () => state && drawLacks());
at("new").addEventListener("click", () => move("/talk/new", {}));
at("ratings").addEventListener("change", (event) => change("/talk/consent", { scope: event.target.value }));
at("delete").addEventListener("click", async () => {
  stopping?.abort();
  await answering;
  shown = null;
  pictures.clear();
  at("message").value = "";
  await change("/talk/delete", { conversation: null });
  at("heard").textContent = say(state.kept === "off" ? "talk.deleted" : "talk.deleted.kept");
  tell(state.kept === "off" ? null : say("talk.deleted.kept"));
  at("message").focus();
});

try {
  state = await get("/talk/state", lost);
  draw();
  toEnd();
  room.dataset.ready = "yes";
} catch (error) {
  fail(error);
}
