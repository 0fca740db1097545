// Comparing by keyboard: 1 to 4 choose, Enter hands in, Z takes back. Without this file the same forms work with a mouse
// or the Tab key, and every page is loaded anew.

const { post } = await import(document.querySelector('script[src*="/look/studio.js"]').src);
const form = document.getElementById("answer");
const says = form.dataset;
const state = document.getElementById("state");
const note = document.getElementById("note");
const handIn = document.getElementById("hand-in");
const options = [...form.querySelectorAll("input[name=choice]")];
const chosen = () => options.find((one) => one.checked);
let leaving = false;

function tell(text, trouble = false) {
  state.textContent = text;
  state.classList.toggle("trouble", trouble);
}

function rest() {
  (chosen() ? handIn : options[0]).focus({ preventScroll: true });
}

// ---- seconds of attention: the page is seen, and something was done in the last minute

let seconds = Number(says.seconds) || 0;
let began = performance.now(), lately = began, kept = began;
for (const kind of ["keydown", "pointermove", "wheel", "touchstart"])
  addEventListener(kind, () => (lately = performance.now()), { passive: true });
setInterval(() => {
  const now = performance.now();
  if (!document.hidden && now - lately < 60_000) seconds += (now - began) / 1000;
  began = now;
}, 500);

// somebody who reads for long keeps the comparison while they are there
setInterval(async () => {
  if (leaving || performance.now() - kept < 120_000 || performance.now() - lately > 120_000) return;
  kept = performance.now();
  try {
    const answer = await post(says.keep, {});
    if (answer.ok && !(await answer.json()).kept) tell(says.lapsed, true);
  } catch {
    // the studio is away; handing in will say so
  }
}, 30_000);

// ---- choosing, handing in, taking back

function choose(option) {
  option.checked = true;
  tell("");
  rest();
}
for (const option of options) option.addEventListener("change", () => tell(""));

/** Send a form; go where the answer says, or tell what is wrong. */
async function send(sent) {
  if (leaving) return;
  leaving = true;
  try {
    const reply = await post(sent.getAttribute("action"), new FormData(sent));
    const told = await reply.json();
    if (reply.ok && told.next) return location.assign(told.next);
    if (reply.ok) tell(says.nothing);
    else tell(`${told.error.what} ${told.error.next}`, true);
    if (["lapsed", "closed", "form", "not-yours"].includes(told.error?.kind) && sent === form)
      return setTimeout(() => location.assign("/arena/work"), 4000);
  } catch {
    tell(says.away, true);
  }
  leaving = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!chosen()) {
    tell(says.missing, true);
    return rest();
  }
  form.elements.seconds.value = Math.round(seconds * 10) / 10;
  send(form);
});
form.noValidate = true; // told in our own words, above

function undo() {
  const before = chosen();
  if (before) {
    before.checked = false;
    return rest();
  }
  send(document.getElementById("undo"));
}
document.getElementById("undo-button").addEventListener("click", (event) => {
  event.preventDefault();
  undo();
});

// thoughts are read side by side, or not at all
const thoughts = [...form.querySelectorAll(".reply details")];
for (const one of thoughts)
  one.addEventListener("toggle", () => thoughts.forEach((other) => (other.open = one.open)));

// ---- dialogs

function open(name) {
  const dialog = document.getElementById(name);
  if (document.querySelector("dialog[open]")) return;
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
  dialog.addEventListener("close", rest);
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
    else if (event.key === "Escape") rest();
    else return;
    return event.preventDefault();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, textarea")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const doing = {
    Enter: () => form.requestSubmit(),
    z: undo,
    s: () => open("skip"),
    d: () => open("distress"),
    n: () => note.focus(),
    "?": () => open("help"),
  };
  if (/^[1-4]$/.test(key)) choose(options[Number(key) - 1]);
  else if (!doing[key]) return;
  else if (key === "Enter" && event.target.matches("a, button:not(#hand-in), summary")) return;
  else doing[key]();
  event.preventDefault();
});

rest();
form.dataset.ready = "";
