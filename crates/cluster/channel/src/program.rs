//! The program of a channel, as a definition has it: a WebAssembly module, packed, in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use khz_plan::PackedProgram;
use khz_program::{Program, ProgramHash, pack, unpack};

/// The text of a module for the field `program`.
///
/// # Errors
/// It is no program, or is too large for nodes.
pub fn program_text(module: &[u8]) -> Result<String, String> {
    Program::new(module).map_err(|error| error.to_string())?;
    pack(module).map(|packed| STANDARD.encode(packed)).map_err(|error| error.to_string())
}

/// The module of such a text.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn program_module(text: &str) -> Result<Vec<u8>, String> {
    let packed = STANDARD.decode(text).map_err(|error| {
        format!("it is no module in base64 ({error}); `khz handler push FILE.wasm --to NAME` writes it")
    })?;
    unpack(&packed).map_err(|error| error.to_string())
}

/// Checks the text, and returns what nodes get.
pub(crate) fn read(text: &str) -> Result<PackedProgram, String> {
    let module = program_module(text)?;
    Program::new(&module).map_err(|error| error.to_string())?;
    // Packed again, so that equal modules are equal on their way, however somebody packed them.
    let packed = pack(&module).map_err(|error| error.to_string())?;
    Ok(PackedProgram { hash: *ProgramHash::of(&module).bytes(), packed: packed.into() })
}
