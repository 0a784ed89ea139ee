//! The commands of the protocol: their names, arguments and help, and which of them a socket lets through.

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// Whether a batch may have it.
    batch: bool,
    /// What it does, a line each.
    help: &'static [&'static str],
}

const fn command(
    name: &'static str,
    arguments: &'static str,
    batch: bool,
    help: &'static [&'static str],
) -> Command {
    Command { name, arguments, batch, help }
}

const FETCHED: &str = "<file> <CF> [<start> [<end>] [<column>...]]";

/// All commands, in the order of HELP.
pub const COMMANDS: [Command; 24] = [
    command(
        "UPDATE",
        "<filename> <values> [<values> ...]",
        true,
        &[
            "Takes values for a file. Once acknowledged, they survive this process.",
            "  <values> = <time>:<value>[:<value>[...]]",
        ],
    ),
    command("FLUSH", "<filename>", true, &["Writes what waits for a file. Answers when it is in the file."]),
    command("FLUSHALL", "", false, &["Starts to write everything that waits."]),
    command("PENDING", "<filename>", false, &["Shows what waits for a file."]),
    command("FORGET", "<filename>", true, &["Drops what waits for a file."]),
    command("QUEUE", "", false, &["Shows the files about to be written: number of updates, name."]),
    command("STATS", "", false, &["Shows the counters of this daemon."]),
    command("HELP", "[<command>]", false, &[]),
    command("PING", "", false, &["Answers PONG."]),
    command(
        "BATCH",
        "",
        false,
        &[
            "Takes UPDATE, FLUSH, FORGET, CREATE, SUSPEND, RESUME and their -ALL up to a line with a dot.",
            "Only the errors are answered, at the end, each after the number of its command.",
        ],
    ),
    command("FETCH", FETCHED, false, &["Shows rows of a file, with what waits for it, as text."]),
    command(
        "FETCHBIN",
        FETCHED,
        false,
        &["Shows rows of a file, with what waits for it, column by column in binary."],
    ),
    command(
        "INFO",
        "<filename>",
        false,
        &["Shows the header of a file, with what waits for it: <key> <type> <value>."],
    ),
    command("FIRST", "<filename> <rra index>", false, &["Shows the time of an archive's oldest row."]),
    command("LAST", "<filename>", false, &["Shows the time of the newest value taken for a file."]),
    command(
        "CREATE",
        "<filename> [-b start] [-s step] [-O] <DS definitions> <RRA definitions>",
        true,
        &[
            "Makes a file. Replaces an existing one, unless -O forbids it.",
            "Also takes -r <source file> and -t <template file>. Times are seconds since 1970.",
        ],
    ),
    command(
        "LIST",
        "[RECURSIVE] /[<path>]",
        false,
        &["Lists files and directories below the base directory."],
    ),
    command(
        "TUNE",
        "<filename> <number of arguments> <arguments>",
        false,
        &["Changes a file as `rrdtool tune` does, after writing what waits for it."],
    ),
    command(
        "DUMP",
        "<filename>",
        false,
        &["Sends a file as XML, with what waits for it, and closes the connection."],
    ),
    command("SUSPEND", "<filename>", true, &["Keeps updates of a file in memory until RESUME."]),
    command("RESUME", "<filename>", true, &["Ends SUSPEND."]),
    command("SUSPENDALL", "", true, &["Keeps updates of all known files in memory until RESUMEALL."]),
    command("RESUMEALL", "", true, &["Ends SUSPEND for all files."]),
    command("QUIT", "", true, &["Closes the connection."]),
];

/// The command called `name`, whatever its case.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
}

impl Command {
    /// Name and arguments.
    pub fn usage(&self) -> String {
        format!("{} {}", self.name, self.arguments).trim_end().to_string()
    }

    /// Whether a batch may have it.
    pub fn in_batch(&self) -> bool {
        self.batch
    }
}

/// The answer to HELP.
pub fn help(name: Option<&str>) -> (String, Vec<String>) {
    let Some(command) = name.and_then(find) else {
        return ("Command overview".into(), COMMANDS.iter().map(Command::usage).collect());
    };
    let mut lines = vec![format!("Usage: {}", command.usage()), String::new()];
    lines.extend(command.help.iter().map(|line| (*line).to_string()));
    (format!("Help for {}", command.name), lines)
}

/// The commands a socket lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions(u32);

impl Permissions {
    /// All of them.
    pub const ALL: Self = Self(u32::MAX);

    /// The commands of a list with commas. HELP and QUIT are always among them.
    ///
    /// # Errors
    /// The name that is not a command.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut mask = 0;
        let named = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in named.chain(["HELP", "QUIT"]) {
            let Some(index) = COMMANDS.iter().position(|command| command.name.eq_ignore_ascii_case(name))
            else {
                return Err(name.into());
            };
            mask |= 1 << index;
        }
        Ok(Self(mask))
    }

    /// Whether `command` is among them.
    pub fn allow(self, command: &Command) -> bool {
        let index = COMMANDS.iter().position(|other| other.name == command.name);
        index.is_some_and(|index| self.0 >> index & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lets_through_what_it_names_and_help_and_quit() {
        let some = Permissions::parse("FLUSH,pending").unwrap();
        let allowed: Vec<&str> =
            COMMANDS.iter().filter(|command| some.allow(command)).map(|command| command.name).collect();
        assert_eq!(allowed, ["FLUSH", "PENDING", "HELP", "QUIT"]);
        assert_eq!(Permissions::parse("FLUSH,NOPE"), Err("NOPE".into()));
        // As in rrdcached an empty list is not an error, and lets those two through.
        let none = Permissions::parse("").unwrap();
        assert_eq!(COMMANDS.iter().filter(|command| none.allow(command)).count(), 2);
        assert_eq!(Permissions::parse(",FLUSH,"), Permissions::parse("FLUSH"));
        assert!(COMMANDS.iter().all(|command| Permissions::ALL.allow(command)));
    }
}
