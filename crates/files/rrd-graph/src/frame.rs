//! Where the parts of the picture lie. The sizes are those of rrdtool with DejaVu Sans Mono.

use crate::legend::{self, Align, Item, Legend};
use crate::options::{DOTS, Options, Side, TimeGrid};

/// Free pixels beside the graph.
const MARGIN: i64 = 15;
/// Characters beside the value axis without an option.
const UNITS_LENGTH: i64 = 6;
/// Lines of a title at most, as in rrdtool.
const TITLE_LINES_MAX: usize = 3;
/// From one line of the title to the next, for a font of size 1; all of it has as much room above and below.
pub const TITLE_LINE: f64 = 1.6;
/// What ends a line of the title.
const TITLE_ENDS: [&str; 4] = ["\\n", "\n", "<br>", "<br/>"];
/// Parts of a pixel in which Pango measures.
const PANGO_UNITS: f64 = 1024.0;
/// Width, ascent and descent of DejaVu Sans Mono, for a font of size 1.
const ADVANCE: f64 = 0.602;
const ASCENT: f64 = 0.928;
const DESCENT: f64 = 0.236;

/// The places.
#[derive(Debug, Default)]
pub struct Frame {
    /// Left edge of the graph.
    pub left: i64,
    /// Top edge of the graph.
    pub top: i64,
    /// Width of the graph.
    pub width: i64,
    /// Height of the graph.
    pub height: i64,
    /// Width of the picture.
    pub image_width: i64,
    /// Height of the picture.
    pub image_height: i64,
    /// The legend.
    pub legend: Legend,
    /// Top of the legend.
    pub legend_top: i64,
}

/// Pixels of a character.
pub fn advance(size: f64) -> f64 {
    (ADVANCE * size * DOTS).round()
}

/// Pixels above the base line.
pub fn ascent(size: f64) -> f64 {
    (ASCENT * size * DOTS).ceil()
}

/// Pixels of a line of text.
pub fn line_height(size: f64) -> f64 {
    ascent(size) + (DESCENT * size * DOTS).ceil()
}

/// Pixels of the longest line of `text`, before it is enlarged by `zoom`; a tab goes to the next multiple of `tab`.
pub fn text_width(text: &str, size: f64, zoom: f64, tab: f64) -> f64 {
    // A letter has whole pixels in the enlarged picture, and its width is a whole number of Pango's units.
    let advance = (advance(size * zoom) / zoom * PANGO_UNITS).floor() / PANGO_UNITS;
    let (mut widest, mut width) = (0.0f64, 0.0);
    for letter in text.chars() {
        width = match letter {
            '\n' | '\r' => 0.0,
            '\t' if tab > 0.0 => (((width / tab).floor() + 1.0) * tab).round(),
            _ => width + advance,
        };
        widest = widest.max(width);
    }
    widest
}

/// The lines of a text.
pub fn text_lines(text: &str) -> Vec<String> {
    text.replace("\r\n", "\n").split(['\n', '\r']).map(str::to_string).collect()
}

/// The lines of a title. As in rrdtool, several ends count as one, those at the begin do not count, and the last line has the
/// rest, without the ends in it.
pub fn title_lines(title: &str) -> Vec<String> {
    let end = |text: &str| TITLE_ENDS.iter().find(|end| text.starts_with(**end)).map(|end| end.len());
    let (mut lines, mut rest) = (vec![], title);
    let mut line = String::new();
    while let Some(letter) = rest.chars().next() {
        let Some(mut length) = end(rest) else {
            line.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        while let Some(more) = end(&rest[length..]) {
            length += more;
        }
        let is_first = lines.is_empty() && line.is_empty();
        rest = &rest[length..];
        if lines.len() + 1 == TITLE_LINES_MAX {
            line.push(' ');
        } else if !is_first {
            lines.push(std::mem::take(&mut line));
        }
    }
    if !title.is_empty() {
        lines.push(line.trim_end().into());
    }
    lines
}

/// The places for a legend of `items`, which come from `elements` elements.
pub fn frame(elements: usize, items: &[Item], aligns: &[(usize, Align)], options: &Options) -> Frame {
    if options.is_only_graph {
        let (width, height) = (options.width, options.height);
        return Frame { width, height, image_width: width, image_height: height, ..Frame::default() };
    }
    let scaled = |factor: f64, name: &str| (factor * options.size(name)).trunc() as i64;
    let has = |text: &String, factor: f64, name: &str| if text.is_empty() { 0 } else { scaled(factor, name) };
    let labels = match options.has_value_labels() {
        true => options.units_length.unwrap_or(UNITS_LENGTH) * advance(options.size("AXIS")) as i64,
        false => 0,
    };
    let times = if options.time_grid == TimeGrid::Off { 0 } else { scaled(2.5, "AXIS") };
    let title = match title_lines(&options.title).len() {
        0 => MARGIN,
        lines => scaled(TITLE_LINE * (1 + lines) as f64, "TITLE"),
    };
    let vertical = has(&options.vertical, 2.0, "UNIT");
    let right_axis = if options.right.is_some() { labels + MARGIN } else { 0 };
    let right_label = if options.right_label.is_empty() { MARGIN } else { scaled(2.0, "UNIT") };
    let beside = MARGIN + vertical + labels + MARGIN + right_axis + right_label;
    let is_beside = matches!(options.legend_side, Side::East | Side::West) && options.has_legend;
    let column = if is_beside { legend::column(elements, items, aligns, options) as i64 } else { 0 };
    let (mut width, mut height) = (options.width, options.height);
    let image_width = if options.is_full_size { width } else { width + beside + column };
    let room = if is_beside { column } else { image_width };
    let legend = match options.has_legend {
        true => legend::place(elements, items, aligns, room as f64, options),
        false => Legend::default(),
    };
    let below = match options.has_legend {
        true if is_beside => 0,
        true => legend_height(&legend, options),
        // Half a margin; the other half is lost where the whole picture has a given size.
        false if options.is_full_size => MARGIN - MARGIN / 2,
        false => MARGIN / 2,
    };
    let above = title + times + below + has(&options.watermark, 2.0, "WATERMARK");
    if options.is_full_size {
        width = (width - beside - column).max(1);
        height = (height - above).max(1);
    }
    let mut frame = Frame {
        left: MARGIN + vertical + labels,
        top: title,
        width,
        height,
        image_width,
        image_height: if options.is_full_size { options.height } else { height + above },
        legend,
        legend_top: title + height + times,
    };
    frame.turn(options, column, right_axis + right_label);
    frame
}

/// Pixels of a legend above or below the graph.
fn legend_height(legend: &Legend, options: &Options) -> i64 {
    // One sum, and then whole pixels: a legend that `\u` moves up has a negative height.
    (legend.height as f64 + 0.6 * legend::gap(options)).trunc() as i64
}

impl Frame {
    /// Moves graph and legend where the option wants them. `column` is the width of a legend beside the graph, `beside` that
    /// of the right axis and its label.
    fn turn(&mut self, options: &Options, column: i64, beside: i64) {
        match options.legend_side {
            Side::North if options.has_legend => {
                self.legend_top = self.top;
                self.top += legend_height(&self.legend, options);
            }
            Side::West => {
                self.left += column;
                self.legend_top = self.top;
            }
            Side::East => {
                // Here rrdtool has the right margin at the left.
                self.left += MARGIN;
                let left = (self.left + self.width + beside) as f64;
                self.legend.texts.iter_mut().for_each(|text| text.x += left);
                self.legend_top = self.top;
            }
            Side::North | Side::South => {}
        }
    }
}
