//! Files of numbers that programs leave for node_exporter (`*.prom`, in Prometheus' text format). The files define their names, so
//! the catalogue does not have them: `jobs_total{queue="a"}` becomes `text.jobs_total[queue=a]`, and keeps its own name at
//! Prometheus. The crate `gather` reads and checks the files; this file defines the names in khz, and the text in between:
//!
//! ```text
//! error 0
//! mtime 1441205977 /var/lib/prometheus/node-exporter/jobs.prom
//! help jobs_total Jobs that were done.
//! counter jobs_total{queue="a"} 1000
//! untyped up 1
//! ```
//!
//! Each name is there once. A number is a double, as in these files.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use khz_model::labels::LabelError;
use khz_model::name::METRIC_NAME_MAX;
use khz_model::{
    Exposition, Fault, Instance, Labels, Metric, Origin, Reading, Refresh, Series, Unit, ValueType,
};

use crate::entry::{Entry, gauge};
use crate::exposition::{Family, Kind, Sample, escape, families};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::sink::Sink;
use crate::survey::{self, SURVEY_PERIOD};

/// Where the names of files begin.
pub const PREFIX: &str = "text.";
/// Where Debian's packages put such files.
pub const FOLDER: &str = "var/lib/prometheus/node-exporter";
/// The longest help; the rest is left out.
pub const TEXT_HELP_MAX: usize = 200;

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "textfile",
    path: FOLDER,
    pieces: Pieces::Survey { subject: Subject::TextFiles, captured: "survey/textfile" },
    only_base: true,
    scalars: SCALARS,
    groups: &[PER_FILE],
    parse,
};

static SCALARS: &[Entry] = &[gauge(
    "textfile.error",
    "error",
    Unit::Count,
    "1 if a file of numbers (*.prom) was left out because of an error, or the folder could not be read.",
)
.every(SURVEY_PERIOD)
.exposed("node_textfile_scrape_error", &[])];

const PER_FILE: Group = Group {
    label: "file",
    entries: &[gauge(
        "textfile.mtime",
        "mtime",
        Unit::Seconds,
        "When the file was last written, since 1970.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_textfile_mtime_seconds", &[])],
    ..Group::PLAIN
};

/// Why a sample of a file cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// The name is too long.
    #[error("{name}: a name has at most {max} bytes", max = METRIC_NAME_MAX - PREFIX.len())]
    Name {
        /// Its beginning.
        name: String,
    },
    /// The name begins with a colon. Prometheus accepts it, but older programs that read khz's rows would refuse everything that
    /// comes with it.
    #[error("{name}: khz has no names that begin with ':'")]
    Colon {
        /// Its beginning.
        name: String,
    },
    /// The labels are none that a series may have.
    #[error("{name}: {error}")]
    Labels {
        /// The name of the sample.
        name: String,
        /// What is wrong with them.
        error: LabelError,
    },
}

/// The name of a family in khz: small letters, digits and `_` after [`PREFIX`].
///
/// # Errors
/// It is too long, or begins with a colon.
pub fn metric_name(name: &str) -> Result<String, GivenError> {
    let begin = || name[..name.floor_char_boundary(64)].to_owned();
    if PREFIX.len() + name.len() > METRIC_NAME_MAX {
        return Err(GivenError::Name { name: begin() });
    }
    if name.starts_with(':') {
        return Err(GivenError::Colon { name: begin() });
    }
    let mut given = String::from(PREFIX);
    given.extend(name.chars().map(|c| if c == ':' { '_' } else { c.to_ascii_lowercase() }));
    Ok(given)
}

