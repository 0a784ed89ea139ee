//! One command: from its words to numbers and a picture.

use std::cell::Cell;

use khz_rrd::cli;
use khz_rrd::client::Client;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::{self, Access, Rrd};
use khz_rrd::text;
use khz_rrd::xport::{Argument, Plan, Rows, Script};

use crate::answer::{self, Form};
use crate::draw;
use crate::element::{self, Action, Element, Subject};
use crate::frame::{self, Frame};
use crate::legend::{self, Align, Item};
use crate::limits;
use crate::markup;
use crate::options::{Options, Output};
use crate::pixels::{self, Curve};
use crate::prints::{self, Values};
use crate::table;

/// Bytes of one argument; rrdtool has no limit.
const ARGUMENT_MAX: usize = 1 << 16;

/// Bytes of all legends; rrdtool has no limit.
const LEGENDS_MAX: usize = 1 << 18;
/// Pixels of a picture, enlarged; rrdtool has no limit. This many take some 400 MB of memory while they are drawn.
const PIXELS_MAX: f64 = 100e6;

/// Everything that is known of a graph before it is drawn.
pub struct Graph {
    /// The options.
    pub options: Options,
    /// The elements.
    pub elements: Vec<Element>,
    /// What `PRINT` printed.
    pub prints: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Lowest and highest value.
    pub range: (f64, f64),
    /// The places.
    pub frame: Frame,
    /// The value of each rule.
    pub rules: Vec<Option<f64>>,
}

/// Everything that is computed before a picture is laid out.
struct Computed {
    script: Script,
    elements: Vec<Element>,
    /// Whether the last argument is a definition or a `SHIFT`.
    ends_with_definition: bool,
    columns: Vec<Rows>,
    prints: Vec<String>,
    plan: Plan,
}

/// Runs `graph` or `graphv` with the words after it.
///
/// # Errors
/// rrdtool's messages where it has them.
pub fn run(words: &[String], form: Form) -> Result<()> {
    if words.first().is_none_or(|word| word == "--help") {
        return answer::help(form);
    }
    let (options, rest) = Options::parse(words, file::clock().seconds)?;
    let Some((path, arguments)) = rest.split_first() else {
        return refused("missing filename");
    };
    let unreached = Cell::new(None);
    answered(path, arguments, options, form, &unreached)?;
    // As in rrdtool, what the files have is drawn even if a daemon cannot be reached; the error comes after that.
    unreached.take().map_or(Ok(()), Err)
}

fn answered(
    path: &str,
    arguments: &[String],
    options: Options,
    form: Form,
    unreached: &Cell<Option<Error>>,
) -> Result<()> {
    let Computed { script, elements, ends_with_definition, columns, prints, plan } =
        computed(arguments, &options, unreached)?;
    let values = Values { script: &script, columns: &columns };
    if !matches!(options.output, Output::Png | Output::Svg) {
        let table = table::table(&elements, &prints, &values, &plan, &options)?;
        answer::check_info(options.info.as_deref())?;
        return answer::table(path, &table, &prints, &options, form);
    }
    if !elements.iter().any(Element::draws) {
        answer::check_info(options.info.as_deref())?;
        return answer::prints(path, &prints, options.info.as_deref(), form);
    }
    let graph = whole(options, elements, ends_with_definition, prints, &values)?;
    answer::check_info(graph.options.info.as_deref())?;
    let is_fresh = graph.options.is_lazy && is_fresh(path, &graph, newest(&columns));
    let image = if is_fresh { None } else { Some(draw::image(&graph)?) };
    if let Some(image) = &image
        && path != "-"
    {
        std::fs::write(text::path(path), image)
            .map_err(|error| Error::io("opening", text::path(path), error))?;
    }
    answer::graph(path, &graph, image.as_deref(), form)?;
    if image.is_some() { graph.options.check_durations() } else { Ok(()) }
}

