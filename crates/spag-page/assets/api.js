// Requests to the server. Each error says what happened; a request can always be sent again.

import { store } from "./dom.js";
import { askForKey } from "./key.js";

/** Why a request failed. `status` is 0 if there was no answer. */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const NO_ANSWER = "The server does not answer. When it runs again, try again: nothing is lost.";
const TORN = "The connection was lost in the middle of an utterance. Try again: nothing is lost.";

let key = store.get("key");
let asking = null;

/** Asks for a key; one dialog for all requests that wait for it. */
function newKey(refused) {
  asking ??= askForKey(refused).then((given) => {
    asking = null;
    if (!given) throw new RequestError(401, "Without a key this server answers nothing.");
    key = given;
    store.set("key", key);
  });
  return asking;
}

async function explain(response) {
  let message = "";
  try { message = (await response.json()).error.message; } catch { /* Not an answer of this server. */ }
  if (response.status === 429) return `The server has too much to do now. Try again in a moment. (${message})`;
  if (response.status === 503) return `The server takes no requests now. Try again later. (${message})`;
  return message || `The server answers with status ${response.status}.`;
}

async function send(path, options) {
  for (;;) {
    const used = key;
    const headers = { ...options.headers };
    if (used) headers.Authorization = `Bearer ${used}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestError(0, NO_ANSWER);
    }
    if (response.status === 401) {
      // Another request may have asked for a key meanwhile.
      if (key === used) await newKey(Boolean(used));
      continue;
    }
    if (!response.ok) throw new RequestError(response.status, await explain(response));
    return response;
  }
}

async function json(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(0, NO_ANSWER);
  }
}

const JSON_BODY = { "Content-Type": "application/json" };

/** GET with the parameters that are not empty. */
export async function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return json(await send(query ? `${path}?${query}` : path, { signal }));
}

/** POST with JSON. */
export async function post(path, body, signal = undefined) {
  return json(await send(path, { method: "POST", headers: JSON_BODY, body: JSON.stringify(body), signal }));
}

/** POST whose answer is a stream. `onPiece` gets each piece of text: `{ delta }`, or `{ reasoning }`. Returns the last event. */
export async function stream(path, body, onPiece, signal) {
  const response = await send(path, { method: "POST", headers: JSON_BODY, body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let last = null;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      buffer += value;
      const events = buffer.split("\n\n");
      buffer = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return last;
        last = JSON.parse(data);
        if (last.error) throw new RequestError(500, `The model gave no utterance. (${last.error.message})`);
        if (last.utterance === undefined) onPiece(last);
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof RequestError) throw error;
  }
  throw new RequestError(0, TORN);
}
