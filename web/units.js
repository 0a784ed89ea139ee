// Numbers as people read them: three digits and a unit. It refuses to print an unknown value as a number.

export const UNKNOWN_TEXT = "–";

/** At most three digits, never an exponent. */
export function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

function scaled(value, base, signs) {
  let i = 0;
  let size = Math.abs(value);
  while (size >= base * 0.9995 && i < signs.length - 1) {
    size /= base;
    i++;
  }
  const text = i === 0 && Number.isInteger(value) ? size.toFixed(0) : digits(size);
  return [value < 0 ? `−${text}` : text, signs[i]];
}

const BYTE_SIGNS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNT_SIGNS = ["", "k", "M", "G", "T"];

/** Formats; each knows the unit of the number that it prints. */
export const bytes = format("bytes", (v) => scaled(v, 1024, BYTE_SIGNS).join(" "));
export const bytesPerSecond = format("bytes/s", (v) => `${scaled(v, 1024, BYTE_SIGNS).join(" ")}/s`);
export const percent = format("%", (v) => `${v >= 99.95 ? "100" : v.toFixed(1)} %`);
export const plain = format("", (v) => scaled(v, 1000, COUNT_SIGNS).join(" ").trim());
export const perSecond = format("1/s", (v) => `${scaled(v, 1000, COUNT_SIGNS).join(" ").trim()}/s`);

/** A format that never prints an unknown value as a number. */
export function format(unit, print) {
  return Object.assign((value) => (Number.isFinite(value) ? print(value) : UNKNOWN_TEXT), { unit });
}

/** 93784 -> "1 d 2 h"; the two largest parts. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return UNKNOWN_TEXT;
  const parts = [];
  let rest = Math.floor(seconds);
  for (const [sign, size] of [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]]) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0 || (sign === "s" && parts.length === 0)) parts.push(`${n} ${sign}`);
  }
  return parts.slice(0, 2).join(" ");
}

/** The next round number at or above `value`: 1, 2, 5 times a power of ten, or a power of two for bytes. */
export function roundUp(value, binary) {
  if (!(value > 0)) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  const leading = value / power;
  return (leading <= 1 ? 1 : leading <= 2 ? 2 : leading <= 5 ? 5 : 10) * power;
}
