// The recording of a postcard: the rows of what is seen, as a file that khz reads, with a note that says where it is from. It
// refuses to fetch without an end.

/** Bytes of a recording: what a browser holds and a mail may take. */
export const RECORDING_BYTES_MAX = 64 << 20;
/** An answer that says nothing for this long has broken off. */
const SILENCE_MS = 30_000;
/** The header of the file: magic, version, and three bytes. */
const HEADER_BYTES = 8;
/** A chunk (docs/record.md): kind, length, mark and checksum stand before its content. */
const NOTE = 7;
const FRONT_BYTES = 5;
const SEAL_BYTES = 8;
const MARK = "khzC";

/** Fetches the rows that the patterns select; `note` is an object; `on(bytes)` hears how far it is. */
export async function recordingOf({ match, from, to }, note, on) {
  const query = new URLSearchParams(match.map((pattern) => ["match", pattern]));
  query.append("from", from);
  query.append("to", to);
  query.append("recording", "1");
  const stop = new AbortController();
  let timer = 0;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(new Error("the server does not answer")), SILENCE_MS);
  };
  watch();
  try {
    const response = await fetch(`khz/v1/range?${query}`, { cache: "no-store", signal: stop.signal });
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error ?? `the server answered ${response.status}`);
    const parts = [];
    let length = 0;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      watch();
      length += value.length;
      if (length > RECORDING_BYTES_MAX) {
        stop.abort();
        throw new Error(`the recording has more than ${RECORDING_BYTES_MAX >> 20} MiB: choose a shorter time or fewer nodes, or use khz record --from`);
      }
      parts.push(value);
      on(length);
    }
    return withNote(parts, note);
  } catch (error) {
    throw error instanceof TypeError ? new Error("the answer broke off") : error;
  } finally {
    clearTimeout(timer);
  }
}

/** The file with a note after its header. */
async function withNote(parts, note) {
  const whole = new Uint8Array(await new Blob(parts).arrayBuffer());
  if (new TextDecoder().decode(whole.subarray(0, 4)) !== "khzT") throw new Error("the answer is no recording");
  return new Blob([whole.subarray(0, HEADER_BYTES), noteChunk(note), whole.subarray(HEADER_BYTES)], { type: "application/x-khz-recording" });
}

/** A note as a chunk of a recording. */
export function noteChunk(note) {
  const content = new TextEncoder().encode(JSON.stringify(note));
  const chunk = new Uint8Array(FRONT_BYTES + SEAL_BYTES + content.length);
  const view = new DataView(chunk.buffer);
  chunk[0] = NOTE;
  view.setUint32(1, SEAL_BYTES + content.length, true);
  chunk.set(new TextEncoder().encode(MARK), FRONT_BYTES);
  chunk.set(content, FRONT_BYTES + SEAL_BYTES);
  view.setUint32(FRONT_BYTES + MARK.length, checksum([chunk.subarray(0, FRONT_BYTES), content]), true);
  return chunk;
}

/** CRC-32, as zlib computes it. */
function checksum(parts) {
  let crc = ~0;
  for (const part of parts) {
    for (const byte of part) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
  }
  return ~crc >>> 0;
}
