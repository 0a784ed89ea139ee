//! A module that was checked and compiled. It can be begun any number of times.

use std::fmt;

use wasmi::{Config, EnforcedLimits, Engine, ExternType, Linker, Module, ValType};

use crate::error::ProgramError;
use crate::hash::ProgramHash;
use crate::host::{self, Host};
use crate::limits::MODULE_BYTES_MAX;

/// Calls within calls. Each takes room on a stack of the engine, not on that of this process.
const CALLS_MAX: usize = 256;
/// Bytes of that stack.
const STACK_BYTES_MAX: usize = 256 << 10;

/// What a program exports besides its memory: functions with these parameters and results.
const EXPORTS: [(&str, &str, &[ValType]); 4] = [
    ("khz_version", "the function khz_version: () -> i32", &[]),
    ("khz_room", "the function khz_room: () -> i32", &[]),
    ("khz_begin", "the function khz_begin: (i32) -> i32", &[ValType::I32]),
    ("khz_row", "the function khz_row: () -> i32", &[]),
];

/// A program.
#[derive(Clone)]
pub struct Program {
    hash: ProgramHash,
    bytes: usize,
    pub(crate) module: Module,
    pub(crate) linker: Linker<Host>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("hash", &self.hash)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Checks and compiles a module.
    ///
    /// # Errors
    /// It is no module, or is too large, or does not export or import what a program does. Nothing of it is executed.
    pub fn new(module: &[u8]) -> Result<Self, ProgramError> {
        let bytes = module.len();
        if bytes > MODULE_BYTES_MAX {
            return Err(ProgramError::TooLarge { bytes });
        }
        let engine = Engine::new(&config());
        let compiled =
            Module::new(&engine, module).map_err(|error| ProgramError::Invalid(error.to_string()))?;
        check_exports(&compiled)?;
        let linker = host::linker(&engine).map_err(|error| ProgramError::Invalid(error.to_string()))?;
        check_imports(&compiled)?;
        Ok(Program { hash: ProgramHash::of(module), bytes, module: compiled, linker })
    }

    /// The name of the module.
    pub fn hash(&self) -> ProgramHash {
        self.hash
    }

    /// Bytes of the module.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.consume_fuel(true).enforced_limits(EnforcedLimits::strict()).allow_start_fn(false);
    config.set_max_recursion_depth(CALLS_MAX).set_max_stack_height(STACK_BYTES_MAX);
    // What the example compilers make, and no more.
    config.wasm_multi_memory(false).wasm_custom_page_sizes(false);
    config
}

fn check_exports(module: &Module) -> Result<(), ProgramError> {
    if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
        return Err(ProgramError::Lacks { what: "its memory as \"memory\"" });
    }
    for (name, what, params) in EXPORTS {
        match module.get_export(name) {
            Some(ExternType::Func(of)) if of.params() == params && of.results() == [ValType::I32] => {}
            _ => return Err(ProgramError::Lacks { what }),
        }
    }
    Ok(())
}

fn check_imports(module: &Module) -> Result<(), ProgramError> {
    match module
        .imports()
        .find(|import| import.module() != host::MODULE || !host::NAMES.contains(&import.name()))
    {
        Some(import) => {
            let cut = |text: &str| text.chars().take(64).collect();
            Err(ProgramError::Imports { module: cut(import.module()), name: cut(import.name()) })
        }
        None => Ok(()),
    }
}
