//! A picture as PNG. tiny-skia draws the marks; letters are outlines of a font that comes with the program, so that a
//! picture is the same on every machine, even on one without fonts.

use tiny_skia::{
    Color, FillRule, GradientStop, LineCap, LineJoin, LinearGradient, Paint, Path, PathBuilder, Pixmap,
    Point, Rect, SpreadMode, Stroke, StrokeDash, Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use crate::picture::{Anchor, Colour, Letters, Mark, Picture};

/// DejaVu Sans, the letters of western Europe only (font/ORIGIN).
const FONT: &[u8] = include_bytes!("../font/plot.ttf");
/// DejaVu Sans Mono, the same letters.
const MONO: &[u8] = include_bytes!("../font/mono.ttf");
/// Most pixels in one direction: 16,384 × 16,384 take a GiB.
const SIDE_MAX: u32 = 16_384;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// It has too many pixels.
    #[error("a picture of {width} × {height} pixels is larger than {SIDE_MAX} × {SIDE_MAX}")]
    TooLarge {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// It cannot be encoded.
    #[error("cannot make a PNG: {0}")]
    Encode(String),
}

/// The picture, drawn with `scale` pixels for each of its pixels.
///
/// # Errors
/// It has too many pixels, or cannot be encoded.
pub fn png(picture: &Picture, scale: f64) -> Result<Vec<u8>, PngError> {
    let size = |side: u32| (f64::from(side) * scale).floor().max(1.0) as u32;
    let (width, height) = (size(picture.width), size(picture.height));
    let too_large = PngError::TooLarge { width, height };
    if width > SIDE_MAX || height > SIDE_MAX {
        return Err(too_large);
    }
    let mut pixels = Pixmap::new(width, height).ok_or(too_large)?;
    pixels.fill(tiny_skia::Color::WHITE);
    let font = match picture.letters {
        Letters::Sans => FONT,
        Letters::Mono => MONO,
    };
    let mut canvas = Canvas {
        pixels,
        scale: Transform::from_scale(scale as f32, scale as f32),
        face: Face::parse(font, 0).ok(),
    };
    picture.marks.iter().for_each(|mark| canvas.draw(mark));
    canvas.pixels.encode_png().map_err(|error| PngError::Encode(error.to_string()))
}

struct Canvas {
    pixels: Pixmap,
    scale: Transform,
    face: Option<Face<'static>>,
}

impl Canvas {
    fn draw(&mut self, mark: &Mark) {
        match mark {
            Mark::Box { place: [x, y, width, height], colour } => {
                if let Some(place) = Rect::from_xywh(*x, *y, *width, *height) {
                    self.pixels.fill_rect(place, &paint(*colour, 1.0), self.scale, None);
                }
            }
            Mark::Line { points, colour, width } => {
                let Some(path) = path(points, false) else { return };
                let stroke = Stroke {
                    width: *width,
                    line_cap: LineCap::Round,
                    line_join: LineJoin::Round,
                    ..Stroke::default()
                };
                self.pixels.stroke_path(&path, &paint(*colour, 1.0), &stroke, self.scale, None);
            }
            Mark::Area { points, colour, opacity } => {
                let Some(path) = path(points, true) else { return };
                let paint = paint(*colour, *opacity);
                self.pixels.fill_path(&path, &paint, FillRule::Winding, self.scale, None);
            }
            Mark::Stroke { points, colour, opacity, width, dashes, offset } => {
                let Some(path) = path(points, false) else { return };
                let dash = StrokeDash::new(dashes.clone(), *offset).filter(|_| !dashes.is_empty());
                let stroke = Stroke { width: *width, line_join: LineJoin::Round, dash, ..Stroke::default() };
                self.pixels.stroke_path(&path, &paint(*colour, *opacity), &stroke, self.scale, None);
            }
            Mark::Gradient { points, colours, span } => self.gradient(points, *colours, *span),
            Mark::Text { at, anchor, size, colour, is_upwards, text } => {
                self.text(*at, *anchor, *size, *colour, *is_upwards, text);
            }
        }
    }

    fn gradient(&mut self, points: &[[f32; 2]], colours: [[u8; 4]; 2], [top, bottom]: [f32; 2]) {
        let Some(path) = path(points, true) else { return };
        let stop = |at, [red, green, blue, opacity]: [u8; 4]| {
            GradientStop::new(at, Color::from_rgba8(red, green, blue, opacity))
        };
        let stops = vec![stop(0.0, colours[0]), stop(1.0, colours[1])];
        let (from, to) = (Point::from_xy(0.0, top), Point::from_xy(0.0, bottom));
        let Some(shader) = LinearGradient::new(from, to, stops, SpreadMode::Pad, Transform::identity())
        else {
            return;
        };
        let paint = Paint { shader, anti_alias: true, ..Paint::default() };
        self.pixels.fill_path(&path, &paint, FillRule::Winding, self.scale, None);
    }

    fn text(&mut self, [x, y]: [f32; 2], anchor: Anchor, size: f32, colour: Colour, is_up: bool, text: &str) {
        let Some(face) = &self.face else { return };
        let em = size / f32::from(face.units_per_em());
        let (mut outline, mut width) = (Outlines { path: PathBuilder::new(), right: 0.0 }, 0.0);
        for letter in text.chars() {
            let known = face.glyph_index(letter).or_else(|| face.glyph_index('?'));
            let Some(glyph) = known else { continue };
            outline.right = width;
            face.outline_glyph(glyph, &mut outline);
            width += f32::from(face.glyph_hor_advance(glyph).unwrap_or_default());
        }
        let Some(path) = outline.path.finish() else { return };
        let from = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        // Letters are drawn upwards, from the base line.
        let place = Transform::from_translate(from, 0.0).post_scale(em, -em);
        let turned = if is_up { place.post_rotate(-90.0) } else { place };
        let placed = turned.post_translate(x, y).post_concat(self.scale);
        self.pixels.fill_path(&path, &paint(colour, 1.0), FillRule::Winding, placed, None);
    }
}

/// Outlines of letters, one after the other.
struct Outlines {
    path: PathBuilder,
    right: f32,
}

impl OutlineBuilder for Outlines {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(x + self.right, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(x + self.right, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(x1 + self.right, y1, x + self.right, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let right = self.right;
        self.path.cubic_to(x1 + right, y1, x2 + right, y2, x + right, y);
    }
    fn close(&mut self) {
        self.path.close();
    }
}

fn paint(colour: Colour, opacity: f32) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    let opacity = (opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    paint.set_color_rgba8(colour[0], colour[1], colour[2], opacity);
    paint
}

fn path(points: &[[f32; 2]], is_closed: bool) -> Option<Path> {
    let (first, rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(first[0], first[1]);
    // A single point is a dot.
    if rest.is_empty() {
        path.line_to(first[0] + 0.01, first[1]);
    }
    rest.iter().for_each(|point| path.line_to(point[0], point[1]));
    if is_closed {
        path.close();
    }
    path.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_letter_that_a_chart_writes() {
        let face = Face::parse(FONT, 0).unwrap();
        let letters = (' '..='~').chain("\u{2212}\u{2026}\u{2013}µäöüéß°".chars());
        letters.for_each(|letter| assert!(face.glyph_index(letter).is_some(), "{letter}"));
    }

    #[test]
    fn a_picture_that_is_too_large_is_refused() {
        let picture = Picture { width: 100, height: 100_000, ..Picture::default() };
        assert!(matches!(png(&picture, 1.0), Err(PngError::TooLarge { .. })));
    }

    #[test]
    fn marks_become_pixels() {
        let colour = [200, 10, 10];
        let marks = vec![
            Mark::Box { place: [2.0, 2.0, 4.0, 4.0], colour },
            Mark::Line { points: vec![[0.0, 15.0], [20.0, 15.0]], colour: [0, 0, 200], width: 2.0 },
        ];
        let picture = Picture { width: 20, height: 20, marks, ..Picture::default() };
        let pixels = Pixmap::decode_png(&png(&picture, 2.0).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (40, 40));
        let colour_at = |x, y| {
            let pixel = pixels.pixel(x, y).unwrap();
            [pixel.red(), pixel.green(), pixel.blue()]
        };
        assert_eq!((colour_at(6, 6), colour_at(20, 30), colour_at(20, 5)), (colour, [0, 0, 200], [255; 3]));
    }
}
