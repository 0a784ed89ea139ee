//! Commands that a daemon executes: update, create, tune, flushcached. They write only to the daemon's socket.

use std::borrow::Cow;
use std::path::Path;

use super::options::Parsed;
use crate::client::Client;
use crate::error::{Error, Result, os_text, refused};
use crate::file::{self, Access, Rrd};
use crate::text;

/// Sends an update to the daemon, which takes absolute times and whole rows only.
pub(super) fn update(parsed: &Parsed, address: &str) -> Result<()> {
    let (name, samples) = super::store::file_and_samples(parsed)?;
    let template = parsed.value("template");
    if template.is_some() && parsed.has("skip-past-updates") {
        return refused(
            "The caching daemon cannot be used together with templates and skip-past-updates yet.",
        );
    }
    let now = file::clock();
    let mut client = Client::connect(address)?;
    let rows = template.map(|template| Rows::of(&mut client, name, template)).transpose()?;
    let mut words = vec!["UPDATE".to_string(), client.name(name)];
    for sample in samples {
        let whole = rows.as_ref().map_or(Ok(Cow::Borrowed(sample.as_str())), |rows| rows.whole(sample))?;
        words.push(match whole.strip_prefix("N:") {
            Some(values) => format!("{}.{:06}:{values}", now.seconds, now.usec),
            None => whole.into_owned(),
        });
    }
    client.order(&words.iter().map(String::as_str).collect::<Vec<_>>()).map(|_| ())
}

/// How the readings that a template names become a whole sample.
struct Rows {
    /// The file's sources that take readings, and all of them for messages.
    sources: Vec<String>,
    all: Vec<String>,
    template: String,
    /// For each source the place of its reading.
    places: Vec<Option<usize>>,
}

impl Rows {
    /// Asks the daemon for the sources of the file called `name`.
    fn of(client: &mut Client, name: &str, template: &str) -> Result<Self> {
        let sources: Vec<(String, bool)> = match client.is_local() {
            true => {
                let header = Rrd::open(&text::path(name), Access::Read)?.header;
                let of = |source: &crate::ds::DataSource| (source.name.clone(), source.program.is_none());
                header.sources().iter().map(of).collect()
            }
            false => client.sources(name)?,
        };
        let all: Vec<String> = sources.iter().map(|(name, _)| name.clone()).collect();
        let sources: Vec<String> =
            sources.into_iter().filter(|(_, takes)| *takes).map(|(name, _)| name).collect();
        let names: Vec<&str> = if template.is_empty() { vec![] } else { template.split(':').collect() };
        let places = sources.iter().map(|source| names.iter().position(|name| name == source)).collect();
        let rows = Self { sources, all, template: template.into(), places };
        let count = rows.all.len();
        if names.len() > count {
            return refused(format!(
                "rrd_map_template_to_values: number of fields in template ({}) bigger than number of fields in \
                 rrdfile ({count})",
                names.len()
            ));
        }
        Ok(rows)
    }

    /// Names in the template.
    fn count(&self) -> usize {
        if self.template.is_empty() { 0 } else { self.template.split(':').count() }
    }

    /// `sample` with a reading for each source, `U` where the template names none.
    fn whole(&self, sample: &str) -> Result<Cow<'static, str>> {
        let (time, values) = sample.split_once(':').map_or((sample, None), |(time, rest)| (time, Some(rest)));
        let values: Vec<&str> = values.map_or(vec![], |values| values.split(':').collect());
        let wanted = self.count();
        if values.len() != wanted {
            return refused(format!(
                "rrd_map_template_to_values: mismatch of number of fields in template ({wanted}) with number of \
                 fields in values ({})",
                values.len()
            ));
        }
        if self.places.iter().flatten().count() != wanted {
            let (template, names) = (&self.template, self.all.join(":"));
            return refused(format!(
                "rrd_map_template_to_values: there are fields in template ({template}) that are not in the rrdfile \
                 ({names})"
            ));
        }
        let reading = |place: &Option<usize>| format!(":{}", place.map_or("U", |place| values[place]));
        debug_assert_eq!(self.places.len(), self.sources.len());
        Ok(Cow::Owned(time.to_string() + &self.places.iter().map(reading).collect::<String>()))
    }
}

