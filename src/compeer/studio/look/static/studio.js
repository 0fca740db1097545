// What every page can do: the theme without a reload, posting with the page's token, closing help, scrolling wide tables
// and long texts by keyboard, quiet refreshing.
// Everything works without it, only with a reload.

/** Post a form or an object to this studio. Resolves to the Response. */
export function post(address, data, more = {}) {
  const token = document.querySelector('meta[name="csrf"]').content;
  const form = data instanceof FormData;
  const headers = { "X-CSRF-Token": token, Accept: "application/json" };
  if (!form) headers["Content-Type"] = "application/json";
  return fetch(address, { method: "POST", headers, body: form ? data : JSON.stringify(data), credentials: "same-origin", ...more });
}

const theme = document.querySelector("#theme");
theme?.addEventListener("change", async () => {
  document.documentElement.dataset.theme = theme.value;
  await post("/look", new FormData(theme.form), { keepalive: true }); // also when the page is left at once
});

const help = document.querySelector("#help-now");
document.addEventListener("click", (event) => {
  if (!help?.contains(event.target)) help.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !help?.open) return;
  help.open = false;
  help.querySelector("summary").focus();
  event.stopImmediatePropagation(); // closes nothing else
});

/** What scrolls takes the focus, so that arrow keys reach all of it; what fits need not. */
const scrollers = new ResizeObserver((changed) => {
  for (const { target } of changed) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (scrolls) target.tabIndex = 0;
    else if (target.tabIndex === 0) target.removeAttribute("tabindex");
  }
});
for (const one of document.querySelectorAll(".scroll:not([tabindex]), .pane:not([tabindex])")) scrollers.observe(one);

/** Elements with data-live="seconds" are fetched again and exchanged when they have changed and nobody is using them. */
async function refresh() {
  const parts = [...document.querySelectorAll("[data-live][id]")];
  if (document.hidden || parts.length === 0) return;
  let page;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // the studio is away; the page stays as it is
  }
  for (const part of parts) {
    const fresh = page.getElementById(part.id);
    const used = part.contains(document.activeElement) || part.querySelector("details[open], input:checked");
    if (fresh && !used && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
  }
}

const live = document.querySelector("[data-live]");
if (live) setInterval(refresh, 1000 * Number(live.dataset.live));
