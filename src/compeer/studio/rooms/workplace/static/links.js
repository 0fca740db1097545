// Personal links: a button that copies each of them.
for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) break; // plain http: select and copy by hand
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).value);
    button.textContent = button.dataset.copied;
  });
}
for (const field of document.querySelectorAll(".link-line input")) field.addEventListener("focus", () => field.select());
