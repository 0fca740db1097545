// Labelling by keyboard: one question has the focus, a key answers it and moves on. What is filled in is saved as it is
// filled in. Without this file the same forms work with a mouse or the Tab key, and every page is loaded anew.

const { post } = await import(document.querySelector('script[src*="/look/studio.js"]').src);
const form = document.getElementById("answers");
const says = form.dataset;
const state = document.getElementById("state");
const note = document.getElementById("note");
const handIn = document.getElementById("hand-in");
const asks = [...form.querySelectorAll(".ask")];
const guides = [...document.querySelectorAll("[data-guide]")];
let current = asks[0];

function tell(text, trouble = false) {
  state.textContent = text;
  state.classList.toggle("trouble", trouble);
}

// ---- which question has the focus

const options = (ask) => [...ask.querySelectorAll("input[type=radio]")];
const chosen = (ask) => options(ask).find((one) => one.checked);

function mark(ask) {
  current = ask;
  for (const one of asks) one.classList.toggle("now", one === ask);
  for (const one of guides) one.hidden = one.dataset.guide !== ask.dataset.question;
}

function go(ask) {
  mark(ask);
  (chosen(ask) ?? options(ask)[0]).focus({ preventScroll: true });
  ask.scrollIntoView({ block: "nearest" });
}

/** After an answer: the next question without one, else the button. */
function onward(ask) {
  const next = asks.slice(asks.indexOf(ask) + 1).find((one) => !chosen(one)) ?? asks.find((one) => !chosen(one));
  if (next) return go(next);
  handIn.focus({ preventScroll: true });
  handIn.scrollIntoView({ block: "nearest" });
}

form.addEventListener("focusin", (event) => {
  const ask = event.target.closest(".ask");
  if (ask) mark(ask);
});

// ---- seconds of attention: the page is seen, and something was done in the last minute

let seconds = Number(says.seconds) || 0;
let lately = performance.now();
for (const kind of ["keydown", "pointermove", "wheel", "touchstart"])
  addEventListener(kind, () => (lately = performance.now()), { passive: true });
setInterval(() => {
  if (!document.hidden && performance.now() - lately < 60_000) seconds += 1;
}, 1000);

// ---- saving

const answers = () =>
  Object.fromEntries(
    asks.filter(chosen).map((ask) => {
      const value = chosen(ask).value;
      return [ask.dataset.question, { true: true, false: false }[value] ?? value];
    }),
  );
const content = () => ({ answers: answers(), note: note.value, seconds });
let waiting = 0, saving = false, unsaved = false, savedAt = performance.now(), leaving = false;

function changed() {
  if (!says.draft) return;
  unsaved = true;
  clearTimeout(waiting);
  waiting = setTimeout(save, 500);
}

async function save() {
  if (saving || leaving || !says.draft) return;
  saving = true;
  unsaved = false;
  let kept;
  try {
    const answer = await post(says.draft, content());
    if (!answer.ok) throw new Error(answer.status);
    kept = (await answer.json()).saved;
    savedAt = performance.now();
    if (!leaving) tell(kept ? says.saved : says.lapsed, !kept);
  } catch {
    unsaved = true;
    if (!leaving) tell(says.unsaved, true);
  }
  saving = false;
  if (unsaved && !leaving) waiting = setTimeout(save, kept === undefined ? 5000 : 500);
}

// somebody who reads for long keeps the item while they are there
setInterval(() => {
  if (performance.now() - savedAt > 120_000 && performance.now() - lately < 120_000) save();
}, 30_000);
addEventListener("pagehide", () => {
  if (!unsaved || leaving || !says.draft) return;
  const token = document.querySelector('meta[name="csrf"]').content;
  const headers = { "X-CSRF-Token": token, "Content-Type": "application/json", Accept: "application/json" };
  fetch(says.draft, { method: "POST", keepalive: true, headers, body: JSON.stringify(content()) });
});

// ---- answering, taking back, handing in

const taken = []; // what was answered on this page, to undo: the question and its answer before

