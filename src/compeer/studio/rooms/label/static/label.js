// Labelling by keyboard: one question has the focus, a key answers it and moves on. What is filled in is saved as it is
// filled in.

const task = await import(document.querySelector('script[src*="/workplace/annotator.js"]').src);
const { form, says, note, handIn, tell } = task;
const asks = [...form.querySelectorAll(".ask")];
const guides = [...document.querySelectorAll("[data-guide]")];
let current = asks[0];

// ---- which question has the focus

const options = (ask) => [...ask.querySelectorAll("input[type=radio]")];
const chosen = (ask) => options(ask).find((one) => one.checked);
const numbered = (ask) => options(ask).filter((one) => one.value !== "unsure"); // has a key of its own

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

// ---- the conversation opens where it is judged: at its end; a mark says that there is more above

const pane = document.querySelector(".columns .pane");
const above = pane.querySelector(".above");
const look = () => (above.hidden = pane.scrollTop < 8);
pane.scrollTop = pane.scrollHeight;
look();
pane.addEventListener("scroll", look, { passive: true });
above.addEventListener("click", () => pane.scrollTo({ top: 0 }));
for (const picture of pane.querySelectorAll("img")) // it grows when they come
  picture.addEventListener("load", () => (pane.scrollTop = pane.scrollHeight), { once: true });

// ---- saving

const answers = () =>
  Object.fromEntries(
    asks.filter(chosen).map((ask) => {
      const value = chosen(ask).value;
      return [ask.dataset.question, { true: true, false: false }[value] ?? value];
    }),
  );
const content = () => ({ answers: answers(), note: note.value, seconds: task.seconds });
let waiting = 0, saving = false, unsaved = false;

function changed() {
  if (!says.draft) return;
  unsaved = true;
  clearTimeout(waiting);
  waiting = setTimeout(save, 500);
}

async function save() {
  if (saving || task.leaving || !says.draft) return;
  saving = true;
  unsaved = false;
  let away = false;
  try {
    if ((await task.keep(says.draft, content())) && !task.leaving) tell(says.saved);
  } catch {
    away = unsaved = true;
    if (!task.leaving) tell(says.unsaved, true);
  }
  saving = false;
  if (unsaved && !task.leaving) waiting = setTimeout(save, away ? 5000 : 500);
}

addEventListener("pagehide", () => {
  if (unsaved && !task.leaving && says.draft) task.post(says.draft, content(), { keepalive: true });
});

// ---- answering and taking back

const taken = []; // what was answered on this page, to undo: the question and its answer before

form.addEventListener("change", (event) => {
  if (event.target !== note) {
    const ask = event.target.closest(".ask");
    if (event.isTrusted && ask) taken.push([ask, null]);
  }
  changed();
});
note.addEventListener("input", changed);

const first = asks.find((ask) => !chosen(ask));
if (first) go(first);
else {
  mark(asks[0]);
  handIn.focus({ preventScroll: true });
}
/** Answer the current question and move on; false when there is no such answer. */
function take(option) {
  if (!option) return false;
  const ask = current, before = chosen(ask);
  if (before !== option) taken.push([ask, before]);
  option.checked = true;
  changed();
  onward(ask);
  return true;
}

const step = (by) => () => go(asks[Math.min(Math.max(asks.indexOf(current) + by, 0), asks.length - 1)]);
task.start({
  rest: () => go(current),
  choose: (number) => take(numbered(current)[number - 1]),
  complete() {
    const open = asks.filter((ask) => !chosen(ask));
    if (!open.length) {
      clearTimeout(waiting); // what is handed in needs no draft
      return true;
    }
    tell(says.missing.replace("%", open.map((ask) => ask.querySelector("b").textContent).join(", ")), true);
    go(open[0]);
  },
  retract() {
    const last = taken.pop();
    if (!last) return false;
    const [ask, before] = last;
    for (const one of options(ask)) one.checked = one === before;
    changed();
    go(ask);
    return true;
  },
  stay: save,
  more: { ArrowDown: step(1), ArrowUp: step(-1), u: () => take(options(current).find((one) => one.value === "unsure")) },
});
