//! Words that users of other tools type, and the command that does it here; and commands that are spelt alike. clap cannot know that
//! `htop` is `khz top`, and it takes `tpo` for `plot`.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use khz_model::suggest;

use crate::cli::Cli;

/// The words, the command, and what it shows.
const WORDS: &[(&[&str], &str, &str)] = &[
    (
        &["ps", "htop", "atop", "btop", "glances", "nmon", "processes"],
        "khz top",
        "shows what takes CPU, memory and disks",
    ),
    (
        &["ls", "list", "status", "hosts", "node", "sinfo", "ping", "cluster"],
        "khz nodes",
        "lists the nodes and their states",
    ),
    (&["metrics", "metric", "series", "names", "describe", "search"], "khz catalog", "lists the metrics"),
    (&["show", "read", "cat", "print", "snapshot", "now"], "khz get 'mem.*'", "prints the latest readings"),
    (
        &["follow", "tail", "stream", "monitor", "live", "sar", "dstat"],
        "khz watch 'cpu.all.*'",
        "follows readings as they come",
    ),
    (&["stat", "mpstat", "cpu"], "khz watch 'cpu.all.*'", "shows what the CPUs do"),
    (&["vmstat"], "khz watch 'vm.*'", "follows paging and swapping"),
    (&["iostat", "iotop", "disk", "disks", "io"], "khz watch 'disk.*[*]'", "follows the disks"),
    (
        &["ifstat", "iftop", "nload", "bmon", "net", "network"],
        "khz watch 'net.*_bytes[*]'",
        "follows the interfaces",
    ),
    (&["netstat", "ss", "sockets"], "khz get 'tcp.*'", "prints the numbers of TCP"),
    (&["free", "mem", "memory"], "khz get 'mem.*'", "prints the memory"),
    (&["uptime", "load", "w"], "khz get 'load.*'", "prints the load"),
    (&["df", "filesystems"], "khz get 'fs.*[*]'", "prints the file systems"),
    (&["sensors", "temperature"], "khz get 'hwmon.*[*]'", "prints temperatures, fans and voltages"),
    (
        &["past", "history", "promql", "instant"],
        "khz query",
        "asks the store in PromQL; `khz get --at` and `khz watch --from` show the past, too",
    ),
    (&["graph", "chart", "draw"], "khz plot", "draws recordings and .rrd files"),
    (&["dump", "csv"], "khz export", "prints the rows of a recording"),
    (&["replay"], "khz watch --from -1h 'load.*'", "shows the past again"),
    (&["capture", "rec", "trace", "perf"], "khz record", "records rows into a file"),
    (
        &["server", "serve", "master", "collector", "head"],
        "khz hub",
        "collects from agents, and answers for all nodes",
    ),
    (&["client", "exporter", "node_exporter"], "khz agent", "gathers on this node and reports to a hub"),
    (
        &["run", "start", "ui", "web", "dashboard", "page"],
        "khz",
        "alone watches this machine, and has a page",
    ),
    (&["fuse", "mnt"], "khz mount", "shows the cluster as files"),
    (&["settings", "conf", "env"], "khz config", "prints the configuration, and where each value is from"),
    (&["alarms", "firing", "incidents"], "khz alerts", "lists what fires"),
    (
        &["doctor", "test", "probe", "diagnose", "verify"],
        "khz check",
        "shows which sources work, and what they cost",
    ),
    (&["example", "try", "tour", "tutorial"], "khz demo", "shows a made-up cluster with faults"),
    (&["version"], "khz --version", "prints the version"),
];

/// What to say of a command that does not exist, if somebody may have learnt it elsewhere or mistyped it.
pub fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // `khz rules ps` is another mistake.
    let is_first = std::env::args_os().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
    is_first.filter(|first| first == word.as_str())?;
    let tip = match meant(word) {
        Some((command, what)) => format!("`{command}` {what}"),
        None => format!("did you mean `khz {}`?", near(word)?),
    };
    Some(format!("error: khz has no command '{word}'\n\n  tip: {tip}\n\nFor all commands, try '--help'.\n"))
}

/// The command that is spelt nearly so.
fn near(word: &str) -> Option<String> {
    let commands = Cli::command();
    let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
    suggest::nearest(word, shown.map(clap::Command::get_name)).map(str::to_owned)
}

fn meant(word: &str) -> Option<(&'static str, &'static str)> {
    let word = word.to_ascii_lowercase();
    let found = WORDS.iter().find(|(words, ..)| words.contains(&word.as_str()))?;
    Some((found.1, found.2))
}

#[cfg(test)]
mod tests {
    use khz_model::Pattern;

    use super::*;

    /// The commands that there are.
    fn commands() -> Vec<String> {
        Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }

    #[test]
    fn every_word_is_there_once_and_is_no_command() {
        let mut all: Vec<&str> = WORDS.iter().flat_map(|(words, ..)| words.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
        for word in all {
            assert!(!commands().iter().any(|command| command == word), "`khz {word}` exists");
        }
    }

    #[test]
    fn every_command_that_is_named_exists() {
        for (words, line, _) in WORDS {
            let typed = line.split_whitespace().map(|word| word.trim_matches('\''));
            let tried = Cli::command().ignore_errors(false).try_get_matches_from(typed);
            let wrong = tried.err().filter(|error| {
                // Some need more words, which everybody chooses for himself.
                !matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::DisplayVersion)
            });
            assert!(wrong.is_none(), "{words:?}: {line}: {wrong:?}");
        }
    }

    #[test]
    fn a_mistyped_command_is_the_one_with_the_fewest_other_letters() {
        for (word, command) in [("tpo", "top"), ("recrod", "record"), ("ndoes", "nodes"), ("Watch", "watch")]
        {
            assert_eq!(near(word).as_deref(), Some(command));
        }
        assert_eq!(near("zebra"), None);
    }

    #[test]
    fn every_pattern_that_is_named_selects_metrics() {
        let metrics = khz_gather::catalogue();
        for (_, line, _) in WORDS {
            for pattern in line.split_whitespace().filter_map(|word| word.strip_prefix('\'')) {
                let pattern = Pattern::new(pattern.trim_end_matches('\'')).unwrap();
                assert!(metrics.iter().any(|metric| pattern.matches_metric(&metric.name)), "{line}");
            }
        }
    }
}
