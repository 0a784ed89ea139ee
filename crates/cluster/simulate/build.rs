//! Packs the recorded workloads, `fixtures/workloads/NAME-100hz.khzt`, into the program, so that it can play
//! them wherever it is copied to.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

/// What follows the workload's name in the file name of a recording.
const SUFFIX: &str = "-100hz.khzt";

/// The smallest size that zstd reaches in about a second of build time.
const LEVEL: i32 = 19;

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let folder = Path::new(&root).join("../../../fixtures/workloads").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let out = Path::new(&out);
    let files = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = files.collect::<io::Result<_>>()?;
    names.retain(|name| name.ends_with(SUFFIX));
    names.sort();
    let mut table = String::from("pub(crate) static PACKED: &[Packed] = &[\n");
    for file in names {
        let whole = fs::read(folder.join(&file))?;
        let packed = out.join(format!("{file}.zst"));
        fs::write(&packed, zstd::bulk::compress(&whole, LEVEL)?)?;
        let (name, length) = (file.trim_end_matches(SUFFIX), whole.len());
        writeln!(
            table,
            "    Packed {{ name: {name:?}, length: {length}, bytes: include_bytes!({packed:?}) }},"
        )
        .map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    fs::write(out.join("packed.rs"), table)
}
