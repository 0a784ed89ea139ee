//! A picture as SVG, written without a library: it needs only a few kinds of elements. Every text is escaped.

use std::fmt::Write;

use crate::picture::{Anchor, Colour, Mark, Picture};

/// The picture as an SVG document.
pub fn svg(picture: &Picture) -> String {
    let Picture { width, height, title, marks } = picture;
    let mut out = String::with_capacity(marks.len() * 200);
    // Writing into a string does not fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n\
         <title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>",
        escaped(title)
    );
    marks.iter().for_each(|mark| put(mark, &mut out));
    out.push_str("</svg>\n");
    out
}

fn put(mark: &Mark, out: &mut String) {
    let _ = match mark {
        Mark::Box { place: [x, y, width, height], colour } => writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
            hex(*colour)
        ),
        Mark::Line { points, colour, width } => writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\" points=\"{}\"/>",
            hex(*colour),
            list(points)
        ),
        Mark::Area { points, colour, opacity } => writeln!(
            out,
            "<polygon fill=\"{}\" fill-opacity=\"{opacity}\" points=\"{}\"/>",
            hex(*colour),
            list(points)
        ),
        Mark::Text { at: [x, y], anchor, size, colour, is_upwards, text } => {
            let turned =
                if *is_upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{}\"{anchor}{turned}>{}</text>",
                hex(*colour),
                escaped(text)
            )
        }
    };
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Points to a tenth of a pixel: a finer step is invisible and doubles the file.
fn list(points: &[[f32; 2]]) -> String {
    let mut text = String::with_capacity(points.len() * 12);
    for [x, y] in points {
        let _ = write!(text, "{}{x:.1},{y:.1}", if text.is_empty() { "" } else { " " });
    }
    text
}

/// A text with XML's special characters escaped. Control characters, which XML does not allow, become `?`.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => out.push('?'),
            letter => out.push(letter),
        }
    }
    out
}
