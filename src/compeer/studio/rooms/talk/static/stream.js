// Asking the studio: an object back, or an answer line by line while it is written.

const token = () => document.querySelector('meta[name="csrf"]').content;

/** What went wrong, in the studio's words. */
export class StudioError extends Error {
  constructor(error) {
    super([error.what, error.next].filter(Boolean).join(" "));
    this.kind = error.kind ?? "";
    this.detail = error.detail ?? "";
  }
}

async function asked(address, options, lost) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new StudioError({ what: lost, kind: "network" });
  }
  if (answer.ok) return answer;
  let sent = null;
  try {
    sent = (await answer.json()).error;
  } catch {
    /* no object: the sentence below says enough */
  }
  throw new StudioError(sent ?? { what: lost, kind: "network" });
}

/** Post an object (or a picture as it is) and get an object. */
export async function post(address, data, lost) {
  const raw = data instanceof Blob;
  const headers = { "X-CSRF-Token": token(), Accept: "application/json" };
  headers["Content-Type"] = raw ? data.type || "application/octet-stream" : "application/json";
  const answer = await asked(address, { method: "POST", headers, body: raw ? data : JSON.stringify(data) }, lost);
  return answer.json();
}

export async function get(address, lost) {
  return (await asked(address, { headers: { Accept: "application/json" } }, lost)).json();
}

/** Post an object and hand each line of the answer to `heard`, until it ends or `signal` stops it. */
export async function listen(address, data, heard, signal, lost) {
  const headers = { "X-CSRF-Token": token(), Accept: "application/json", "Content-Type": "application/json" };
  const answer = await asked(address, { method: "POST", headers, body: JSON.stringify(data), signal }, lost);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let whole = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        whole = whole || event.kind === "turn" || event.kind === "error";
        heard(event);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new StudioError({ what: lost, kind: "network" });
  }
  if (!whole) throw new StudioError({ what: lost, kind: "network" });
}
