//! Files of other machines: recognises 32-bit and big-endian layouts and reads them into [`Content`].
//!
//! The structs are the C compiler's, so sizes and gaps differ: 4- or 8-byte `long`, 4- or 8-byte `time_t`, doubles aligned to 4
//! bytes (i386) or 8 (others). The float cookie shows the byte order, its place the alignment. Among the remaining layouts, the
//! right one gives exactly the file's length.

use std::path::Path;

use crate::content::{ArchiveState, Content, SourceState};
use crate::ds::{DataSource, Kind};
use crate::error::{Error, Result};
use crate::holt_winters;
use crate::layout::{self, CDP_PREP, FLOAT_COOKIE, LAST_DS, MAGIC};
use crate::rpn::Program;
use crate::rra::{Archive, Function, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD};
use crate::text;

/// How a machine lays the structs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Bytes of a C `long`.
    pub long: usize,
    /// Bytes of a `time_t`.
    pub time: usize,
    /// The alignment of a double (and of a 64-bit integer) inside structs.
    pub align: usize,
}

impl Machine {
    /// Every layout known, the native one first.
    pub const ALL: [Self; 10] = [
        Self { big_endian: false, long: 8, time: 8, align: 8 },
        Self { big_endian: true, long: 8, time: 8, align: 8 },
        Self { big_endian: false, long: 4, time: 4, align: 4 },
        Self { big_endian: false, long: 4, time: 4, align: 8 },
        Self { big_endian: false, long: 4, time: 8, align: 4 },
        Self { big_endian: false, long: 4, time: 8, align: 8 },
        Self { big_endian: true, long: 4, time: 4, align: 4 },
        Self { big_endian: true, long: 4, time: 4, align: 8 },
        Self { big_endian: true, long: 4, time: 8, align: 4 },
        Self { big_endian: true, long: 4, time: 8, align: 8 },
    ];

    fn up(self, at: usize) -> usize {
        at.next_multiple_of(self.align)
    }

    fn cookie(self) -> usize {
        // cookie[4] and version[5] in front.
        self.up(9)
    }

    /// Offset of the parameter union, after the three counts of the head, and the head's size.
    fn head(self) -> (usize, usize) {
        let par = self.up(self.cookie() + 8 + 3 * self.long);
        (par, par + 80)
    }

    fn source(self) -> (usize, usize) {
        let par = self.up(40);
        (par, par + 80)
    }

    /// Offsets of the counts and the parameters of an archive, and its size.
    fn archive(self) -> (usize, usize, usize) {
        let counts = 20usize.next_multiple_of(self.long);
        let par = self.up(counts + 2 * self.long);
        (counts, par, par + 80)
    }

    /// Size of the last update's stamp, before or since version 3.
    fn live(self, has_usec: bool) -> usize {
        match has_usec {
            false => self.time,
            true => (self.time + self.long).next_multiple_of(self.time.min(self.align).max(self.long)),
        }
    }

    fn state(self) -> (usize, usize) {
        let scratch = self.up(LAST_DS);
        (scratch, scratch + 80)
    }
}

struct Source<'a> {
    bytes: &'a [u8],
    machine: Machine,
    path: &'a Path,
}

impl Source<'_> {
    fn part<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let part =
            at.checked_add(N).and_then(|end| self.bytes.get(at..end)).and_then(|part| part.try_into().ok());
        part.ok_or_else(|| self.damaged(at, "the file ends inside its header"))
    }

    fn damaged(&self, at: usize, what: &str) -> Error {
        Error::Damaged { path: self.path.into(), offset: at as u64, what: what.into() }
    }

    fn word(&self, at: usize) -> Result<u64> {
        let part = self.part::<8>(at)?;
        Ok(if self.machine.big_endian { u64::from_be_bytes(part) } else { u64::from_le_bytes(part) })
    }

    fn double(&self, at: usize) -> Result<f64> {
        self.word(at).map(f64::from_bits)
    }

    /// A `long` or `time_t` of `size` bytes, sign-extended.
    fn integer(&self, at: usize, size: usize) -> Result<i64> {
        if size == 8 {
            return Ok(self.word(at)? as i64);
        }
        let part = self.part::<4>(at)?;
        Ok(i64::from(if self.machine.big_endian {
            i32::from_be_bytes(part)
        } else {
            i32::from_le_bytes(part)
        }))
    }

    fn count(&self, at: usize) -> Result<u64> {
        let value = self.integer(at, self.machine.long)?;
        // Counts are unsigned: no sign extension, except for the -1 of a missing dependence.
        Ok(if self.machine.long == 4 && value != -1 { u64::from(value as u32) } else { value as u64 })
    }
}