/// Has the daemon create the file.
pub(super) fn create(parsed: &Parsed, address: &str, start: i64) -> Result<()> {
    let mut client = Client::connect(address)?;
    let file = &parsed.rest[0];
    if client.is_local()
        && let Some(parent) = text::path(file).parent().filter(|parent| !parent.as_os_str().is_empty())
        && let Err(error) = Path::new(parent).canonicalize()
    {
        return refused(format!("realpath({file}): {}", os_text(&error)));
    }
    let (start, name) = (start.to_string(), client.name(file));
    let mut words = vec!["CREATE", &name];
    let step = parsed.value("step").map(super::store::step).transpose()?;
    let step = step.map(|step| step.to_string());
    if let Some(step) = &step {
        words.extend(["-s", step]);
    }
    // Without it the daemon takes the start of the template or of the source.
    if parsed.has("start") || !(parsed.has("template") || parsed.has("source")) {
        words.extend(["-b", &start]);
    }
    if parsed.has("no-overwrite") {
        words.push("-O");
    }
    let absolute: Vec<(&str, String)> = parsed
        .options
        .iter()
        .filter_map(|(option, value)| match *option {
            "template" => Some(("-t", client.name(value))),
            "source" => Some(("-r", client.name(value))),
            _ => None,
        })
        .collect();
    absolute.iter().for_each(|(option, name)| words.extend([*option, name.as_str()]));
    words.extend(parsed.rest[1..].iter().map(String::as_str));
    client.order(&words).map(|_| ())
}

/// Has the daemon tune the file, after all that waits is in it and while nobody writes to it.
pub(super) fn tune(parsed: &Parsed, address: &str) -> Result<()> {
    let Ok(mut client) = Client::connect(address) else { return refused("Cannot connect to daemon") };
    let file = &parsed.rest[0];
    let name = client.name(file);
    let mut arguments: Vec<String> = parsed
        .options
        .iter()
        .filter(|(option, _)| *option != "daemon")
        .map(|(option, value)| format!("--{option}={value}"))
        .collect();
    arguments.extend(parsed.rest[1..].iter().cloned());
    let count = arguments.len().to_string();
    let mut words = vec!["TUNE", name.as_str(), &count];
    words.extend(arguments.iter().map(String::as_str));
    let answer = client.ask(&words)?;
    if answer.code >= 0 {
        return Ok(());
    }
    if answer.text.starts_with("Unknown command") {
        return tune_beside(parsed, &mut client, &name);
    }
    // Errors name the file as the user did; the daemon knows it by its absolute name.
    let text = answer.text.strip_prefix("RRD Error: ").unwrap_or(&answer.text);
    refused(text.replace(&name, file))
}

/// Tunes a file of a daemon without TUNE, such as rrdcached 1.7.2. Waiting updates are flushed first, and the file is suspended
/// meanwhile, because that daemon would lose updates if it found the file locked. The daemon answers SUSPEND while one of its
/// threads may still write later updates, so this waits for the lock.
fn tune_beside(parsed: &Parsed, client: &mut Client, name: &str) -> Result<()> {
    client.ask(&["FLUSH", name])?;
    let held = client.ask(&["SUSPEND", name])?;
    let is_new = held.code >= 0 && !held.text.contains("already");
    let tuned = super::store::tune_here(parsed, Access::WriteWhenFree);
    if is_new {
        client.order(&["RESUME", name])?;
    }
    tuned
}

/// Has the daemon write what waits for each file.
pub(super) fn flush(files: &[String], address: &str) -> Result<()> {
    let mut client = Client::connect(address)?;
    for (index, file) in files.iter().enumerate() {
        let name = client.name(file);
        let answer = client.ask(&["FLUSH", &name])?;
        if answer.code < 0 {
            let left = files.len() - index - 1;
            let (text, plural) = (answer.text, if left == 1 { "" } else { "s" });
            return Err(Error::Refused(format!(
                "Flushing of file \"{file}\" failed: {text}. Skipping remaining {left} file{plural}."
            )));
        }
    }
    Ok(())
}
