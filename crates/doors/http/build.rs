//! Makes the files of the page that the door serves, out of `web/*.{html,js,css,svg}`: modules that are needed together are joined into
//! one file, and what goes over slow lines is shortened and packed. A new file needs no change here.
//! With `KHZ_PAGE=plain` in the environment nothing is joined: the browser gets each module as it is, to be looked at in its tools.

#[path = "build/join.rs"]
mod join;
#[path = "build/parts.rs"]
mod parts;
#[path = "build/shorter.rs"]
mod shorter;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use join::Files;
use parts::PARTS;
use shorter::{Kind, shorter};

/// Pages without a server take these and what they import, as they are (`khz plot --html`).
const WITHOUT_SERVER: [&str; 2] = ["plot-page", "theme"];

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let web = Path::new(&root).join("../../../web").canonicalize()?;
    println!("cargo::rerun-if-changed={}", web.display());
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=KHZ_PAGE");
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    let is_plain = env::var("KHZ_PAGE").is_ok_and(|how| how == "plain");
    let parts = if is_plain { &[] } else { PARTS };

    let files = read(&web)?;
    let modules: Files = files
        .iter()
        .filter_map(|(name, text)| Some((name.strip_suffix(".js")?.to_owned(), text.clone())))
        .collect();
    let mut served: BTreeMap<String, String> =
        files.into_iter().filter(|(name, _)| !name.ends_with(".js")).collect();
    for (name, text) in join::join(&modules, parts).map_err(io::Error::other)? {
        served.insert(format!("{name}.js"), text);
    }
    if let Some(page) = served.get_mut("index.html") {
        *page = with_parts(page, &modules, parts).map_err(io::Error::other)?;
    }
    fs::write(out.join("assets.rs"), assets(&served, &out)? + &sources(&modules, &web)?)
}

/// The files of the page, with their texts.
fn read(web: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(web)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if content_type(&name).is_some() {
            let file = web.join(&name);
            println!("cargo::rerun-if-changed={}", file.display());
            files.insert(name, fs::read_to_string(&file)?);
        }
    }
    Ok(files)
}

/// The page, naming in place of each module the files that bring it.
fn with_parts(page: &str, modules: &Files, parts: &[(&str, &[&str])]) -> Result<String, String> {
    let mut text = String::new();
    for (at, piece) in page.split('"').enumerate() {
        if at > 0 {
            text.push('"');
        }
        // Every second piece stands in quotes.
        match piece.strip_suffix(".js").filter(|_| at % 2 == 1) {
            Some(name) => {
                let files = join::files_for(modules, parts, name)?;
                text.push_str(&files.iter().map(|file| format!("{file}.js")).collect::<Vec<_>>().join(" "));
            }
            None => text.push_str(piece),
        }
    }
    Ok(text)
}

/// The table of what is served, in name order.
fn assets(served: &BTreeMap<String, String>, out: &Path) -> io::Result<String> {
    let mut table = String::from("pub(crate) static ASSETS: &[Asset] = &[\n");
    for (name, text) in served {
        let Some(kind) = content_type(name) else { continue };
        let (plain, packed) = (out.join(name), out.join(format!("{name}.gz")));
        let short = match name.rsplit('.').next() {
            Some("js") => shorter(text, Kind::Script),
            Some("css") => shorter(text, Kind::Style),
            Some("html") => shorter(text, Kind::Page),
            _ => Ok(text.clone()),
        };
        fs::write(&plain, text)?;
        fs::write(
            &packed,
            pack(short.map_err(|error| io::Error::other(format!("{name}: {error}")))?.as_bytes())?,
        )?;
        let tag = fnv1a(text.as_bytes());
        let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
        writeln!(
            table,
            "    Asset {{ path: {path:?}, content_type: {kind:?}, etag: \"\\\"{tag:016x}\\\"\", bytes: include_bytes!({plain:?}), packed_etag: \"\\\"{tag:016x}-gzip\\\"\", packed: include_bytes!({packed:?}) }},"
        )
        .map_err(io::Error::other)?;
    }
    Ok(table + "];\n")
}

/// The table of the modules and style sheets that pages without a server take.
fn sources(modules: &Files, web: &Path) -> io::Result<String> {
    let mut table = String::from("static SOURCES: &[(&str, &str)] = &[\n");
    let mut names = vec!["style.css".to_owned()];
    for entry in WITHOUT_SERVER {
        names.extend(
            join::with_imports(modules, entry)
                .map_err(io::Error::other)?
                .iter()
                .map(|name| format!("{name}.js")),
        );
    }
    for name in names {
        writeln!(table, "    ({name:?}, include_str!({:?})),", web.join(&name)).map_err(io::Error::other)?;
    }
    Ok(table + "];\n")
}

fn content_type(name: &str) -> Option<&'static str> {
    match Path::new(name).extension()?.to_str()? {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
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
