//! The XML of `rrdtool dump`; writes text, reads rows through the file it is given.

use std::io::Write;

use crate::error::{Error, Result};
use crate::file::Rrd;
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, CDP_VALUE};
use crate::holt_winters::{
    GAP, INTERCEPT, LAST_GAP, LAST_INTERCEPT, LAST_SEASONAL, LAST_SLOPE, SEASONAL, SEASONS, SLOPE,
};
use crate::info::{expression, history};
use crate::local_time;
use crate::number::scaled_text as number_text;
use crate::rra::{Function, PAR_ALPHA, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD, PAR_XFF};
use crate::text;

/// The text before the root element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prologue {
    /// XML declaration and document type.
    Dtd,
    /// XML declaration and schema attributes.
    Xsd,
    /// Nothing.
    None,
}

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";
const DOCTYPE: &str = "<!DOCTYPE rrd SYSTEM \"https://oss.oetiker.ch/rrdtool/rrdtool.dtd\">\n";
const SCHEMA: &str = " xmlns=\"https://oss.oetiker.ch/rrdtool/rrdtool-dump.xml\" \
     xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"\n\
     \txsi:schemaLocation=\"https://oss.oetiker.ch/rrdtool/rrdtool-dump.xml \
     https://oss.oetiker.ch/rrdtool/rrdtool-dump.xsd\"";

/// Writes the whole file as XML.
///
/// # Errors
/// Reading the file or writing the text failed.
pub fn dump(rrd: &Rrd, prologue: Prologue, out: &mut dyn Write) -> Result<()> {
    let header = &rrd.header;
    let mut text = Text { out, path: rrd.path() };
    match prologue {
        Prologue::Dtd => text.put(&format!("{DECLARATION}{DOCTYPE}"))?,
        Prologue::Xsd => text.put(DECLARATION)?,
        Prologue::None => {}
    }
    let schema = if prologue == Prologue::Xsd { SCHEMA } else { "" };
    text.put(&format!("<!-- Round Robin Database Dump -->\n<rrd{schema}>\n"))?;
    text.put(&format!("\t<version>{:04}</version>\n", header.version()))?;
    text.put(&format!("\t<step>{}</step> <!-- Seconds -->\n", header.step()))?;
    let last = header.last_update();
    text.put(&format!("\t<lastupdate>{last}</lastupdate> <!-- {} -->\n\n", date(last)))?;
    for ds in 0..header.sources().len() {
        source(&mut text, rrd, ds)?;
    }
    text.put("\t<!-- Round Robin Archives -->\n")?;
    for rra in 0..header.archives().len() {
        archive(&mut text, rrd, rra)?;
    }
    text.put("</rrd>\n")
}

struct Text<'a> {
    out: &'a mut dyn Write,
    path: &'a std::path::Path,
}

impl Text<'_> {
    fn put(&mut self, text: &str) -> Result<()> {
        self.out.write_all(&text::bytes(text)).map_err(|error| Error::io("dumping", self.path, error))
    }
}

fn date(seconds: i64) -> String {
    match local_time::local(seconds) {
        Some((at, _, zone)) => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {zone}",
            at.year,
            at.month + 1,
            at.day,
            at.hour,
            at.minute,
            at.second
        ),
        None => "?".into(),
    }
}

/// A text with the characters XML reserves replaced.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn source(text: &mut Text<'_>, rrd: &Rrd, ds: usize) -> Result<()> {
    let source = &rrd.header.sources()[ds];
    text.put(&format!(
        "\t<ds>\n\t\t<name> {} </name>\n\t\t<type> {} </type>\n",
        source.name,
        source.kind.name()
    ))?;
    if source.program.is_some() {
        text.put(&format!("\t\t<cdef> {} </cdef>\n\n", escaped(&expression(&rrd.header, ds))))?;
    } else {
        let (min, max) = (number_text(source.min), number_text(source.max));
        text.put(&format!("\t\t<minimal_heartbeat>{}</minimal_heartbeat>\n", source.heartbeat))?;
        text.put(&format!("\t\t<min>{min}</min>\n\t\t<max>{max}</max>\n\n"))?;
    }
    let last = text::of(rrd.header.last_reading(ds)).into_owned();
    text.put("\t\t<!-- PDP Status -->\n")?;
    text.put(&format!("\t\t<last_ds>{}</last_ds>\n", escaped(&last)))?;
    text.put(&format!("\t\t<value>{}</value>\n", number_text(rrd.header.point_value(ds))))?;
    text.put(&format!("\t\t<unknown_sec> {} </unknown_sec>\n\t</ds>\n\n", rrd.header.unknown_seconds(ds)))
}

