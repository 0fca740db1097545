// A picture for the next message: made smaller in the browser, which also leaves out where and with what it was taken.

const WIDEST = 1280;
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** The picture as a smaller JPEG; null when it is none that the browser can show. */
export async function smaller(file) {
  if (!KINDS.includes(file.type)) return null;
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    return null;
  }
  const scale = Math.min(1, WIDEST / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const paper = canvas.getContext("2d");
  paper.fillStyle = "white";
  paper.fillRect(0, 0, canvas.width, canvas.height);
  paper.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.88));
}

export function attaching({ make, say, place, button, input, model, post, trouble, most, asked, reload }) {
  let key = null;
  let address = null;

  function clear() {
    if (address) URL.revokeObjectURL(address);
    key = address = null;
    place.hidden = true;
    place.replaceChildren();
    input.value = "";
  }

  async function take(file) {
    clear();
    if (!file) return;
    if (!model().sees) return trouble(say("talk.error.picture_blind"));
    const made = await smaller(file);
    if (!made) return trouble(say("talk.error.picture_kind"));
    if (made.size > most) return trouble(say("talk.error.picture_large", { most: Math.round(most / 1048576) }));
    try {
      key = (await post("/talk/picture", made)).picture;
    } catch (error) {
      return trouble(error.message);
    }
    trouble(null);
    address = URL.createObjectURL(made);
    const drop = make("button", { type: "button", class: "plain-button", onclick: () => (clear(), button.focus()) }, say("talk.picture.remove"));
    place.replaceChildren(make("img", { src: address, alt: say("talk.picture.alt") }), make("span", { class: "quiet small" }, say("talk.picture.ready")), drop);
    place.hidden = false;
  }

  button.addEventListener("click", () => (model().sees ? input.click() : trouble(say("talk.error.picture_blind"))));
  input.addEventListener("change", () => take(input.files[0]));
  return { clear, take, keys: () => (key ? [key] : []) };
}
