//! What `graph` and `graphv` print.

use std::io::Write;

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::lines::wrapped;
use khz_rrd::number;
use khz_rrd::text;

use crate::graph::Graph;
use crate::options::Options;
use crate::table::Table;

/// Which of both commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `graph`: the size and the texts of `PRINT`.
    Short,
    /// `graphv`: every number by name.
    Facts,
}

/// Prints the command's own help.
pub fn help(form: Form) -> Result<()> {
    let command = &crate::COMMANDS[usize::from(form == Form::Facts)];
    let more = "Elements and the meaning of options: rrdgraph(1); docs/rrd.md, \"graph\", says what differs.";
    let options = wrapped("Options: ", "    ", &crate::options::names());
    write(
        format!("{} {}\n\n{options}\n{}", command.name, command.arguments, wrapped("", "", more)).as_bytes(),
    )
}

/// Prints what a command without a picture prints.
pub fn prints(path: &str, prints: &[String], info: Option<&str>, form: Form) -> Result<()> {
    let shown = shown(prints, form);
    // As in rrdtool, there is no size without a print, and nothing at all where the picture would go to standard output.
    let out = match (form, info) {
        (Form::Short, _) if path == "-" => String::new(),
        (Form::Short, None) if prints.is_empty() => shown,
        (Form::Short, info) => size(info, path, (0, 0)) + &shown,
        (Form::Facts, info) => shown + &info_fact(info, path, (0, 0)),
    };
    write(&text::bytes(&out))
}

/// The line with the size or, with `--imginfo`, with its text.
fn size(info: Option<&str>, path: &str, (width, height): (i64, i64)) -> String {
    match info {
        Some("") => String::new(),
        Some(info) => filled(info, path, width, height) + "\n",
        None => format!("{width}x{height}\n"),
    }
}

/// What `graphv` tells of `--imginfo`.
fn info_fact(info: Option<&str>, path: &str, (width, height): (i64, i64)) -> String {
    match info {
        None | Some("") => String::new(),
        Some(info) => format!("image_info = \"{}\"\n", filled(info, path, width, height)),
    }
}

fn shown(prints: &[String], form: Form) -> String {
    let line = |(index, print): (usize, &String)| match form {
        Form::Short => format!("{print}\n"),
        Form::Facts => format!("print[{index}] = \"{print}\"\n"),
    };
    prints.iter().enumerate().map(line).collect()
}

/// Prints a table, or writes it to the file at `path`; and what is known of it.
pub fn table(path: &str, table: &Table, prints: &[String], options: &Options, form: Form) -> Result<()> {
    let body = table.text(options);
    let body = text::bytes(&body);
    let is_printed = path == "-";
    if !is_printed {
        std::fs::write(text::path(path), &*body)
            .map_err(|error| Error::io("opening", text::path(path), error))?;
    }
    let info = options.info.as_deref();
    let shown = shown(prints, form);
    let mut out = match form {
        Form::Short if is_printed => String::new(),
        Form::Short => size(info, path, (0, 0)) + &shown,
        Form::Facts => {
            let start = table.start.saturating_sub_unsigned(table.step);
            let facts = [("start", start), ("end", table.end), ("step", table.step as i64)];
            let facts: String =
                facts.iter().map(|(name, value)| format!("graph_{name} = {value}\n")).collect();
            facts + &shown + &info_fact(info, path, (0, 0))
        }
    };
    if is_printed && form == Form::Facts {
        out.push_str(&format!("image = BLOB_SIZE:{}\n", body.len()));
    }
    let mut out = text::bytes(&out).into_owned();
    if is_printed {
        out.extend_from_slice(&body);
    }
    write(&out)
}

/// Prints what is known of a picture, and the picture itself if it has no file.
pub fn graph(path: &str, graph: &Graph, image: Option<&[u8]>, form: Form) -> Result<()> {
    // As in rrdtool, a picture that is not drawn again has no range and no legend.
    let is_drawn = image.is_some();
    let frame = &graph.frame;
    let image = image.filter(|_| path == "-");
    let info = graph.options.info.as_deref();
    // The text has the size of the picture in its file; the numbers have that before it is enlarged.
    let sides = (graph.options.zoomed(frame.image_width), graph.options.zoomed(frame.image_height));
    if form == Form::Short {
        if let Some(image) = image {
            return write(image);
        }
        let size = match info {
            None => size(None, path, (frame.image_width, frame.image_height)),
            info => size(info, path, sides),
        };
        return write(&text::bytes(&(size + &shown(&graph.prints, form))));
    }
    let mut out = shown(&graph.prints, form);
    let facts = [
        ("graph_left", frame.left),
        ("graph_top", frame.top),
        ("graph_width", frame.width),
        ("graph_height", frame.height),
        ("image_width", frame.image_width),
        ("image_height", frame.image_height),
        ("graph_start", graph.options.start),
        ("graph_end", graph.options.end),
    ];
    facts.iter().for_each(|(name, value)| out.push_str(&format!("{name} = {value}\n")));
    if is_drawn {
        out.push_str(&range_and_legend(graph));
    }
    out.push_str(&info_fact(info, path, sides));
    let mut out = text::bytes(&out).into_owned();
    if let Some(image) = image {
        out.extend_from_slice(format!("image = BLOB_SIZE:{}\n", image.len()).as_bytes());
        out.extend_from_slice(image);
    }
    write(&out)
}

fn range_and_legend(graph: &Graph) -> String {
    let frame = &graph.frame;
    let mut out = String::new();
    for (name, value) in [("value_min", graph.range.0), ("value_max", graph.range.1)] {
        out.push_str(&format!("{name} = {}\n", number::scientific(value, 10)));
    }
    for (index, placed) in frame.legend.texts.iter().enumerate() {
        let size = graph.options.size("LEGEND");
        let top = frame.legend_top + placed.top(size);
        let bottom = top + placed.lines * crate::frame::line_height(size) as i64;
        out.push_str(&format!("legend[{index}] = \"{}\"\n", placed.text));
        // Halves go to the even neighbour, as in C's printf.
        let (left, right) = (placed.x.round_ties_even(), (placed.x + placed.width).round_ties_even());
        out.push_str(&format!("coords[{index}] = \"{left},{top},{right},{bottom}\"\n"));
    }
    out
}

/// Whether the text of `--imginfo` names the file, the width and the height once each.
///
/// # Errors
/// rrdtool's message.
pub fn check_info(info: Option<&str>) -> Result<()> {
    match info {
        Some(text) if !text.is_empty() && filled_or_none(text, "", 0, 0).is_none() => refused(format!(
            "invalid format string '{text}' (should match '^(?:[^%]+|%%)*%s(?:[^%]+|%%)*%lu(?:[^%]+|%%)*%lu(?:[^%]+|%%)*$')"
        )),
        _ => Ok(()),
    }
}

fn filled(info: &str, path: &str, width: i64, height: i64) -> String {
    filled_or_none(info, path, width, height).unwrap_or_default()
}

fn filled_or_none(info: &str, path: &str, width: i64, height: i64) -> Option<String> {
    // rrdtool's name for what goes to standard output.
    let name = if path == "-" { "memory" } else { path.rsplit('/').next().unwrap_or(path) };
    let mut wanted =
        [("s", name.to_string()), ("lu", width.to_string()), ("lu", height.to_string())].into_iter();
    let mut out = String::new();
    let mut rest = info;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (letter, value) = wanted.next()?;
        rest = rest.strip_prefix(letter)?;
        out.push_str(&value);
    }
    out.push_str(rest);
    wanted.next().is_none().then_some(out)
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("writing", "standard output", error))
}
