// What the pages of both rooms do for an annotator: status, seconds of attention, keeping the task while it is read,
// submitting and undoing, dialogs, keys. A room's own script starts it with what differs (start, below). Without scripts
// the same forms work with a mouse or the Tab key, and every page is loaded again.

export const { post } = await import(document.querySelector('script[src*="/look/studio.js"]').src);
export const form = document.querySelector("form[data-annotator]");
export const says = form.dataset;
export const note = document.getElementById("note");
export const handIn = document.getElementById("hand-in");
export let leaving = false; // something was sent, and the page will be left
export let seconds = Number(says.seconds) || 0; // of attention: the page is seen, and something was done in the last minute

const state = document.getElementById("state");
let began = performance.now(), lately = began, kept = began;

export function tell(text, trouble = false) {
  state.textContent = text;
  state.classList.toggle("trouble", trouble);
}

for (const kind of ["keydown", "pointermove", "wheel", "touchstart"])
  addEventListener(kind, () => (lately = performance.now()), { passive: true });
setInterval(() => {
  const now = performance.now();
  if (!document.hidden && now - lately < 60_000) seconds += (now - began) / 1000;
  began = now;
}, 500);

/** Tell the studio that somebody is still here, with what they have filled in. Whether they have it still; throws when
 *  the studio is away. */
export async function keep(address, content) {
  kept = performance.now();
  const answer = await post(address, content);
  if (!answer.ok) throw new Error(answer.status);
  const still = (await answer.json()).kept;
  if (!still && !leaving) tell(says.lapsed, true);
  return still;
}

/** Send a form; go where the answer says, or tell what is wrong. */
async function send(sent) {
  if (leaving) return;
  leaving = true;
  try {
    const reply = await post(sent.getAttribute("action"), new FormData(sent));
    const answered = await reply.json();
    if (reply.ok && answered.next) return location.assign(answered.next);
    if (reply.ok) tell(says.nothing);
    else tell(`${answered.error.what} ${answered.error.next}`, true);
    if (["lapsed", "closed", "form", "not-yours"].includes(answered.error?.kind) && sent === form)
      return setTimeout(() => location.assign(says.work), 4000);
  } catch {
    tell(says.away, true);
  }
  leaving = false;
}

function open(name) {
  const dialog = document.getElementById(name);
  if (!dialog || document.querySelector("dialog[open]")) return;
  dialog.showModal();
  dialog.querySelector("[autofocus], input[type=radio]:checked, [data-closes]")?.focus();
}

/** Begin. What is the room's own:
 *  rest     put the focus where work goes on
 *  choose   the key of a number was pressed; true when that means something here
 *  complete whether everything is answered; it tells what is not
 *  retract  take back what was answered last on this page; true when there was something
 *  stay     somebody has been reading for long: keep it for them
 *  more     other keys */
export function start({ rest, choose, complete, retract, stay, more = {} }) {
  setInterval(() => {
    if (!leaving && performance.now() - kept > 120_000 && performance.now() - lately < 120_000) stay();
  }, 30_000);

  form.noValidate = true; // said in our own words
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!complete()) return;
    form.elements.seconds.value = Math.round(seconds * 10) / 10;
    send(form);
  });

  function undo() {
    const back = document.getElementById("undo");
    if (!retract() && back) send(back);
  }
  document.getElementById("undo-button")?.addEventListener("click", (event) => {
    event.preventDefault();
    undo();
  });

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

  const doing = {
    Enter: () => form.requestSubmit(),
    z: undo,
    s: () => open("skip"),
    d: () => open("distress"),
    n: () => note.focus(),
    "?": () => open("help"),
    ...more,
  };
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
    if (/^[1-9]$/.test(key) && choose(Number(key))) return event.preventDefault();
    if (!doing[key]) return;
    if (key === "Enter" && event.target.matches("a, button:not(#hand-in), summary")) return;
    if (key.startsWith("Arrow") && event.target.closest(".pane, .guide")) return; // they scroll there
    doing[key]();
    event.preventDefault();
  });

  addEventListener("pageshow", (event) => event.persisted && location.reload()); // kept by the browser: out of date
  form.dataset.ready = "";
}