function answer(ask, option) {
  const before = chosen(ask);
  if (before !== option) taken.push([ask, before]);
  option.checked = true;
  changed();
  onward(ask);
}

form.addEventListener("change", (event) => {
  if (event.target !== note) {
    const ask = event.target.closest(".ask");
    if (event.isTrusted && ask) taken.push([ask, null]);
  }
  changed();
});
note.addEventListener("input", changed);

/** Send a form; go where the answer says, or tell what is wrong. True when it was taken. */
async function send(sent, away) {
  if (leaving) return;
  leaving = true;
  clearTimeout(waiting);
  try {
    const reply = await post(sent.getAttribute("action"), new FormData(sent));
    const told = await reply.json();
    if (reply.ok && told.next) return location.assign(told.next);
    if (reply.ok) tell(says.nothing);
    else tell(`${told.error.what} ${told.error.next}`, true);
    if (told.error?.kind && ["lapsed", "closed", "form", "not-yours"].includes(told.error.kind) && sent === form)
      return setTimeout(() => location.assign("/label/work"), 4000);
  } catch {
    tell(away, true);
  }
  leaving = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const open = asks.filter((ask) => !chosen(ask));
  if (open.length) {
    tell(says.missing.replace("%", open.map((ask) => ask.querySelector("b").textContent).join(", ")), true);
    return go(open[0]);
  }
  form.elements.seconds.value = Math.round(seconds * 10) / 10;
  send(form, says.away);
});
form.noValidate = true; // told in our own words, above

function undo() {
  const last = taken.pop();
  if (last) {
    const [ask, before] = last;
    for (const one of options(ask)) one.checked = one === before;
    changed();
    return go(ask);
  }
  const back = document.getElementById("undo");
  if (back) send(back, says.away);
}
document.getElementById("undo-button")?.addEventListener("click", (event) => {
  event.preventDefault();
  undo();
});

// ---- dialogs

function open(name) {
  const dialog = document.getElementById(name);
  if (!dialog || document.querySelector("dialog[open]")) return;
  dialog.showModal();
  dialog.querySelector("[autofocus], input[type=radio]:checked, [data-closes]")?.focus();
}
for (const link of document.querySelectorAll("[data-opens]"))
  link.addEventListener("click", (event) => {
    event.preventDefault();
    open(link.dataset.opens);
  });
for (const button of document.querySelectorAll("[data-closes]"))
  button.addEventListener("click", () => button.closest("dialog").close());
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("close", () => go(current));
  dialog.addEventListener("keydown", (event) => {
    const radio = dialog.querySelectorAll("input[type=radio]")[Number(event.key) - 1];
    if (!radio || event.target.matches("input:not([type=radio])")) return;
    event.preventDefault();
    radio.checked = true;
    radio.focus();
  });
  dialog.addEventListener("submit", () => (leaving = true));
}

// ---- the keys

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.target === note) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    else if (event.key === "Escape") go(current);
    else return;
    return event.preventDefault();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, textarea")) return;
  const place = asks.indexOf(current);
  const doing = {
    Enter: () => form.requestSubmit(),
    ArrowDown: () => go(asks[Math.min(place + 1, asks.length - 1)]),
    ArrowUp: () => go(asks[Math.max(place - 1, 0)]),
    z: undo,
    s: () => open("skip"),
    d: () => open("distress"),
    n: () => note.focus(),
    "?": () => open("help"),
  };
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const option = /^[1-4]$/.test(key) ? options(current)[Number(key) - 1] : null;
  if (option) answer(current, option);
  else if (!doing[key]) return;
  else if (key === "Enter" && event.target.matches("a, button, summary")) return;
  else if (key.startsWith("Arrow") && event.target.closest(".pane, .guide")) return; // they scroll there
  else doing[key]();
  event.preventDefault();
});

addEventListener("pageshow", (event) => event.persisted && location.reload()); // kept by the browser: out of date

const first = asks.find((ask) => !chosen(ask));
if (first) go(first);
else {
  mark(asks[0]);
  handIn.focus({ preventScroll: true });
}
