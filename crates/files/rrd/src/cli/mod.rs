//! rrdtool's commands: arguments in, its output and error texts out; every command calls the pure parts.

mod extra;
mod inspect;
pub mod options;
mod pipe;
mod store;
mod through;

use std::io::Write;

use crate::client::Client;
use crate::error::{Error, Result, refused};
use crate::file::Rrd;
use crate::text;
use crate::{spec, tune as change};

/// The version whose behaviour this is.
const VERSION: &str = "1.7.2";

/// A command of another crate. It is offered beside rrdtool's commands, or replaces the one with its name. It parses its arguments
/// itself, and prints its own help.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its arguments, for the list of commands; a line break where they would pass the width of a terminal.
    pub arguments: &'static str,
    /// Runs it with the words after its name.
    pub run: fn(&[String]) -> Result<()>,
}

/// Runs one command line (`arguments[0]` is the command) as `rrdtool` would: output on standard output,
/// errors as `ERROR: ...` on standard error. `more` are commands beside rrdtool's. Returns the exit code.
pub fn run(arguments: &[String], more: &[Command]) -> i32 {
    let mut out = std::io::stdout().lock();
    if arguments.first().map(String::as_str) == Some("-") {
        return pipe::run(arguments.get(1), more, &mut std::io::stdin().lock(), &mut out);
    }
    let outcome = command(arguments, more, &mut out)
        .and_then(|()| out.flush().map_err(|error| Error::io("writing", "standard output", error)));
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("ERROR: {error}"));
            1
        }
    }
}

/// Runs one command, writing its output to `out`.
///
/// # Errors
/// The command's failure; its text is what rrdtool prints after `ERROR: `.
pub fn command(arguments: &[String], more: &[Command], out: &mut dyn Write) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else { return usage(None, more, out) };
    if let Some(command) = more.iter().find(|command| command.name == name) {
        return (command.run)(rest);
    }
    let wants_help = rest.is_empty() || rest[0] == "--help";
    if wants_help && has_help(name) {
        return usage(Some(name), more, out);
    }
    match name.as_str() {
        "help" => usage(rest.first().map(String::as_str), more, out),
        "create" => store::create(rest, store::Place::WhereNamed),
        "update" => store::update(rest),
        "updatev" => store::update_verbose(rest, out),
        "tune" => store::tune(rest),
        "resize" => store::resize(rest),
        "restore" => store::restore(rest),
        "info" => inspect::info(rest, out),
        "fetch" => inspect::fetch(rest, out),
        "dump" => inspect::dump(rest, out),
        "last" => inspect::last(rest, out),
        "lastupdate" => inspect::last_update(rest, out),
        "first" => inspect::first(rest, out),
        "xport" => inspect::xport(rest, out),
        "list" => inspect::list(rest, out),
        "flushcached" => inspect::flush(rest),
        "cache" => extra::cache(rest, out),
        "doctor" => extra::examine(rest, out),
        "import" => extra::foreign(rest, out),
        "graph" | "graphv" => refused(format!("{name} is in another crate; `khz rrd {name}` has it")),
        _ => refused(format!("unknown function '{name}'")),
    }
}

/// Whether `name` alone asks for help. For an unknown word rrdtool lists its commands; under any other name this program
/// reports an error.
fn has_help(name: &str) -> bool {
    let is_drawing = name == "graph" || name == "graphv";
    let is_help = name == "help" || name.starts_with('-');
    is_help || COMMANDS.iter().any(|(known, _)| *known == name) || (started_as("rrdtool") && !is_drawing)
}

/// Each command with its arguments; a line break where they would pass the width of a terminal.
const COMMANDS: [(&str, &str); 18] = [
    ("create", "FILE [-b START] [-s STEP] [-t TEMPLATE] [-r SOURCE] [-O]\nDS:... RRA:..."),
    ("update", "FILE [-t NAME:NAME...] [-s] [--] TIME|N:VALUE[:VALUE...]\n[TIME@VALUE...]"),
    ("updatev", "FILE [-t NAME:NAME...] [-s] [--] TIME|N:VALUE[:VALUE...]"),
    ("fetch", "FILE CF [-r RESOLUTION] [-s START] [-e END] [-a]"),
    ("info", "FILE"),
    ("dump", "FILE [OUTPUT] [-n | -h none|xsd|dtd]"),
    ("restore", "XML FILE [-r] [-f]"),
    ("last", "FILE"),
    ("lastupdate", "FILE"),
    ("first", "FILE [--rraindex N]"),
    ("tune", "FILE [-h NAME:HEARTBEAT] [-i NAME:MIN] [-a NAME:MAX] [-d NAME:TYPE]\n[-r OLD:NEW] ..."),
    ("resize", "FILE RRA GROW|SHRINK ROWS"),
    (
        "xport",
        "[-s START] [-e END] [-m ROWS] [--step S] [-t] [--enumds]\n[--json] [-d ADDRESS] DEF:... CDEF:... XPORT:...",
    ),
    ("list", "[-r] [--daemon ADDRESS] DIR"),
    ("flushcached", "--daemon ADDRESS FILE..."),
    ("cache", "show FILE... | drop FILE... | --summary DIR"),
    ("doctor", "DIR"),
    ("import", "FOREIGN FILE"),
];