/// Where everything lies in a foreign file.
struct Shape {
    version: u16,
    sources: usize,
    archives: Vec<(u64, u64)>,
    values: usize,
}

/// Which machine wrote `bytes` (a whole file), or `None` where no layout fits exactly.
pub fn recognise(bytes: &[u8], path: &Path) -> Option<Machine> {
    Machine::ALL.into_iter().find(|machine| shape(&Source { bytes, machine: *machine, path }).is_ok())
}

fn shape(source: &Source<'_>) -> Result<Shape> {
    let (bytes, machine) = (source.bytes, source.machine);
    if bytes.get(..4) != Some(&MAGIC) || source.double(machine.cookie())? != FLOAT_COOKIE {
        return Err(source.damaged(0, "not a file of this machine"));
    }
    let version = layout::text_at(bytes, 4, 5).parse::<u16>().unwrap_or(0);
    if version == 0 || version > layout::VERSION_MAX {
        return Err(source.damaged(4, "unknown version"));
    }
    let counts = machine.cookie() + 8;
    let limit = bytes.len() as u64;
    let wrong = |at| source.damaged(at, "the counts do not fit the file's length");
    let (ds, rra) = (source.count(counts)?, source.count(counts + machine.long)?);
    if ds == 0 || rra == 0 || ds > limit || rra > limit || ds.saturating_mul(rra) > limit {
        return Err(wrong(counts));
    }
    let (ds, rra) = (ds as usize, rra as usize);
    let (offset, _, size) = machine.archive();
    let first = machine.head().1 + machine.source().1 * ds;
    let mut archives = Vec::new();
    let mut rows = 0u64;
    for index in 0..rra {
        let at = first + size * index + offset;
        let (count, points) = (source.count(at)?, source.count(at + machine.long)?);
        if count == 0 || points == 0 {
            return Err(wrong(at));
        }
        rows = rows.checked_add(count).ok_or_else(|| wrong(at))?;
        archives.push((count, points));
    }
    let values = first
        + size * rra
        + machine.live(version >= 3)
        + machine.state().1 * ds
        + CDP_PREP * ds * rra
        + machine.long * rra;
    let whole = rows.checked_mul(8 * ds as u64).and_then(|bytes| bytes.checked_add(values as u64));
    if whole != Some(limit) {
        return Err(wrong(counts));
    }
    Ok(Shape { version, sources: ds, archives, values })
}

/// Reads a whole file of any machine.
///
/// # Errors
/// No known layout fits, or the file contradicts itself.
pub fn import(bytes: &[u8], path: &Path) -> Result<Content> {
    let machine = recognise(bytes, path).ok_or_else(|| Error::Damaged {
        path: path.into(),
        offset: 0,
        what: format!("'{}' fits the layout of no known machine", text::name(path)),
    })?;
    let source = Source { bytes, machine, path };
    let shape = shape(&source)?;
    let step = source.count(machine.cookie() + 8 + 2 * machine.long)?;
    if step == 0 {
        return Err(source.damaged(machine.cookie(), "a step of 0 seconds"));
    }
    let (ds_par, ds_size) = machine.source();
    let definitions = machine.head().1;
    let live = definitions + ds_size * shape.sources + machine.archive().2 * shape.archives.len();
    let states = live + machine.live(shape.version >= 3);
    let last = source.integer(live, machine.time)?;
    let usec = if shape.version >= 3 { source.integer(live + machine.time, machine.long)? } else { 0 };
    let (scratch, state_size) = machine.state();
    let mut sources = vec![];
    for ds in 0..shape.sources {
        let at = states + state_size * ds;
        sources.push(SourceState {
            source: definition(&source, definitions + ds_size * ds, ds_par)?,
            last: layout::text_at(bytes, at, LAST_DS).into_owned().into_bytes(),
            value: source.double(at + scratch + 8)?,
            unknown: source.count(at + scratch)?,
        });
    }
    let archives = archives(&source, &shape, states + state_size * shape.sources)?;
    // Versions 1 and 2 are written as 3, as rrdtool does.
    let version = shape.version.max(3);
    Ok(Content { version, step, last_update: (last, usec), sources, archives })
}

