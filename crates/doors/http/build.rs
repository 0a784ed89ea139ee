//! Lists the page's files, `web/*.{html,js,css,svg}` and those of libraries in a folder `vendor`, if there is one: the door serves a new file without
//! another change.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let web = Path::new(&root).join("../../../web").canonicalize()?;
    println!("cargo::rerun-if-changed={}", web.display());
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    let mut table = String::from("pub(crate) static ASSETS: &[Asset] = &[\n");
    for folder in ["", "vendor/"] {
        list(&web.join(folder), folder, &out, &mut table)?;
    }
    table.push_str("];\n");
    fs::write(out.join("assets.rs"), table)
}

/// Writes a line of the table for every file in `folder` that a page needs, in name order.
fn list(folder: &Path, prefix: &str, out: &Path, table: &mut String) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let mut names = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let Some(kind) = content_type(&name) else { continue };
        let file = folder.join(&name);
        println!("cargo::rerun-if-changed={}", file.display());
        let bytes = fs::read(&file)?;
        let tag = fnv1a(&bytes);
        let packed = out.join(format!("{}.gz", name));
        fs::write(&packed, pack(&shorter(&name, &bytes))?)?;
        let path = if name == "index.html" && prefix.is_empty() {
            "/".to_owned()
        } else {
            format!("/{prefix}{name}")
        };
        writeln!(
            table,
            "    Asset {{ path: {path:?}, content_type: {kind:?}, etag: \"\\\"{tag:016x}\\\"\", bytes: include_bytes!({file:?}), packed_etag: \"\\\"{tag:016x}-gzip\\\"\", packed: include_bytes!({packed:?}) }},"
        )
        .map_err(io::Error::other)?;
    }
    Ok(())
}

fn content_type(name: &str) -> Option<&'static str> {
    match Path::new(name).extension()?.to_str()? {
        "html" => Some("text/html; charset=utf-8"),
        "js" | "mjs" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

/// What goes over slow lines: scripts and style sheets without their comments, which are a quarter of their packed bytes.
/// Lines stay where they are, so that an error names the line of the source. Who asks for a file without gzip gets the source.
fn shorter(name: &str, bytes: &[u8]) -> Vec<u8> {
    let is_script = name.ends_with("js");
    match std::str::from_utf8(bytes) {
        Ok(text) if is_script || name.ends_with(".css") => without_comments(text, is_script).into_bytes(),
        _ => bytes.to_vec(),
    }
}

/// Empties each line that is only a comment.
fn without_comments(text: &str, is_script: bool) -> String {
    let mut shorter = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        let is_begun = is_inside || trimmed.starts_with("/*");
        let is_ended = trimmed.contains("*/");
        let is_comment = is_begun && (!is_ended || trimmed.ends_with("*/"));
        is_inside = is_begun && !is_ended;
        let is_remark = is_script && trimmed.starts_with("//");
        if !(is_comment || is_remark) {
            shorter.push_str(line);
        }
        shorter.push('\n');
    }
    shorter
}

/// At gzip's smallest size: a file is packed once, and sent often over slow lines.
fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes)?;
    packer.finish()
}

/// FNV-1a: an entity tag only has to change when the file changes.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
