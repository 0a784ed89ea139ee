// What all canvases need: their size in device pixels, paths, texts that fit. It refuses to draw.

/** Beyond two device pixels a CSS pixel nobody sees the difference, but the copy costs. */
const DENSITY_MAX = 2;

/** Makes the canvas as many device pixels large as it is shown; true when that changed it. */
export function fit(canvas) {
  // A sheet that is saved has a density of its own.
  const density = canvas.density ?? Math.min(DENSITY_MAX, window.devicePixelRatio || 1);
  const width = Math.max(1, Math.round(canvas.clientWidth * density));
  const height = Math.max(1, Math.round(canvas.clientHeight * density));
  if (canvas.width === width && canvas.height === height) return false;
  canvas.width = width;
  canvas.height = height;
  return true;
}

/** A path that this context can fill and stroke: those that are written down have their own. */
export const pathFor = (context) => context.path?.() ?? new Path2D();

/** The end of a name tells nodes apart, so the front gives way. */
export function shortened(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  let from = 1;
  while (from < text.length && c.measureText(`…${text.slice(from)}`).width > room) from++;
  return `…${text.slice(from)}`;
}
