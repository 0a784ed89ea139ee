//! What `graph` and `graphv` print.

use std::io::Write;

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::number;
use khz_rrd::text;

use crate::graph::Graph;

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
    let more = "Options and elements are those of rrdgraph(1); docs/rrd.md, \"graph\", says what differs.";
    write(format!("{} {}\n\n{more}\n", command.name, command.arguments).as_bytes())
}

/// Prints what a command without a picture prints.
pub fn prints(path: &str, prints: &[String], info: Option<&str>, form: Form) -> Result<()> {
    let info = info.map(|info| filled(info, path, 0, 0));
    let shown = shown(prints, form);
    // As in rrdtool, there is no size without a print.
    let out = match (form, info) {
        (Form::Short, Some(info)) => format!("{info}\n{shown}"),
        (Form::Short, None) if !prints.is_empty() => format!("0x0\n{shown}"),
        (Form::Facts, Some(info)) => format!("{shown}image_info = \"{info}\"\n"),
        _ => shown,
    };
    write(&text::bytes(&out))
}

fn shown(prints: &[String], form: Form) -> String {
    let line = |(index, print): (usize, &String)| match form {
        Form::Short => format!("{print}\n"),
        Form::Facts => format!("print[{index}] = \"{print}\"\n"),
    };
    prints.iter().enumerate().map(line).collect()
}

/// Prints a table, or writes it to the file at `path`.
pub fn table(path: &str, table: &str, form: Form) -> Result<()> {
    if path == "-" {
        return write(&text::bytes(table));
    }
    std::fs::write(text::path(path), &*text::bytes(table))
        .map_err(|error| Error::io("opening", text::path(path), error))?;
    match form {
        Form::Short => write(b"0x0\n"),
        Form::Facts => Ok(()),
    }
}

/// Prints what is known of a picture, and the picture itself if it has no file.
pub fn graph(path: &str, graph: &Graph, image: Option<&[u8]>, form: Form) -> Result<()> {
    // As in rrdtool, a picture that is not drawn again has no range and no legend.
    let is_drawn = image.is_some();
    let frame = &graph.frame;
    let image = image.filter(|_| path == "-");
    if form == Form::Short {
        let mut out = vec![];
        match (image, &graph.options.info) {
            (Some(image), _) => out.extend_from_slice(image),
            (None, info) => {
                let size = match info.as_deref() {
                    Some("") => String::new(),
                    Some(info) => filled(info, path, frame.image_width, frame.image_height) + "\n",
                    None => format!("{}x{}\n", frame.image_width, frame.image_height),
                };
                out.extend_from_slice(&text::bytes(&size));
                out.extend_from_slice(&text::bytes(&shown(&graph.prints, form)));
            }
        }
        return write(&out);
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
    if let Some(info) = &graph.options.info {
        let info = filled(info, path, frame.image_width, frame.image_height);
        out.push_str(&format!("image_info = \"{info}\"\n"));
    }
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
        let top = frame.legend_top + placed.y;
        let bottom = top + crate::frame::line_height(graph.options.size("LEGEND")) as i64;
        out.push_str(&format!("legend[{index}] = \"{}\"\n", placed.text));
        // Halves go to the even neighbour, as in C's printf.
        let (left, right) = (placed.x.round_ties_even(), (placed.x + placed.width).round_ties_even());
        out.push_str(&format!("coords[{index}] = \"{left},{top},{right},{bottom}\"\n"));
    }
    out
}

/// `text` of `--imginfo`, if it names the file, the width and the height once each.
pub fn checked_info(text: &str) -> Result<String> {
    if !text.is_empty() && filled_or_none(text, "", 0, 0).is_none() {
        return refused(format!(
            "invalid format string '{text}' (should match '^(?:[^%]+|%%)*%s(?:[^%]+|%%)*%lu(?:[^%]+|%%)*%lu(?:[^%]+|%%)*$')"
        ));
    }
    Ok(text.into())
}

fn filled(info: &str, path: &str, width: i64, height: i64) -> String {
    filled_or_none(info, path, width, height).unwrap_or_default()
}

fn filled_or_none(info: &str, path: &str, width: i64, height: i64) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
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
