//! A picture as SVG, written without a library: it needs only a few kinds of elements. Every text is escaped.

use std::fmt::Write;

use crate::picture::{Anchor, Colour, Letters, Mark, Picture};

/// The picture as an SVG document.
pub fn svg(picture: &Picture) -> String {
    let Picture { width, height, title, marks, letters } = picture;
    let font = match letters {
        Letters::Sans => "DejaVu Sans, Verdana, sans-serif",
        Letters::Mono => "DejaVu Sans Mono, Bitstream Vera Sans Mono, monospace",
    };
    let mut out = String::with_capacity(marks.len() * 200);
    // Writing into a string does not fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{font}\" xml:space=\"preserve\">\n\
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
        Mark::Stroke { points, colour, opacity, width, dashes, offset } => {
            let dashes = match dashes.is_empty() {
                true => String::new(),
                false => {
                    let lengths: Vec<String> = dashes.iter().map(f32::to_string).collect();
                    format!(" stroke-dasharray=\"{}\" stroke-dashoffset=\"{offset}\"", lengths.join(","))
                }
            };
            writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-opacity=\"{opacity}\" stroke-width=\"{width}\"{dashes} \
                 points=\"{}\"/>",
                hex(*colour),
                list(points)
            )
        }
        Mark::Gradient { points, colours, span: [top, bottom] } => {
            // The place in the document makes the name unique.
            let name = format!("g{}", out.len());
            let stop = |at: u8, [red, green, blue, opacity]: [u8; 4]| {
                let opacity = f32::from(opacity) / 255.0;
                let colour = hex([red, green, blue]);
                format!("<stop offset=\"{at}\" stop-color=\"{colour}\" stop-opacity=\"{opacity}\"/>")
            };
            writeln!(
                out,
                "<linearGradient id=\"{name}\" gradientUnits=\"userSpaceOnUse\" x1=\"0\" x2=\"0\" y1=\"{top}\" \
                 y2=\"{bottom}\">{}{}</linearGradient>\n<polygon fill=\"url(#{name})\" points=\"{}\"/>",
                stop(0, colours[0]),
                stop(1, colours[1]),
                list(points)
            )
        }
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