fn definition(source: &Source<'_>, at: usize, par: usize) -> Result<DataSource> {
    let name = layout::text_at(source.bytes, at, 20).into_owned();
    let kind = layout::text_at(source.bytes, at + 20, 20);
    let Some(kind) = Kind::from_name(&kind) else {
        return Err(source.damaged(at + 20, &format!("unknown data source type '{kind}'")));
    };
    let par = at + par;
    let mut made = DataSource {
        name,
        kind,
        heartbeat: source.count(par)?,
        min: source.double(par + 8)?,
        max: source.double(par + 16)?,
        program: None,
    };
    if kind == Kind::Compute {
        let mut nodes = source.part::<80>(par)?;
        if source.machine.big_endian {
            nodes.chunks_exact_mut(4).for_each(|node| node.swap(2, 3));
        }
        let program = Program::decode(&nodes).map_err(|what| source.damaged(par, &what))?;
        made = DataSource { heartbeat: 0, min: f64::NAN, max: f64::NAN, program: Some(program), ..made };
    }
    Ok(made)
}

fn archives(source: &Source<'_>, shape: &Shape, states: usize) -> Result<Vec<ArchiveState>> {
    let machine = source.machine;
    let (_, par, size) = machine.archive();
    let first = machine.head().1 + machine.source().1 * shape.sources;
    let pointers = states + CDP_PREP * shape.sources * shape.archives.len();
    let mut values = shape.values;
    let mut made = vec![];
    for (rra, &(rows, points)) in shape.archives.iter().enumerate() {
        let at = first + size * rra;
        let name = layout::text_at(source.bytes, at, 20);
        let Some(function) = Function::from_name(&name) else {
            return Err(source.damaged(at, &format!("unknown consolidation function '{name}'")));
        };
        let mut archive = Archive { function, rows, points, par: [0; 10] };
        for slot in 0..10 {
            let is_count = match slot {
                PAR_DEPENDENT | PAR_THRESHOLD => !function.is_plain(),
                PAR_SMOOTH => !function.is_plain() && !function.is_forecast(),
                _ => false,
            };
            let place = at + par + 8 * slot;
            archive.par[slot] = if is_count { source.count(place)? } else { source.word(place)? };
        }
        let row = source.count(pointers + machine.long * rra)?;
        if row >= rows {
            return Err(source.damaged(pointers, "a row pointer past the end of its archive"));
        }
        let mut table = Vec::with_capacity(rows as usize * shape.sources);
        for index in 0..rows as usize * shape.sources {
            table.push(source.double(values + 8 * index)?);
        }
        values += 8 * table.len();
        table.rotate_left((row as usize + 1) % rows as usize * shape.sources);
        let mut list = vec![];
        for ds in 0..shape.sources {
            list.push(state(source, function, states + CDP_PREP * (rra * shape.sources + ds))?);
        }
        made.push(ArchiveState { archive, states: list, values: table });
    }
    Ok(made)
}

/// One archive state; which of its ten slots are counts depends on the function.
fn state(source: &Source<'_>, function: Function, at: usize) -> Result<[u8; CDP_PREP]> {
    if function == Function::Failures {
        // Characters in front, doubles at the end.
        let mut bytes = source.part::<CDP_PREP>(at)?;
        for slot in [crate::header::CDP_PRIMARY, crate::header::CDP_SECONDARY] {
            layout::put_f64(&mut bytes, 8 * slot, source.double(at + 8 * slot)?);
        }
        return Ok(bytes);
    }
    let counts: &[usize] = match function {
        Function::HwPredict | Function::MhwPredict => &[holt_winters::GAP, holt_winters::LAST_GAP],
        Function::Seasonal | Function::DevSeasonal => &[holt_winters::SEASONS],
        _ => &[crate::header::CDP_UNKNOWN],
    };
    let mut bytes = [0; CDP_PREP];
    for slot in 0..10 {
        let place = at + 8 * slot;
        let word = if counts.contains(&slot) { source.count(place)? } else { source.word(place)? };
        layout::put_u64(&mut bytes, 8 * slot, word);
    }
    Ok(bytes)
}