/// Blanks before a command, and before what did not fit its line.
const INDENT: usize = 4;

fn usage(command: Option<&str>, more: &[Command], out: &mut dyn Write) -> Result<()> {
    let mut text = match started_as("rrdtool") {
        // Scripts search this text for the word `Usage`.
        true => {
            format!("RRDtool {VERSION} (Kilohertz)\n\nUsage: rrdtool [options] command command_options\n\n")
        }
        false => format!("khz rrd COMMAND ...: .rrd files, as RRDtool {VERSION} has them\n\n"),
    };
    let is_replaced = |name: &str| more.iter().any(|command| command.name == name);
    let own = COMMANDS.into_iter().filter(|(name, _)| !is_replaced(name));
    let all: Vec<_> = own.chain(more.iter().map(|command| (command.name, command.arguments))).collect();
    let mut lines: Vec<_> = all.iter().filter(|(name, _)| command == Some(*name)).collect();
    if lines.is_empty() {
        lines = all.iter().collect();
    }
    for (name, arguments) in lines {
        let next = format!("\n{:1$}", "", INDENT + name.len() + 1);
        text.push_str(&format!("{:INDENT$}{name} {}\n", "", arguments.replace('\n', &next)));
    }
    print(out, &text)
}

/// Whether the program was started under `name`.
fn started_as(name: &str) -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&program).file_name().is_some_and(|file| file == name)
}

/// `create` on this machine, whatever daemon the environment names; for the daemon itself.
///
/// # Errors
/// As the command's.
pub fn create_here(arguments: &[String]) -> Result<()> {
    store::create(arguments, store::Place::Here)
}

/// `tune` of a file called `name` that is open and locked; `arguments` are those after the name. For the daemon itself.
///
/// # Errors
/// As the command's.
pub fn tune_open(rrd: &Rrd, name: &str, arguments: &[String]) -> Result<()> {
    let parsed = options::parse(arguments, change::OPTIONS)?;
    change::tune(rrd, &parsed.options, &parsed.rest, spec::season_hash(name), store::random_rows())
}

/// The daemon that a command goes through: its option, else the environment's `RRDCACHED_ADDRESS`.
pub fn daemon(parsed: &options::Parsed) -> Option<String> {
    let named = parsed.value("daemon").map(str::to_string);
    named
        .or_else(|| std::env::var_os("RRDCACHED_ADDRESS").map(text::name))
        .filter(|address| !address.is_empty())
}

/// Has the daemon, if the command goes through one, write what waits for `file`.
///
/// # Errors
/// As those of [`flush_through`].
pub fn flush(parsed: &options::Parsed, file: &str) -> Result<()> {
    daemon(parsed).map_or(Ok(()), |address| flush_through(&address, file))
}

/// Has the daemon at `address` write what waits for `file`.
///
/// # Errors
/// The daemon does not answer, or cannot write the file.
pub fn flush_through(address: &str, file: &str) -> Result<()> {
    flush_with(Client::connect(address)?, file)
}

/// Has the daemon of a connection write what waits for `file`.
///
/// # Errors
/// The daemon cannot write the file, or refuses to.
pub fn flush_with(mut client: Client, file: &str) -> Result<()> {
    let name = client.name(file);
    client.order(&["FLUSH", &name]).map(|_| ())
}

/// Writes a line to standard error. A failure cannot be reported anywhere.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(&text::bytes(&format!("{line}\n")));
}

/// Writes `text` to the command's output.
fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(&text::bytes(text)).map_err(|error| Error::io("writing", "standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_commands_fits_a_terminal() {
        let mut text = vec![];
        usage(None, &[], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().find(|line| line.len() > 80), None);
        assert!(COMMANDS.iter().all(|(name, _)| text.contains(&format!("\n    {name} "))));
    }

    #[test]
    fn a_command_of_another_crate_takes_the_place_of_the_one_with_its_name() {
        let other = Command { name: "doctor", arguments: "OTHER", run: |_| refused("the other one") };
        let mut text = vec![];
        usage(None, &[other], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("    doctor ").count(), 1, "{text}");
        assert!(text.contains("    doctor OTHER\n"), "{text}");
        let failed = command(&["doctor".into(), ".".into()], &[other], &mut vec![]).unwrap_err();
        assert_eq!(failed.to_string(), "the other one");
    }
}