/// Draws without writing or printing; the bytes of the picture or table. For the fuzzer.
///
/// # Errors
/// As [`run`].
pub fn rehearse(words: &[String], now: i64) -> Result<usize> {
    let (options, rest) = Options::parse(words, now)?;
    let arguments = rest.get(1..).unwrap_or(&[]);
    let Computed { script, elements, ends_with_definition, columns, prints, plan } =
        computed(arguments, &options, &Cell::new(None))?;
    let values = Values { script: &script, columns: &columns };
    if !matches!(options.output, Output::Png | Output::Svg) {
        return Ok(table::table(&elements, &prints, &values, &plan, &options)?.text(&options).len());
    }
    Ok(draw::image(&whole(options, elements, ends_with_definition, prints, &values)?)?.len())
}

/// Reads and computes. `unreached` gets the error of a daemon that does not take connections.
fn computed(arguments: &[String], options: &Options, unreached: &Cell<Option<Error>>) -> Result<Computed> {
    if let Some(long) = arguments.iter().find(|argument| argument.len() > ARGUMENT_MAX) {
        return refused(format!("an argument of {} bytes; at most {ARGUMENT_MAX} are read", long.len()));
    }
    let plan = Plan {
        start: options.start,
        end: options.end,
        step: options.step,
        rows: options.width as u64,
        now: options.now,
    };
    let (mut script, mut elements, ends_with_definition) = parsed(arguments, &plan)?;
    script.read(&plan, |path, own| opened(path, own, options, unreached))?;
    let columns = script.columns(&plan)?;
    let prints = printed(&mut elements, &Values { script: &script, columns: &columns }, options)?;
    Ok(Computed { script, elements, ends_with_definition, columns, prints, plan })
}

/// The definitions and elements of `arguments`, and whether the last argument is a definition.
fn parsed(arguments: &[String], plan: &Plan) -> Result<(Script, Vec<Element>, bool)> {
    let (mut script, mut elements, mut is_definition) = (Script::default(), vec![], false);
    for text in arguments {
        let argument = script.take_definition(Argument::parse(text)?, plan)?;
        is_definition = argument.is_none();
        if let Some(mut argument) = argument {
            elements.push(element::parse(&mut argument, &script, &elements)?);
        }
    }
    Ok((script, elements, is_definition))
}

