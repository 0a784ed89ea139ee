//! What a program may call, and what the host keeps for these calls. Every address and number that a program gives is checked, and every
//! call costs fuel.

use khz_model::printable::printable;
use wasmi::errors::HostError;
use wasmi::{Caller, Engine, Error, Extern, Linker, StoreLimits};

use crate::column::Column;
use crate::error::Fault;
use crate::limits::{FUEL_OF_A_CALL, LINE_BYTES_MAX, LINES_MAX, OUTPUT_NAME_BYTES_MAX};
use crate::outputs::Outputs;

/// The module of all imports.
pub(crate) const MODULE: &str = "khz";

/// The imports that there are.
pub(crate) const NAMES: [&str; 6] = ["output", "put", "name", "unit", "is_counter", "say"];

impl HostError for Fault {}

/// What belongs to an instance, and is not in its memory.
pub(crate) struct Host {
    pub columns: Vec<Column>,
    pub outputs: Outputs,
    /// The program is in `khz_begin`, and may name its values.
    pub begins: bool,
    /// What it has said since the last call.
    pub lines: Vec<String>,
    pub lines_left_out: u64,
    pub limits: StoreLimits,
}

/// All calls.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    linker.func_wrap(MODULE, "output", output)?;
    linker.func_wrap(MODULE, "put", put)?;
    linker.func_wrap(MODULE, "name", |caller: Caller<'_, Host>, series: i32, to: i32, room: i32| {
        text(caller, "name", |column| &column.name, series, (to, room))
    })?;
    linker.func_wrap(MODULE, "unit", |caller: Caller<'_, Host>, series: i32, to: i32, room: i32| {
        text(caller, "unit", |column| &column.unit, series, (to, room))
    })?;
    linker.func_wrap(MODULE, "is_counter", is_counter)?;
    linker.func_wrap(MODULE, "say", say)?;
    Ok(linker)
}

/// Takes the fuel of a call that handles this many bytes.
fn pay(caller: &mut Caller<'_, Host>, bytes: usize) -> Result<(), Error> {
    let (left, price) = (caller.get_fuel()?, FUEL_OF_A_CALL + bytes as u64);
    // With nothing left, the next instruction ends it.
    caller.set_fuel(left.saturating_sub(price))
}

/// The bytes of a program's memory at an address that it gives.
fn bytes<'a>(
    caller: &'a mut Caller<'_, Host>,
    call: &'static str,
    at: i32,
    count: usize,
) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        return Err(Error::host(Fault::Address { call }));
    };
    let (all, host) = memory.data_and_store_mut(caller);
    // An address is unsigned: i32 is only how WebAssembly calls its bits.
    let from = at as u32 as usize;
    let part = from.checked_add(count).and_then(|to| all.get_mut(from..to));
    part.map(|part| (part, host)).ok_or_else(|| Error::host(Fault::Address { call }))
}

fn length(call: &'static str, count: i32) -> Result<usize, Error> {
    usize::try_from(count).map_err(|_| Error::host(Fault::Number { call }))
}

fn output(mut caller: Caller<'_, Host>, at: i32, count: i32) -> Result<i32, Error> {
    let count = length("output", count)?;
    pay(&mut caller, count.min(OUTPUT_NAME_BYTES_MAX))?;
    if !caller.data().begins {
        return Err(Error::host(Fault::Late));
    }
    let (name, host) = bytes(&mut caller, "output", at, count)?;
    Ok(host.outputs.name(name).map_or(-1, |number| number as i32))
}

fn put(mut caller: Caller<'_, Host>, output: i32, value: f64) -> Result<(), Error> {
    pay(&mut caller, 0)?;
    let number = length("put", output)?;
    caller.data_mut().outputs.put(number, value).ok_or_else(|| Error::host(Fault::Number { call: "put" }))
}

fn column<'a>(host: &'a Host, call: &'static str, series: i32) -> Result<&'a Column, Error> {
    let known = usize::try_from(series).ok().and_then(|series| host.columns.get(series));
    known.ok_or_else(|| Error::host(Fault::Number { call }))
}

/// Writes as much of a text as there is room for, and returns its whole length.
fn text(
    mut caller: Caller<'_, Host>,
    call: &'static str,
    of: impl Fn(&Column) -> &str,
    series: i32,
    (to, room): (i32, i32),
) -> Result<i32, Error> {
    let room = length(call, room)?;
    let text = of(column(caller.data(), call, series)?).to_owned();
    let count = text.len().min(room);
    pay(&mut caller, count)?;
    let (into, _) = bytes(&mut caller, call, to, count)?;
    into.copy_from_slice(&text.as_bytes()[..count]);
    Ok(i32::try_from(text.len()).unwrap_or(i32::MAX))
}

fn is_counter(mut caller: Caller<'_, Host>, series: i32) -> Result<i32, Error> {
    pay(&mut caller, 0)?;
    Ok(column(caller.data(), "is_counter", series)?.is_counter.into())
}

fn say(mut caller: Caller<'_, Host>, at: i32, count: i32) -> Result<(), Error> {
    let count = length("say", count)?;
    pay(&mut caller, count.min(LINE_BYTES_MAX))?;
    let (line, host) = bytes(&mut caller, "say", at, count)?;
    if host.lines.len() >= LINES_MAX {
        host.lines_left_out += 1;
        return Ok(());
    }
    let line = String::from_utf8_lossy(&line[..count.min(LINE_BYTES_MAX)]);
    // A program's words never reach a terminal as commands.
    host.lines.push(printable(&line).into_owned());
    Ok(())
}
