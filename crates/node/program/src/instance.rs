//! One run of a program, with a memory of its own. Whatever the module does, a call ends within its fuel; after a fault the instance is
//! dead, since nobody knows what its memory holds.

use khz_model::{Reading, Stamp};
use wasmi::{Error, Memory, Store, StoreLimitsBuilder, TypedFunc};

use crate::column::Column;
use crate::error::{Fault, ProgramError};
use crate::host::Host;
use crate::limits::{Limits, SERIES_MAX, VERSION};
use crate::outputs::Outputs;
use crate::program::Program;
use crate::room::{Head, Room};

/// A row's stamp, and what was lost before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// When the row was gathered.
    pub stamp: Stamp,
    /// Rows that were lost since the one before.
    pub lost: u64,
}

/// What an instance has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Rows that it got.
    pub rows_in: u64,
    /// Rows that it gave.
    pub rows_out: u64,
    /// Fuel of all its rows.
    pub fuel: u64,
    /// The most fuel of one row.
    pub fuel_most: u64,
    /// Bytes of its memory now.
    pub memory_bytes: u64,
    /// Lines that it said and that were left out.
    pub lines_left_out: u64,
}

/// A running program.
pub struct Instance {
    store: Store<Host>,
    memory: Memory,
    room_of: TypedFunc<(), i32>,
    begin: TypedFunc<i32, i32>,
    row: TypedFunc<(), i32>,
    room: Option<Room>,
    limits: Limits,
    spent: Spent,
    is_dead: bool,
}

impl Instance {
    /// Begins a program. It gets no row before [`Instance::begin`].
    ///
    /// # Errors
    /// It needs too much memory, or is of another version of the interface.
    pub fn start(program: &Program, limits: Limits) -> Result<Self, ProgramError> {
        let of_store = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes)
            .memories(1)
            .tables(4)
            .table_elements(4_096)
            .instances(1)
            .build();
        let host = Host {
            columns: Vec::new(),
            outputs: Outputs::default(),
            begins: false,
            lines: Vec::new(),
            lines_left_out: 0,
            limits: of_store,
        };
        let mut store = Store::new(program.module.engine(), host);
        store.limiter(|host| &mut host.limits);
        let fuel = limits.fuel_to_begin;
        let failed = |error: Error| ProgramError::Fault(fault(&error, fuel));
        store.set_fuel(fuel).map_err(failed)?;
        let instance = program.linker.instantiate_and_start(&mut store, &program.module).map_err(failed)?;
        let lacks = |what| move |_| ProgramError::Lacks { what };
        let version: TypedFunc<(), i32> =
            instance.get_typed_func(&store, "khz_version").map_err(lacks("khz_version"))?;
        let room_of = instance.get_typed_func(&store, "khz_room").map_err(lacks("khz_room"))?;
        let begin = instance.get_typed_func(&store, "khz_begin").map_err(lacks("khz_begin"))?;
        let row = instance.get_typed_func(&store, "khz_row").map_err(lacks("khz_row"))?;
        let memory = instance.get_memory(&store, "memory").ok_or(ProgramError::Lacks { what: "memory" })?;
        match version.call(&mut store, ()).map_err(failed)? {
            VERSION => {}
            version => return Err(ProgramError::Version { version }),
        }
        let (spent, room, is_dead) = (Spent::default(), None, false);
        Ok(Instance { store, memory, room_of, begin, row, room, limits, spent, is_dead })
    }

    /// Its rows have these series from now on. It names its values, and keeps what it has in its memory.
    ///
    /// # Errors
    /// It has no room for them, refuses them, or fails. It is dead then.
    pub fn begin(&mut self, columns: Vec<Column>) -> Result<(), ProgramError> {
        if self.is_dead {
            return Err(Fault::Dead.into());
        }
        self.is_dead = true;
        let series = columns.len();
        let host = self.store.data_mut();
        host.columns = columns;
        host.outputs.clear();
        let fuel = self.limits.fuel_to_begin;
        let failed = |error: Error| ProgramError::Fault(fault(&error, fuel));
        self.store.set_fuel(fuel).map_err(failed)?;
        let at = self.room_of.call(&mut self.store, ()).map_err(failed)?;
        let room = Room::read(self.memory.data(&self.store), at).ok_or(Fault::Room)?;
        if series > room.capacity.min(SERIES_MAX) {
            return Err(ProgramError::TooManySeries { room: room.capacity.min(SERIES_MAX), series });
        }
        self.store.data_mut().begins = true;
        let begun = self.begin.call(&mut self.store, series as i32);
        self.store.data_mut().begins = false;
        match begun.map_err(failed)? {
            0 => {}
            refused => return Err(ProgramError::Refuses(refused)),
        }
        (self.room, self.is_dead) = (Some(room), false);
        Ok(())
    }

    /// Gives it a row, in the order of its series. Returns whether a row comes out; [`Instance::values`] has it.
    ///
    /// # Errors
    /// It fails, and is dead.
    pub fn row(&mut self, input: Input, readings: impl Iterator<Item = Reading>) -> Result<bool, Fault> {
        let Some(room) = self.room.filter(|_| !self.is_dead) else { return Err(Fault::Dead) };
        self.is_dead = true;
        let (memory, host) = self.memory.data_and_store_mut(&mut self.store);
        host.outputs.begin_row();
        let head = Head {
            count: host.columns.len() as u32,
            time: input.stamp.real().0 as i64,
            boot: input.stamp.boot.0,
            lost: input.lost,
        };
        let cells = host.columns.iter().zip(readings).map(|(column, reading)| column.cell(reading));
        room.write(memory, &head, cells).ok_or(Fault::Room)?;
        let fuel = self.limits.fuel_of_a_row;
        self.store.set_fuel(fuel).map_err(|error| fault(&error, fuel))?;
        self.spent.rows_in += 1;
        let answer = self.row.call(&mut self.store, ());
        let used = fuel - self.store.get_fuel().unwrap_or(0).min(fuel);
        self.spent.fuel += used;
        self.spent.fuel_most = self.spent.fuel_most.max(used);
        let comes_out = answer.map_err(|error| fault(&error, fuel))? != 0;
        self.spent.rows_out += u64::from(comes_out);
        self.is_dead = false;
        Ok(comes_out)
    }

    /// The names of its values.
    pub fn names(&self) -> &[String] {
        self.store.data().outputs.names()
    }

    /// The values of the last row. One that is no number is absent.
    pub fn values(&self) -> &[f64] {
        self.store.data().outputs.values()
    }

    /// What it has said since the last call of this.
    pub fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.store.data_mut().lines)
    }

    /// What it has taken.
    pub fn spent(&self) -> Spent {
        let memory_bytes = self.memory.data_size(&self.store) as u64;
        Spent { memory_bytes, lines_left_out: self.store.data().lines_left_out, ..self.spent }
    }
}

/// What has ended a call that had this much fuel.
fn fault(error: &Error, fuel: u64) -> Fault {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return fault.clone();
    }
    match error.as_trap_code() {
        Some(wasmi::TrapCode::OutOfFuel) => Fault::Fuel(fuel),
        Some(code) => Fault::Trap(code.to_string()),
        None => Fault::Trap(error.to_string()),
    }
}
