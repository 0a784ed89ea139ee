// The colours of the canvases, read from the style sheet so that they are named in one place. It refuses to know
// which theme is on.

export const colours = { series: [], grid: "", faint: "", muted: "", ink: "", surface: "", down: "", downSurface: "", heat: null, tiles: [], tileWords: null, marks: {} };

/** Colours of curves: as many as the style sheet has. */
const SERIES = 6;

/** Steps of the heat scale. */
const HEAT_STEPS = 256;

/** Steps of the scale of the tiles: enough that neighbours look the same. A paint uses at most this many colours. */
const TILE_STEPS = 48;

/** Reads the custom properties again; call it when the theme changes. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  colours.series = Array.from({ length: SERIES }, (_, i) => read(`--series-${i}`));
  colours.grid = read("--grid");
  colours.faint = read("--faint");
  colours.surface = read("--surface");
  colours.muted = read("--muted");
  colours.ink = read("--ink");
  colours.down = read("--down");
  colours.downSurface = read("--down-surface");
  colours.tiles = tiles(Array.from({ length: 5 }, (_, i) => rgb(read(`--tile-${i}`))));
  colours.tileWords = Uint32Array.from(colours.tiles, ({ fill }) => word(fill.match(/\d+/g).map(Number)));
  for (const name of ["down", "muted", "faint"]) colours.marks[name] = word(rgb(colours[name]));
  colours.marks.downSurface = word(rgb(colours.downSurface));
  colours.heat = heat(["--heat-0", "--heat-1", "--heat-2", "--heat-3"].map((name) => rgb(read(name))));
}

/** "#rrggbb" as three numbers. */
function rgb(text) {
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
}

/** The same as a packed pixel, for an ImageData seen as 32-bit words. */
function word([r, g, b]) {
  return new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0];
}

/** Black on anything brighter than this, and white on anything darker, has a contrast of 4.58 at least. */
const LUMINANCE_MIDDLE = 0.179;

/** The relative luminance of a colour (WCAG 2). */
function luminance(rgb) {
  const [r, g, b] = rgb.map((channel) => channel / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The scale of the tiles: for every step its colour, and one for text on it. */
function tiles(stops) {
  return Array.from({ length: TILE_STEPS }, (_, i) => {
    const place = (i / (TILE_STEPS - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(place));
    const [r, g, b] = [0, 1, 2].map((channel) => {
      const [from, to] = [stops[stop][channel], stops[stop + 1][channel]];
      return Math.round(from + (to - from) * (place - stop));
    });
    return { fill: `rgb(${r} ${g} ${b})`, ink: luminance([r, g, b]) > LUMINANCE_MIDDLE ? "#000000" : "#ffffff" };
  });
}

/** A scale through the given stops as packed pixels, ready for an ImageData seen as 32-bit words. */
function heat(stops) {
  const pixels = new Uint8ClampedArray(HEAT_STEPS * 4);
  for (let i = 0; i < HEAT_STEPS; i++) {
    const place = (i / (HEAT_STEPS - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(place));
    for (let channel = 0; channel < 3; channel++) {
      const [a, b] = [stops[stop][channel], stops[stop + 1][channel]];
      pixels[i * 4 + channel] = a + (b - a) * (place - stop);
    }
    pixels[i * 4 + 3] = 255;
  }
  return new Uint32Array(pixels.buffer);
}
