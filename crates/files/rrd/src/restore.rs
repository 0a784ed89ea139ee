//! From the XML of `dump` back to a file's content; accepts what rrdtool writes, refuses the rest with its line.

use crate::content::{ArchiveState, Content, SourceState};
use crate::ds::{DataSource, Kind};
use crate::error::{Result, refused};
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, CDP_VALUE, Header};
use crate::holt_winters::{
    GAP, INTERCEPT, LAST_GAP, LAST_INTERCEPT, LAST_SEASONAL, LAST_SLOPE, SEASONAL, SEASONS, SLOPE,
};
use crate::layout::{self, CDP_PREP, LAST_DS, NAME_MAX};
use crate::number::{self, Reading, UNKNOWN};
use crate::rpn::Program;
use crate::rra::{Archive, Function, PAR_ALPHA, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD, PAR_XFF};
use crate::spec::WINDOW_MAX;

/// Parses a dump. `row` gives each archive's position in the new file; `check_range` makes values outside
/// their source's limits unknown.
///
/// # Errors
/// The text is not a dump; the message has the line.
pub fn parse(
    text: &str,
    check_range: bool,
    row: impl FnMut(usize, u64) -> u64,
) -> Result<(Header, Vec<f64>)> {
    let mut reader = Reader { text, at: 0, open: None };
    let mut content = reader.file()?;
    if check_range {
        range_check(&mut content);
    }
    for (index, state) in content.archives.iter_mut().enumerate() {
        let width = content.sources.len().max(1);
        if state.states.len() != content.sources.len() || state.values.is_empty() {
            return refused(format!("archive {index} does not fit the {width} data sources"));
        }
        state.archive.rows = (state.values.len() / width) as u64;
    }
    content.build(row)
}

fn range_check(content: &mut Content) {
    let limits: Vec<(f64, f64)> =
        content.sources.iter().map(|state| (state.source.min, state.source.max)).collect();
    for state in &mut content.archives {
        for (place, value) in state.values.iter_mut().enumerate() {
            let (min, max) = limits[place % limits.len()];
            if *value < min || *value > max {
                *value = UNKNOWN;
            }
        }
    }
}