/// Opens a file after its daemon has written what waits for it; `None` if its rows are to be unknown.
fn opened(
    path: &str,
    own: Option<&str>,
    options: &Options,
    unreached: &Cell<Option<Error>>,
) -> Result<Option<Rrd>> {
    if let Some(address) = own.or(options.daemon.as_deref()) {
        match Client::connect(address) {
            Ok(client) => match cli::flush_with(client, path) {
                // As in rrdtool, the daemon's word counts, not what the disk has.
                Err(_) if options.allows_missing => return Ok(None),
                flushed => flushed?,
            },
            Err(error) => unreached.set(Some(error)),
        }
    }
    match Rrd::open(&text::path(path), Access::Read) {
        Err(_) if options.allows_missing => {
            // As in rrdtool, the file that is not there makes its daemon's error forgotten.
            unreached.set(None);
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// The texts of `PRINT`; those of `GPRINT` become legends.
fn printed(elements: &mut [Element], values: &Values<'_>, options: &Options) -> Result<Vec<String>> {
    let (mut prints, mut scale) = (vec![], None);
    for element in elements {
        if let Action::Print { of, print, is_legend } = &element.action {
            let text = prints::print(*of, print, values, options, &mut scale)?;
            match is_legend {
                true => element.legend = text,
                false => prints.push(text),
            }
        }
    }
    Ok(prints)
}

fn whole(
    options: Options,
    elements: Vec<Element>,
    ends_with_definition: bool,
    prints: Vec<String>,
    values: &Values<'_>,
) -> Result<Graph> {
    let rules: Vec<Option<f64>> = elements.iter().map(|element| rule(element, values)).collect();
    let (items, aligns) = match options.has_legend && !options.is_only_graph {
        true => texts(&elements, &rules, &options)?,
        // As in rrdtool, nobody looks at legends that are not shown.
        false => Default::default(),
    };
    let bytes: usize = elements.iter().map(|element| element.legend.len()).sum();
    if bytes > LEGENDS_MAX {
        return refused(format!("legends of {bytes} bytes; at most {LEGENDS_MAX} are shown"));
    }
    // As in rrdtool, a definition at the end counts as an element without a legend.
    let count = elements.len() + usize::from(ends_with_definition);
    let frame = frame::frame(count, &items, &aligns, &options);
    check_size(&frame, options.zoom)?;
    let curves = pixels::curves(&elements, values, &options, frame.width);
    let counted = curves.iter().filter(|curve| curve.counts).flat_map(|curve| curve.top.iter().copied());
    let range = limits::range(counted, &options);
    Ok(Graph { options, elements, prints, curves, range, frame, rules })
}

/// Whether a picture is so small that it can be drawn.
fn check_size(frame: &Frame, zoom: f64) -> Result<()> {
    let enlarged = |side: i64| (side as f64 * zoom).ceil();
    let (width, height) = (enlarged(frame.image_width), enlarged(frame.image_height));
    if width * height > PIXELS_MAX {
        return refused(format!(
            "a picture of {width} x {height} pixels; at most {PIXELS_MAX} in all are drawn: give less --width, --height, --zoom or \
             legends"
        ));
    }
    Ok(())
}

/// Where a rule is.
fn rule(element: &Element, values: &Values<'_>) -> Option<f64> {
    let (of, is_moment) = match &element.action {
        Action::Level { of, .. } => (of, false),
        Action::Moment { of, .. } => (of, true),
        _ => return None,
    };
    match of {
        Subject::Number(value) => Some(*value),
        Subject::Named(index) if is_moment => {
            values.script.moment(*index, values.columns).map(|time| time as f64)
        }
        Subject::Named(index) => values.columns[*index].values.first().copied(),
    }
}

/// Alignments, each from an element on.
type Alignments = Vec<(usize, Align)>;

/// The texts of the legend, and the alignments from an element on.
fn texts(elements: &[Element], rules: &[Option<f64>], options: &Options) -> Result<(Vec<Item>, Alignments)> {
    let (mut items, mut aligns) = (vec![], vec![]);
    for (index, element) in elements.iter().enumerate() {
        let is_shown = match &element.action {
            Action::Align(align) => {
                aligns.push((index, *align));
                false
            }
            Action::Print { is_legend, .. } => *is_legend,
            Action::Moment { .. } => {
                let within = options.start as f64..=options.end as f64;
                options.forces_rules || rules[index].is_some_and(|time| within.contains(&time))
            }
            Action::Level { .. } => options.forces_rules || !is_beyond(rules[index], options),
            Action::Export { .. } => false,
            _ => true,
        };
        if is_shown && let Some(mut item) = legend::item(index, element)? {
            if options.is_markup {
                item.shown = markup::shown(&item.text);
            }
            items.push(item);
        }
    }
    Ok((items, aligns))
}

/// Whether the options, not the values, say that a level is outside of the graph. As in rrdtool, they count here even if the
/// values make the axis longer.
fn is_beyond(level: Option<f64>, options: &Options) -> bool {
    let Some(level) = level else { return false };
    options.lower.is_some_and(|lower| level < lower) || options.upper.is_some_and(|upper| level > upper)
}

/// The end of the newest row that is known.
fn newest(columns: &[Rows]) -> i64 {
    let ends =
        columns.iter().map(|rows| rows.start.saturating_add_unsigned(rows.step * rows.values.len() as u64));
    ends.max().unwrap_or(0)
}

/// Whether the picture at `path` has the right size and is younger than a column of pixels, so that it need not be drawn.
fn is_fresh(path: &str, graph: &Graph, newest: i64) -> bool {
    let Ok(facts) = std::fs::metadata(text::path(path)) else { return false };
    let Ok(modified) = facts.modified() else { return false };
    let written = modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let column = (graph.options.end - graph.options.start) / graph.frame.width.max(1);
    let is_young = graph.options.now - written < column.max(1) || written > newest;
    is_young
        && draw::size_of(path, graph.options.output)
            == Some((
                graph.options.zoomed(graph.frame.image_width),
                graph.options.zoomed(graph.frame.image_height),
            ))
}
