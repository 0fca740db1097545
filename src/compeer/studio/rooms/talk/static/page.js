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
  post: (address, data) => post(address, data, lost), trouble: tell, most: settled.picture,
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
  const items = drawing.all(state.turns, does, !state.unanswered && !stopping && !urgent(), urgent());
  if (left) {
    const button = stopping ? null : make("button", { type: "button", class: "small-button", onclick: () => does.again({}) }, say("talk.answer"));
    items.push(make("li", { class: "turn" }, drawing.said(left.said, left.pictures), make("p", { class: "waiting row-s" }, make("span", { class: "quiet" }, say("talk.unanswered")), button)));
  }
  at("turns").replaceChildren(...items);
  drawCurve(at("curve"), urgent() ? [] : state.turns);
}

function drawTools() {
  const select = at("model");
  if (!select.options.length) {
    for (const [index, one] of models.entries()) {
      const words = one.place ? say("talk.model.there", one) : say("talk.model.here", one);
      select.append(make("option", { value: String(index) }, words));
    }
  }
  select.value = String(state.model);
  at("small").hidden = !models[state.model].small;
  at("picture").setAttribute("aria-disabled", String(!models[state.model].sees));
  const empty = state.turns.length === 0 && !state.unanswered;
  at("save").hidden = at("delete").hidden = empty && !stopping;
  const writing = stopping !== null;
  at("send").hidden = writing;
  at("stop").hidden = !writing;
  for (const id of ["model", "picture"]) at(id).disabled = writing;
  room.classList.toggle("writing", writing);
}

function drawThinking(anew = false) {
  const open = shown !== null;
  at("panel").hidden = !open;
  room.classList.toggle("open", open);
  at("think").setAttribute("aria-expanded", String(open));
  if (!open || (!anew && !thought && at("panel").querySelector(".editing"))) return; // someone is writing in it
  let view = { number: state.turns.length, answer: null, pins: state.pins };
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
    state = await post(address, data, lost);
    tell(null);
  } catch (error) {
    fail(error);
    if (error.kind === "elsewhere") state = await get("/talk/state", lost);
  }
  draw();
}

function openPanel(number, which = null) {
  shown = { number, which };
  drawThinking(true);
  at("panel").focus({ preventScroll: true });
}

function closePanel() {
  shown = null;
  at("panel").replaceChildren();
  drawThinking();
  if (!urgent()) at("think").focus();
}

const does = {
  why: (number, which) => openPanel(number, which),
  close: closePanel,
  again: (pins) => answer("/talk/again", { pins }, null),
  edit: (step, text, fixed) => answer("/talk/edit", { step, text, labels: fixed }, null),
  choose: (which) => change("/talk/choose", { seen: state.turns.length, which }),
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
  const reply = make("p", { class: "reply" });
  const place = make("article", { class: "answer coming" }, status, reply);
  if (message) {
    const turn = make("li", { class: "turn" }, drawing.said(message.text, message.pictures), make("h2", { class: "who" }, say("talk.supporter")), make("div", { class: "answers" }, place));
    at("turns").append(turn);
  } else {
    // the answer on the screen moves to the side, where it stays to compare
    const answers = at("turns").lastElementChild.querySelector(".answers");
    answers.classList.add("beside");
    answers.replaceChildren(place, drawing.answer(state.turns.at(-1).answer, { old: true, actions: [] }));
  }
  return { status, reply, place, words: reveal(reply) };
}

/** Ask, and show the answer as it comes. `message`: a new one, or null for the last one. */
function answer(address, data, message) {
  if (!stopping) answering = write(address, data, message);
}

async function write(address, data, message) {
  tell(null);
  stopping = new AbortController();
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
      state = { ...state, ...about(event), reminder: event.reminder };
      drawHelp();
      if (event.banner?.urgent) at("heard").textContent = event.banner.words;
    } else if (event.kind === "wait") {
      pulses += 1;
      if (pulses === 3) status(say("talk.thinking.long"));
    } else if (event.kind === "step") {
      status(say(`talk.thinking.${event.step}`));
    } else if (event.kind === "text") {
      thought.texts[event.step] = (thought.texts[event.step] ?? "") + event.text;
    } else if (event.kind === "label") {
      if (event.value !== null) thought.labels[event.label] = event.value;
    } else if (event.kind === "reply") {
      coming.status.textContent = say("talk.thinking.reply");
      coming.words.add(event.text);
    } else if (event.kind === "turn") {
      state = { ...state, ...about(event), finished: event.turns };
    } else if (event.kind === "error") failed = new StudioError(event.error);
    if (event.kind === "label" || event.kind === "step") drawThinking();
    if (follow) toEnd();
  };
  try {
    await listen(address, { ...data, seen: state.turns.length }, heard, stopping.signal, lost);
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
      state = await (stopped ? post("/talk/stop", {}, lost) : get("/talk/state", lost));
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
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || at("sure").open) return;
  if (at("save").open) at("save").open = false;
  else if (shown) closePanel();
  else stopping?.abort();
});
document.addEventListener("click", (event) => {
  if (!at("save").contains(event.target)) at("save").open = false;
});
at("delete").addEventListener("click", () => at("sure").showModal());
at("sure").addEventListener("close", async () => {
  if (at("sure").returnValue !== "yes") return;
  stopping?.abort();
  await answering;
  shown = null;
  pictures.clear();
  at("message").value = "";
  await change("/talk/delete", {});
  at("heard").textContent = say("talk.deleted");
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
