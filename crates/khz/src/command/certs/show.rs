//! `khz certs show`: the owner of each certificate, and how long it is valid.

use std::io::Write;
use std::path::{Path, PathBuf};

use khz_trust::{Certificate, Moment, read_public};
use serde_json::{Value, json};

use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::{Side, Table, json_line};

/// A file, and its certificate or why it cannot be read.
struct Entry {
    path: PathBuf,
    found: Result<Certificate, String>,
}

/// Prints these certificates; without any, all in the folder.
pub fn print(
    files: &[PathBuf],
    folder: &Path,
    as_json: bool,
    width: Option<usize>,
    out: &mut impl Write,
) -> Outcome {
    let files = if files.is_empty() { all(folder)? } else { files.to_vec() };
    let entries: Vec<Entry> = files.into_iter().map(read).collect();
    let now = Moment::now();
    if as_json {
        for entry in &entries {
            writeln!(out, "{}", json_line(&object(entry, now)))?;
        }
    } else {
        out.write_all(table(&entries, now).render(width).as_bytes())?;
    }
    out.flush()?;
    match entries.iter().any(|entry| entry.found.is_ok()) {
        true => Ok(Done::Wholly),
        false => Err(Failure::work(
            "none of these is a certificate: name .pem files, as `khz certs` makes them, or their folder with --dir",
        )),
    }
}

/// Every `.pem` in the folder, in name order.
fn all(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::work(format!("cannot read {}: {error}; `khz certs init` begins", folder.display()))
    };
    let entries: Vec<_> =
        std::fs::read_dir(folder).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pem"));
    paths.sort();
    match paths.is_empty() {
        true => Err(Failure::work(format!("there is no certificate in {}", folder.display()))),
        false => Ok(paths),
    }
}

fn read(path: PathBuf) -> Entry {
    let pem = read_public(&path).map_err(|error| sentence(&error));
    let found = pem.and_then(|pem| Certificate::read_pem(&pem).map_err(|error| error.to_string()));
    Entry { path, found }
}

fn table(entries: &[Entry], now: Moment) -> Table {
    let titles = [
        ("FILE", Side::Left),
        ("WHO", Side::Left),
        ("UNTIL", Side::Left),
        ("DAYS", Side::Right),
        ("HOSTS", Side::Left),
    ];
    let mut table = Table::new(&titles, titles.len() - 1);
    for entry in entries {
        let file =
            entry.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match &entry.found {
            Ok(found) => table.row([
                file,
                who(found),
                found.until.to_string(),
                days_left(found, now),
                found.hosts.join(", "),
            ]),
            Err(problem) => table.remark(file, problem),
        }
    }
    table
}

/// `hub hub1`, or the name of a CA.
fn who(found: &Certificate) -> String {
    match found.identity() {
        Ok(identity) => identity.to_string(),
        Err(_) => found.common_names.join(", "),
    }
}

fn days_left(found: &Certificate, now: Moment) -> String {
    if now > found.until { "EXPIRED".to_owned() } else { found.until.days_since(now).to_string() }
}

fn object(entry: &Entry, now: Moment) -> Value {
    let path = entry.path.display().to_string();
    match &entry.found {
        Err(problem) => json!({ "file": path, "error": problem }),
        Ok(found) => {
            let identity = found.identity().ok();
            json!({
                "file": path,
                "role": identity.as_ref().map(|identity| identity.role.word()),
                "name": identity.as_ref().map(|identity| identity.name.as_str()),
                "common_names": found.common_names,
                "hosts": found.hosts,
                "from": found.from.to_string(),
                "until": found.until.to_string(),
                "expired": now > found.until,
                "days_left": found.until.days_since(now),
            })
        }
    }
}
