// Comparing by keyboard: 1 to 4 choose, Enter hands in, Z takes back.

const task = await import(document.querySelector('script[src*="/workplace/annotator.js"]').src);
const { form, says, tell } = task;
const options = [...form.querySelectorAll("input[name=choice]")];
const chosen = () => options.find((one) => one.checked);

function rest() {
  (chosen() ? task.handIn : options[0]).focus({ preventScroll: true });
}

for (const option of options) option.addEventListener("change", () => tell(""));

// thoughts are read side by side, or not at all
const thoughts = [...form.querySelectorAll(".reply details")];
for (const one of thoughts)
  one.addEventListener("toggle", () => thoughts.forEach((other) => (other.open = one.open)));

rest();
task.start({
  rest,
  choose(number) {
    if (!options[number - 1]) return false;
    options[number - 1].checked = true;
    tell("");
    rest();
    return true;
  },
  complete() {
    if (chosen()) return true;
    tell(says.missing, true);
    rest();
  },
  retract() {
    const before = chosen();
    if (!before) return false;
    before.checked = false;
    rest();
    return true;
  },
  stay: () => task.keep(says.keep, {}).catch(() => {}), // the studio is away; handing in will say so
});