/// The labels of a sample, in a form that both khz and Prometheus accept: labels that Prometheus uses for the origin of a
/// number become `exported_...`, as in Prometheus itself.
fn labels_of(sample: &Sample<'_>) -> Result<Labels, LabelError> {
    let name = |name| match name {
        "instance" => Cow::Borrowed("exported_instance"),
        "job" => Cow::Borrowed("exported_job"),
        "node" => Cow::Borrowed("exported_node"),
        _ => Cow::Borrowed(name),
    };
    let labels: Vec<(Cow<'_, str>, &str)> =
        sample.labels.iter().map(|(label, value)| (name(*label), &**value)).collect();
    Labels::new(labels.iter().map(|(label, value)| (&**label, *value)))
}

/// The series of a sample.
///
/// # Errors
/// khz cannot have its name or labels.
pub fn series(family: &Family<'_>, sample: &Sample<'_>) -> Result<Series, GivenError> {
    let metric = metric(family)?;
    let labels = labels_of(sample).map_err(|error| GivenError::Labels {
        name: family.name[..family.name.len().min(64)].to_owned(),
        error,
    })?;
    let instance = (!labels.is_empty()).then(|| Instance::from_kernel(b"").with_labels(&labels));
    Ok(Series { metric: Arc::new(metric), instance })
}

fn metric(family: &Family<'_>) -> Result<Metric, GivenError> {
    let kind = match family.kind {
        Kind::Counter => khz_model::Kind::Counter,
        Kind::Gauge | Kind::Untyped => khz_model::Kind::Gauge,
    };
    let help: String = family.help.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = Metric::plain(metric_name(family.name)?, family.name.to_owned(), kind, Unit::Count);
    Ok(Metric {
        value_type: ValueType::Float,
        refresh: Refresh::Every(SURVEY_PERIOD),
        help: help[..help.floor_char_boundary(TEXT_HELP_MAX)].to_owned().into(),
        origin: Origin { file: "*.prom".into(), field: family.name.to_owned().into() },
        instances: Some("labels".into()),
        exposition: Exposition { untyped: family.kind == Kind::Untyped, ..plain.exposition },
        ..plain
    })
}

/// Writes whether there was an error.
pub fn write_error(is_error: bool, text: &mut String) {
    text.push_str(if is_error { "error 1\n" } else { "error 0\n" });
}

/// Writes when a file was last written, in seconds since 1970.
pub fn write_mtime(seconds: u64, path: &[u8], text: &mut Vec<u8>) {
    text.extend(format!("mtime {seconds} ").bytes());
    survey::escape(path, text);
    text.push(b'\n');
}

/// Writes a family.
pub fn write_family(family: &Family<'_>, text: &mut String) {
    if !family.help.is_empty() {
        text.push_str(&format!("help {} ", family.name));
        escape(&family.help[..family.help.floor_char_boundary(TEXT_HELP_MAX)], false, text);
        text.push('\n');
    }
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Untyped => "untyped",
    };
    for sample in &family.samples {
        text.push_str(&format!("{kind} {}", family.name));
        for (number, (label, value)) in sample.labels.iter().enumerate() {
            text.push(if number == 0 { '{' } else { ',' });
            text.push_str(&format!("{label}=\""));
            escape(value, true, text);
            text.push('"');
        }
        text.push_str(if sample.labels.is_empty() { " " } else { "} " });
        text.push_str(&format!("{:?}\n", sample.value));
    }
}

/// Reads the text.
fn parse(sink: &mut Sink<'_>) {
    let mut help: Range<usize> = 0..0;
    sink.lines(|sink, line| {
        let text = sink.text();
        let Some(blank) = text[line.clone()].iter().position(|&byte| byte == b' ') else {
            return sink.note(String::from("a line"), "it is no word and what it says");
        };
        let said = line.start + blank + 1..line.end;
        match &text[line.start..line.start + blank] {
            b"error" => sink.scalar(0, said),
            b"mtime" => mtime(sink, said),
            b"help" => help = said,
            b"counter" | b"gauge" | b"untyped" => number(sink, &line, help.clone()),
            _ => sink.ignore(said),
        }
    });
}

fn mtime(sink: &mut Sink<'_>, said: Range<usize>) {
    let text = sink.text();
    // A number that gets shorter in place has blanks before it.
    let blanks = text[said.clone()].iter().take_while(|&&byte| byte == b' ').count();
    let number = said.start + blanks..said.end;
    let Some(digits) = text[number.clone()].iter().position(|&byte| byte == b' ') else {
        return sink.note(String::from("mtime"), "a file is missing");
    };
    let path = &text[number.start + digits + 1..said.end];
    if let Some(file) = sink.instance_as(0, path, || Instance::from_kernel(&survey::unescaped(path))) {
        sink.field(file, 0, number.start..number.start + digits);
    }
}

/// A number with a given name. A name keeps the kind that it had first.
fn number(sink: &mut Sink<'_>, line: &Range<usize>, help: Range<usize>) {
    let text = sink.text();
    let Some(length) = text[line.clone()].iter().rposition(|&byte| byte == b' ') else { return };
    let (said, value) = (&text[line.start..line.start + length], &text[line.start + length + 1..line.end]);
    let Some((kind, sample)) = std::str::from_utf8(said).ok().and_then(|said| said.split_once(' ')) else {
        return;
    };
    let value = std::str::from_utf8(value).ok().and_then(|value| value.parse::<f64>().ok());
    let reading = |metric: &Metric| match value {
        Some(value) if metric.kind == khz_model::Kind::Counter && value < 0.0 => {
            Reading::Failed(Fault::OutOfRange)
        }
        Some(value) => Reading::Present(value.to_bits()),
        None => Reading::Failed(Fault::Malformed),
    };
    sink.given(sample, || read_series(kind, sample, &text[help]), reading);
}