enum Event<'a> {
    Open(&'a str),
    Close(&'a str),
    Text(&'a str),
    End,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The name of an empty element (`<a/>`) whose end event is still to come.
    open: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        let line = 1 + self.text[..self.at].bytes().filter(|byte| *byte == b'\n').count();
        refused(format!("error reading/parsing XML: {what} in line {line}"))
    }

    /// The next event, without declarations and comments.
    fn next(&mut self) -> Result<Event<'a>> {
        if let Some(name) = self.open.take() {
            return Ok(Event::Close(name));
        }
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() {
                return Ok(Event::End);
            }
            if !rest.starts_with('<') {
                let len = rest.find('<').unwrap_or(rest.len());
                self.at += len;
                if !rest[..len].trim().is_empty() {
                    return Ok(Event::Text(&rest[..len]));
                }
                continue;
            }
            let end = if rest.starts_with("<!--") { "-->" } else { ">" };
            let Some(len) = rest.find(end) else { return self.fail("a tag without end") };
            let tag = &rest[1..len];
            self.at += len + end.len();
            if tag.starts_with('!') || tag.starts_with('?') {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                return Ok(Event::Close(name.trim()));
            }
            let name = tag.split_whitespace().next().unwrap_or("").trim_end_matches('/');
            if tag.ends_with('/') {
                self.open = Some(name);
            }
            return Ok(Event::Open(name));
        }
    }

    /// Calls `child` for each element inside `parent`, up to its end.
    fn children(
        &mut self,
        parent: &str,
        mut child: impl FnMut(&mut Self, &'a str) -> Result<()>,
    ) -> Result<()> {
        loop {
            match self.next()? {
                Event::Open(name) => child(self, name)?,
                Event::Close(name) if name == parent => return Ok(()),
                Event::Close(name) => return self.fail(&format!("</{name}> inside <{parent}>")),
                Event::Text(_) => return self.fail(&format!("text inside <{parent}>")),
                Event::End => return self.fail(&format!("<{parent}> without end")),
            }
        }
    }

    /// The text of an element that has nothing else in it.
    fn text(&mut self, name: &str) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Event::Text(part) => text.push_str(part.trim()),
                Event::Close(end) if end == name => return Ok(unescaped(&text)),
                _ => return self.fail(&format!("something else than text in <{name}>")),
            }
        }
    }

    fn number(&mut self, name: &str) -> Result<f64> {
        let text = self.text(name)?;
        match number::read(&text) {
            Reading::Whole(value) if value.is_nan() => Ok(UNKNOWN),
            Reading::Whole(value) => Ok(value),
            _ => self.fail(&format!("<{name}> is '{text}', no number")),
        }
    }

    fn count(&mut self, name: &str) -> Result<u64> {
        let text = self.text(name)?;
        // An archive index may be -1, which is not an archive.
        match text.parse::<i64>().map(|value| value as u64).or_else(|_| text.parse::<u64>()) {
            Ok(value) => Ok(value),
            Err(_) => self.fail(&format!("<{name}> is '{text}', no count")),
        }
    }

    fn file(&mut self) -> Result<Content> {
        let mut content =
            Content { version: 3, step: 0, last_update: (0, 0), sources: vec![], archives: vec![] };
        match self.next()? {
            Event::Open("rrd") => {}
            _ => return self.fail("no <rrd>"),
        }
        self.children("rrd", |reader, name| {
            match name {
                "version" => {
                    let version = reader.count(name)?;
                    if version == 0 || version > u64::from(layout::VERSION_MAX) {
                        return reader.fail(&format!("version {version}"));
                    }
                    content.version = version as u16;
                }
                "step" => content.step = reader.count(name)?,
                "lastupdate" => content.last_update.0 = reader.count(name)? as i64,
                "ds" => {
                    let state = reader.source(&content.sources)?;
                    content.sources.push(state);
                }
                "rra" => {
                    let state = reader.archive(content.sources.len())?;
                    content.archives.push(state);
                }
                _ => return reader.fail(&format!("unknown element <{name}>")),
            }
            Ok(())
        })?;
        if content.step == 0 || content.step > i64::MAX as u64 {
            return self.fail("a step of 0 seconds");
        }
        Ok(content)
    }

    fn source(&mut self, before: &[SourceState]) -> Result<SourceState> {
        let mut source = DataSource {
            name: String::new(),
            kind: Kind::Gauge,
            heartbeat: 0,
            min: UNKNOWN,
            max: UNKNOWN,
            program: None,
        };
        let (mut last, mut value, mut unknown) = (vec![], UNKNOWN, 0);
        self.children("ds", |reader, name| {
            match name {
                "name" => source.name = reader.text(name)?,
                "type" => {
                    let kind = reader.text(name)?;
                    let Some(kind) = Kind::from_name(&kind) else {
                        return reader.fail(&format!("unknown data source type '{kind}'"));
                    };
                    source.kind = kind;
                }
                "minimal_heartbeat" => source.heartbeat = reader.count(name)?,
                "min" => source.min = reader.number(name)?,
                "max" => source.max = reader.number(name)?,
                "cdef" => {
                    let text = reader.text(name)?;
                    let find = |name: &str| before.iter().position(|state| state.source.name == name);
                    let Some(program) =
                        Program::parse(&text, find).filter(|program| program.storable().is_ok())
                    else {
                        return reader.fail(&format!("no expression: '{text}'"));
                    };
                    source.program = Some(program);
                }
                "last_ds" => {
                    last = reader.text(name)?.into_bytes();
                    last.truncate(LAST_DS - 1);
                }
                "value" => value = reader.number(name)?,
                "unknown_sec" => unknown = reader.count(name)?,
                _ => return reader.fail(&format!("unknown element <{name}>")),
            }
            Ok(())
        })?;
        if source.name.is_empty() || source.name.len() > NAME_MAX {
            return self.fail("a data source without a fitting name");
        }
        if (source.kind == Kind::Compute) != source.program.is_some() {
            return self.fail("type and expression that do not belong together");
        }
        Ok(SourceState { source, last, value, unknown })
    }

    fn archive(&mut self, sources: usize) -> Result<ArchiveState> {
        let archive = Archive { function: Function::Average, rows: 0, points: 1, par: [0; 10] };
        let mut state = ArchiveState { archive, states: vec![], values: vec![] };
        self.children("rra", |reader, name| {
            match name {
                "cf" => {
                    let function = reader.text(name)?;
                    let Some(function) = Function::from_name(&function) else {
                        return reader.fail(&format!("unknown consolidation function '{function}'"));
                    };
                    state.archive.function = function;
                }
                "pdp_per_row" => {
                    state.archive.points = reader.count(name)?;
                    if state.archive.points == 0 || state.archive.points > i64::MAX as u64 {
                        return reader.fail("rows of no points");
                    }
                }
                // In version 1 it is outside of params.
                "xff" => state.archive.set_f64(PAR_XFF, reader.number(name)?),
                "params" => {
                    reader.children(name, |reader, name| reader.parameter(&mut state.archive, name))?;
                }
                "cdp_prep" => {
                    let function = state.archive.function;
                    reader.children(name, |reader, name| {
                        let mut bytes = [0; CDP_PREP];
                        reader.children(name, |reader, name| reader.state(function, &mut bytes, name))?;
                        state.states.push(bytes);
                        Ok(())
                    })?;
                }
                "database" => reader.children(name, |reader, row| {
                    let mut width = 0;
                    reader.children(row, |reader, name| {
                        state.values.push(reader.number(name)?);
                        width += 1;
                        Ok(())
                    })?;
                    match width == sources {
                        true => Ok(()),
                        false => reader.fail(&format!("a row of {width} values for {sources} data sources")),
                    }
                })?,
                _ => return reader.fail(&format!("unknown element <{name}>")),
            }
            Ok(())
        })?;
        Ok(state)
    }

    fn parameter(&mut self, archive: &mut Archive, name: &str) -> Result<()> {
        let (index, is_count) = match name {
            "xff" => (PAR_XFF, false),
            "hw_alpha" | "seasonal_gamma" | "delta_pos" => (PAR_ALPHA, false),
            "hw_beta" | "smoothing_window" | "delta_neg" => (PAR_BETA, false),
            "dependent_rra_idx" => (PAR_DEPENDENT, true),
            "seasonal_smooth_idx" | "window_len" => (PAR_SMOOTH, true),
            "failure_threshold" => (PAR_THRESHOLD, true),
            _ => return self.fail(&format!("unknown element <{name}>")),
        };
        if is_count {
            archive.par[index] = self.count(name)?;
        } else {
            let value = self.number(name)?;
            archive.set_f64(index, value);
        }
        Ok(())
    }

    fn state(&mut self, function: Function, bytes: &mut [u8; CDP_PREP], name: &str) -> Result<()> {
        let slot = match name {
            "primary_value" => CDP_PRIMARY,
            "secondary_value" => CDP_SECONDARY,
            "value" => CDP_VALUE,
            "unknown_datapoints" => CDP_UNKNOWN,
            "intercept" => INTERCEPT,
            "last_intercept" => LAST_INTERCEPT,
            "slope" => SLOPE,
            "last_slope" => LAST_SLOPE,
            "nan_count" => GAP,
            "last_nan_count" => LAST_GAP,
            "seasonal" => SEASONAL,
            "last_seasonal" => LAST_SEASONAL,
            "init_flag" => SEASONS,
            "history" if function == Function::Failures => {
                let marks = self.text(name)?;
                for (byte, mark) in bytes.iter_mut().zip(marks.bytes().take(WINDOW_MAX as usize)) {
                    *byte = u8::from(mark == b'1');
                }
                return Ok(());
            }
            _ => return self.fail(&format!("unknown element <{name}>")),
        };
        match name {
            "unknown_datapoints" | "nan_count" | "last_nan_count" | "init_flag" => {
                layout::put_u64(bytes, 8 * slot, self.count(name)?);
            }
            _ => layout::put_f64(bytes, 8 * slot, self.number(name)?),
        }
        Ok(())
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}
