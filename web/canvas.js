// The size of a canvas in device pixels. It refuses to draw.

/** Beyond two device pixels a CSS pixel nobody sees the difference, but the copy costs. */
const DENSITY_MAX = 2;

/** Makes the canvas as many device pixels large as it is shown; true when that changed it. */
export function fit(canvas) {
  const density = Math.min(DENSITY_MAX, window.devicePixelRatio || 1);
  const width = Math.max(1, Math.round(canvas.clientWidth * density));
  const height = Math.max(1, Math.round(canvas.clientHeight * density));
  if (canvas.width === width && canvas.height === height) return false;
  canvas.width = width;
  canvas.height = height;
  return true;
}