/// The series of a new line.
fn read_series(kind: &str, sample: &str, help: &[u8]) -> Option<Series> {
    let name = sample.split('{').next()?;
    let help = std::str::from_utf8(help).ok().and_then(|help| help.strip_prefix(name)?.strip_prefix(' '));
    let help = help.map_or(String::new(), |help| format!("# HELP {name} {help}\n"));
    let text = format!("{help}# TYPE {name} {kind}\n{sample} 0\n");
    let families = families(&text).ok()?;
    let family = families.first()?;
    series(family, family.samples.first()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parser;
    use khz_model::{Absence, Nanos};

    /// What the survey would make of a file.
    fn text_of(file: &str) -> String {
        let (mut error, mut mtime, mut numbers) = (String::new(), Vec::new(), String::new());
        write_error(false, &mut error);
        write_mtime(1_441_205_977, b"/a b.prom", &mut mtime);
        families(file).unwrap().iter().for_each(|family| write_family(family, &mut numbers));
        error + std::str::from_utf8(&mtime).unwrap() + &numbers
    }

    /// Each series and its reading.
    fn shown(parser: &Parser) -> Vec<(String, String)> {
        let one = |(slot, series): (usize, &Series)| {
            let reading = match parser.reading(slot).unwrap() {
                Reading::Present(bits) if series.metric.value_type == ValueType::Float => {
                    f64::from_bits(bits).to_string()
                }
                Reading::Present(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            (series.to_string(), reading)
        };
        parser.schema().series().iter().enumerate().map(one).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(series, reading)| (String::from(*series), String::from(*reading))).collect()
    }

    #[test]
    fn numbers_come_and_go_and_keep_their_kind() {
        let mut parser = Parser::new(&FILE);
        parser.advance_with(
            text_of("# HELP Jobs:total Jobs.\n# TYPE Jobs:total counter\nJobs:total{queue=\"a b\"} 7\nup{job=\"x\"} NaN\nup 1\n")
                .as_bytes(),
        );
        let first = [
            ("textfile.error", "0"),
            ("textfile.mtime[%2Fa%20b.prom]", "1441205977"),
            ("text.jobs_total[queue=a%20b]", "7"),
            ("text.up[exported_job=x]", "NaN"),
            ("text.up", "1"),
        ];
        assert_eq!(shown(&parser), pairs(&first));
        let metric = parser.schema().series()[2].metric.clone();
        assert_eq!((&*metric.help, &*metric.exposition.name), ("Jobs.", "Jobs:total"));
        assert_eq!((metric.kind, metric.exposition.untyped), (khz_model::Kind::Counter, false));
        assert!(parser.schema().series()[4].metric.exposition.untyped);

        parser.advance_with(text_of("# TYPE up counter\nup 2.5\nnew 1\n").as_bytes());
        let gone = format!("{:?}", Reading::Absent(Absence::InstanceGone));
        let second = [
            ("textfile.error", "0"),
            ("textfile.mtime[%2Fa%20b.prom]", "1441205977"),
            ("text.jobs_total[queue=a%20b]", &gone),
            ("text.up[exported_job=x]", &gone),
            ("text.up", "2.5"),
            ("text.new", "1"),
        ];
        assert_eq!(shown(&parser), pairs(&second));
        assert_eq!(parser.schema().series()[4].metric.kind, khz_model::Kind::Gauge);

        // Instances that have gone give their slots back; instances that exist keep their readings.
        let (early, late) = (Nanos::from_secs(1), Nanos::from_secs(400));
        assert_eq!(parser.slots_gone(early, Nanos::from_secs(300)), 0);
        assert_eq!(parser.slots_gone(late, Nanos::from_secs(300)), 2);
        parser.renew(late, Nanos::from_secs(300));
        assert_eq!(shown(&parser), pairs(&[second[0], second[1], second[4], second[5]]));
    }

    #[test]
    fn damaged_texts_keep_what_is_whole() {
        let whole = text_of("# TYPE a counter\na{x=\"1\"} 7\nb 2\n");
        for end in 0..whole.len() {
            let mut parser = Parser::new(&FILE);
            parser.advance_with(&whole.as_bytes()[..end]);
        }
        let mut parser = Parser::new(&FILE);
        parser.advance_with(b"error 0\ncounter a{x=\"1\" 7\ncounter b -1\nuntyped c x\nuntyped d 4\nnew 5\n");
        let found = shown(&parser);
        assert_eq!(found[1], ("text.b".to_owned(), format!("{:?}", Reading::Failed(Fault::OutOfRange))));
        assert_eq!(found[2], ("text.c".to_owned(), format!("{:?}", Reading::Failed(Fault::Malformed))));
        assert_eq!(found[3], ("text.d".to_owned(), "4".to_owned()));
    }

    #[test]
    fn what_khz_cannot_have_is_refused_with_the_reason() {
        let text = format!("{} 1\na{{b=\"{}\"}} 1\n", "n".repeat(METRIC_NAME_MAX), "v".repeat(5_000));
        let families = families(&text).unwrap();
        let errors: Vec<String> =
            families.iter().map(|f| series(f, &f.samples[0]).unwrap_err().to_string()).collect();
        assert!(errors[0].ends_with("a name has at most 123 bytes"), "{errors:?}");
        assert!(errors[1].starts_with("a: "), "{errors:?}");
    }
}
