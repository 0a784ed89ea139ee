//! Commands rrdtool does not have: the page-cache tools, the doctor, import from other machines.

use std::io::Write;
use std::path::Path;

use super::options;
use super::print;
use crate::error::{Error, Result, refused};
use crate::text;
use crate::{doctor, file, import, page_cache};

/// Columns of a page strip; with a short name the line fits a terminal.
const STRIP: usize = 24;

/// `cache show FILE...`, `cache drop FILE...`, `cache --summary DIR`.
pub(super) fn cache(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let parsed = options::parse(arguments, &[("summary", ' ', true)])?;
    if let Some(directory) = parsed.value("summary") {
        let summary = page_cache::summarise(&text::path(directory))?;
        print(out, &summary.text())?;
        return match summary.first_failure {
            Some(_) if summary.count == 0 => refused(format!("no file of '{directory}' could be examined")),
            _ => Ok(()),
        };
    }
    let Some((action, files)) = parsed.rest.split_first().filter(|(_, files)| !files.is_empty()) else {
        return refused("cache show FILE... | cache drop FILE... | cache --summary DIR");
    };
    // Each file is tried, and each failure is printed: the last one by the caller.
    let mut failed: Option<Error> = None;
    for name in files {
        let done = match action.as_str() {
            "show" => show(&text::path(name), out),
            "drop" => page_cache::drop_pages(&text::path(name)),
            _ => return refused(format!("cache {action}: no such action; show, drop or --summary")),
        };
        if let Err(error) = done
            && let Some(before) = failed.replace(error)
        {
            super::say(&format!("ERROR: {before}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn show(path: &Path, out: &mut dyn Write) -> Result<()> {
    let found = page_cache::residency(path)?;
    let dirty = found.dirty.map_or(String::new(), |pages| format!(", {pages} dirty"));
    let (count, pages, strip) = (found.count(), found.pages(), format!("[{}]", found.strip(STRIP)));
    let path = text::name(path);
    print(
        out,
        &format!("{count:>6} of {pages:>6} pages{dirty}  {strip:<width$}  {path}\n", width = STRIP + 2),
    )
}

/// `doctor DIR`.
pub(super) fn examine(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let [directory] = arguments else { return refused("doctor DIR") };
    let facts = doctor::examine(&text::path(directory))?;
    print(out, &doctor::text(&doctor::advise(&facts)))
}

/// `import FOREIGN FILE`: turns a file of another machine into one of this machine.
pub(super) fn foreign(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let [source, target] = arguments else { return refused("import FOREIGN FILE") };
    let path = &text::path(source);
    let bytes = std::fs::read(path).map_err(|error| Error::io("opening", path, error))?;
    let content = import::import(&bytes, path)?;
    let (header, values) = content.build(super::store::random_rows())?;
    file::create(&text::path(target), &header, values.into_iter(), false)?;
    let machine = import::recognise(&bytes, path);
    let described = machine.map_or(String::new(), |machine| {
        let order = if machine.big_endian { "big" } else { "little" };
        format!("{}-bit, {order} endian", 8 * machine.long)
    });
    print(out, &format!("{source}: {described}\n"))
}