fn archive(text: &mut Text<'_>, rrd: &Rrd, rra: usize) -> Result<()> {
    let (header, archive) = (&rrd.header, &rrd.header.archives()[rra]);
    text.put(&format!("\t<rra>\n\t\t<cf>{}</cf>\n", archive.function.name()))?;
    let seconds = header.row_seconds(rra);
    text.put(&format!("\t\t<pdp_per_row>{}</pdp_per_row> <!-- {seconds} seconds -->\n\n", archive.points))?;
    text.put("\t\t<params>\n")?;
    let number =
        |name: &str, index: usize| format!("\t\t<{name}>{}</{name}>\n", number_text(archive.f64(index)));
    let count = |name: &str, index: usize| format!("\t\t<{name}>{}</{name}>\n", archive.par[index] as i64);
    let parameters = match archive.function {
        Function::HwPredict | Function::MhwPredict => {
            vec![
                number("hw_alpha", PAR_ALPHA),
                number("hw_beta", PAR_BETA),
                count("dependent_rra_idx", PAR_DEPENDENT),
            ]
        }
        Function::Seasonal | Function::DevSeasonal => {
            let mut list =
                vec![number("seasonal_gamma", PAR_ALPHA), count("seasonal_smooth_idx", PAR_SMOOTH)];
            if header.version() >= 4 {
                list.push(number("smoothing_window", PAR_BETA));
            }
            list.push(count("dependent_rra_idx", PAR_DEPENDENT));
            list
        }
        Function::DevPredict => vec![count("dependent_rra_idx", PAR_DEPENDENT)],
        Function::Failures => vec![
            number("delta_pos", PAR_ALPHA),
            number("delta_neg", PAR_BETA),
            count("window_len", PAR_SMOOTH),
            count("failure_threshold", PAR_THRESHOLD),
            count("dependent_rra_idx", PAR_DEPENDENT),
        ],
        _ => vec![number("xff", PAR_XFF)],
    };
    text.put(&parameters.concat())?;
    text.put("\t\t</params>\n\t\t<cdp_prep>\n")?;
    for ds in 0..header.sources().len() {
        state(text, rrd, rra, ds)?;
    }
    text.put("\t\t</cdp_prep>\n\t\t<database>\n")?;
    rows(text, rrd, rra)?;
    text.put("\t\t</database>\n\t</rra>\n")
}

fn state(text: &mut Text<'_>, rrd: &Rrd, rra: usize, ds: usize) -> Result<()> {
    let header = &rrd.header;
    let number =
        |name: &str, slot| format!("\t\t\t<{name}>{}</{name}>\n", number_text(header.cdp(rra, ds, slot)));
    let count = |name: &str, slot| format!("\t\t\t<{name}>{}</{name}>\n", header.cdp_count(rra, ds, slot));
    let mut list = vec![number("primary_value", CDP_PRIMARY), number("secondary_value", CDP_SECONDARY)];
    list.extend(match header.archives()[rra].function {
        Function::HwPredict | Function::MhwPredict => vec![
            number("intercept", INTERCEPT),
            number("last_intercept", LAST_INTERCEPT),
            number("slope", SLOPE),
            number("last_slope", LAST_SLOPE),
            count("nan_count", GAP),
            count("last_nan_count", LAST_GAP),
        ],
        Function::Seasonal | Function::DevSeasonal => {
            vec![
                number("seasonal", SEASONAL),
                number("last_seasonal", LAST_SEASONAL),
                count("init_flag", SEASONS),
            ]
        }
        Function::DevPredict => vec![],
        Function::Failures => vec![format!("\t\t\t<history>{}</history>\n", history(header, rra, ds))],
        _ => vec![number("value", CDP_VALUE), count("unknown_datapoints", CDP_UNKNOWN)],
    });
    text.put(&format!("\t\t\t<ds>\n{}\t\t\t</ds>\n", list.concat()))
}

fn rows(text: &mut Text<'_>, rrd: &Rrd, rra: usize) -> Result<()> {
    let (rows, seconds) = (rrd.header.archives()[rra].rows, rrd.header.row_seconds(rra));
    let newest = rrd.header.newest_row_end(rra) as u64;
    let mut line = String::new();
    // In pieces, so that a dump of gigabytes takes little memory.
    const ROWS_A_PIECE: u64 = 1024;
    let mut done = 0;
    while done < rows {
        let take = ROWS_A_PIECE.min(rows - done);
        let values = rrd.rows(rra, rrd.header.current_row(rra) + 1 + done, take)?;
        for (index, row) in values.chunks(rrd.header.sources().len()).enumerate() {
            let end = newest.wrapping_sub((rows - 1 - done - index as u64).wrapping_mul(seconds)) as i64;
            line.clear();
            line.push_str(&format!("\t\t\t<!-- {} / {end} --> <row>", date(end)));
            for value in row {
                line.push_str("<v>");
                line.push_str(&number_text(*value));
                line.push_str("</v>");
            }
            line.push_str("</row>\n");
            text.put(&line)?;
        }
        done += take;
    }
    Ok(())
}
