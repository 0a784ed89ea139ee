// Questions to the server that are answered with JSON: within a limit of bytes, and with errors as sentences. It refuses to know
// what is asked.

/** Bytes of an answer: more is too much for a page. */
const ANSWER_BYTES_MAX = 32 << 20;
/** A server that has not answered after this time is away, as far as a reader can tell. */
export const ANSWER_MS_MAX = 60_000;

/** How far this browser's clock is ahead of the server's, as the last answer told (ms). */
export const clock = { ahead: 0 };

/** The answer of Prometheus' interface: {answer, engine, now}; `now` is the server's time (ms). Throws what the server says is wrong. */
export async function askPrometheus(path, form, signal) {
  const body = form && { method: "POST", body: new URLSearchParams(form) };
  const { response, text } = await asked(path, { ...body, cache: "no-store" }, signal);
  const answer = parsed(response, text);
  if (!response.ok || answer.status !== "success") throw new Error(answer.error ?? `the server answered ${response.status}`);
  return { answer, engine: response.headers.get("khz-engine"), now: timeOf(response) };
}

/** Of those who never give up what they asked for. */
const NEVER = new AbortController().signal;

/** The answer of one of khz's own paths. */
export async function ask(path, signal = NEVER) {
  const { response, text } = await asked(path, { cache: "no-store" }, signal);
  const answer = parsed(response, text);
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`);
  return answer;
}

/** An answer with one JSON object a line, as text. */
export async function askLines(path, signal) {
  const { response, text } = await asked(path, { cache: "no-store" }, signal);
  if (!response.ok) throw new Error(parsed(response, text).error ?? `the server answered ${response.status}`);
  return text;
}

async function asked(path, how, signal) {
  const late = AbortSignal.timeout(ANSWER_MS_MAX);
  try {
    const response = await fetch(path, { ...how, signal: AbortSignal.any([signal, late]) }).catch((error) => {
      throw error.name === "AbortError" ? error : new Error("the server cannot be reached");
    });
    clock.ahead = Date.now() - timeOf(response);
    return { response, text: await limited(response) };
  } catch (error) {
    throw late.aborted && !signal.aborted ? new Error("the server does not answer") : error;
  }
}

function parsed(response, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(response.ok ? "the answer broke off" : `the server answered ${response.status}`);
  }
}

/** The server's clock, if it tells: this browser's may be hours off. */
function timeOf(response) {
  const time = Date.parse(response.headers.get("date") ?? "");
  return Number.isNaN(time) ? Date.now() : time;
}

/** The text of an answer, unless it is too long. */
async function limited(response) {
  const decoder = new TextDecoder();
  const parts = [];
  let length = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new Error("the answer broke off");
    });
    if (done) break;
    length += value.length;
    if (length > ANSWER_BYTES_MAX) {
      reader.cancel();
      throw new Error(`the answer has more than ${ANSWER_BYTES_MAX >> 20} MiB: ask for fewer series or a shorter time`);
    }
    parts.push(decoder.decode(value, { stream: true }));
  }
  return parts.join("") + decoder.decode();
}
