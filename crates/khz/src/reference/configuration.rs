//! docs/configuration.md, from the table of settings.

use super::{code, table};
use crate::config::settings::{SETTINGS, Setting, Shape, scope};

const TOP: &str = "# Configuration

<!-- Made by `cargo xtask reference` from crates/khz/src/config/settings.rs. -->

This page is for people who set up khz. You can give each setting in four places. If several places have it, the last one of this list wins:

1. the default;
2. the file `khz.toml`;
3. the environment: `KHZ_LISTEN=...`;
4. the flag: `--listen ...`.

khz reads one file, the first of this list that applies. It never merges two files. The file may have at most 1 MiB.

1. The file that `--config FILE` names.
2. The file that the variable `KHZ_CONFIG` names. If a file that you name is missing, khz does not start.
3. `$XDG_CONFIG_HOME/khz/khz.toml`, if it exists. If the variable is not set, this is `~/.config/khz/khz.toml`.
4. `/etc/khz/khz.toml`, if it exists.

Rules for values:

- Write numbers with their units: `\"5s\"`, `\"64MiB\"`, `\"100Hz\"`. A rate may be a bare number: `rate_max = 1000` is 1,000 Hz. 0 needs no unit. Other times and sizes without a unit are errors.
- `MiB` is 1,048,576 bytes, and so is `M`. `MB` is 1,000,000 bytes.
- If khz does not know a key, this is an error. The error has the line, and the key that you may have meant.

`khz config` prints every setting, and where its value came from. You can edit what it prints, and use it as a file. It prints the settings that a khz would have if it started here now. It does not ask a running khz. It prints no token: if `KHZ_TOKEN` has one, `token` is empty, and a comment says so.

A process reads its settings once, when it starts. A change needs a restart. While a process runs, it reads only these again: certificates and their keys, rule files, and files with secrets of receivers ([security.md](security.md)).

```toml
{listen}
{local_rate}            # kept in memory for the page's history
{rate_max}          # the most a reader may ask for
{cpu_max}             # of one core; if gathering takes more, fast lanes slow down, and say so

[sources.stat]
rate   = \"100Hz\"               # exactly this rate, even if it is below base_rate, or above the rate at which the kernel updates the source
budget = \"2%\"                  # of one core; if the source costs more, khz reads it less often, and says so
enabled = true

[sources.processes]
places = 50                      # at most 50 of each kind, instead of 20

[sources.textfile]
path = \"/var/lib/numbers\"       # *.prom files that programs leave for node_exporter
```

A name with another sign than letters, digits, `_` and `-` needs quotes, as TOML wants it: `[sources.\"net/dev\"]`.

A table `[sources.NAME]` may describe a source of your own. Then it has a `path`, and its name is none of khz's own sources ([sources.md](sources.md#a-source-of-your-own)).

The file may also have these tables:

| table | has |
|---|---|
| `[[remote_write]]` | a receiver of remote write ([remote.md](remote.md)) |
| `[engine]` | another engine that answers queries in PromQL ([scale.md](scale.md#let-a-hub-ask-such-an-engine)) |
| `[[rules_peer]]` | another hub with the same rules ([rules.md](rules.md#two-hubs)) |
| tables below `[notify]` | who is notified of alerts ([notify.md](notify.md)) |
| `[actions.NAME]` | what khz does about alerts ([actions.md](actions.md)) |
| `[health]` | what `khz health` checks ([actions.md](actions.md)) |
| `[jobs]` | which jobs readers see, and whether control groups show jobs ([jobs.md](jobs.md)) |

A hub may have sinks. A sink is a directory that gets the rows of channels. A channel names it with `to` ([channels.md](channels.md#sinks)):

```toml
[sinks.hot]
rrd    = \"/var/lib/khz/rrd-hot\"              # a directory of .rrd files, DIR/NODE/SERIES.rrd
layout = [\"10\", \"AVERAGE:0.5:1:8640\"]       # step and archives, as in rrd_layout; without this line, MRTG's layout

[sinks.seen]
record = \"/var/lib/khz/seen\"                 # a directory of recordings, DIR/CHANNEL-START.NNNN.khzt
rotate = \"64MiB\"                             # a file has about this size
size   = \"1GiB\"                              # limit for all files of a channel; the oldest file goes first
```

A hub's file may name groups of nodes, each with a [hostlist](names.md). The page shows these groups. A node may be in several groups:

```toml
[groups]
rack1 = \"node[001-032]\"
rack2 = \"node[033-064]\"
gpu   = \"gpu*\"
```

`khz check` names the sources.

In the table below, the column \"for\" says which commands take a setting as a flag. `khz` is khz without a command. `readers` are the commands that read, such as `get`, `watch` and `nodes`. `store` is `khz store`. The file may have every
setting on every machine.

";

/// The page.
pub fn page() -> String {
    let top = ["listen", "local_rate", "rate_max", "cpu_max"].iter().fold(TOP.to_owned(), |top, key| {
        let setting = SETTINGS.iter().find(|setting| setting.key == *key);
        let default = setting.map_or("", |setting| setting.default);
        top.replace(&format!("{{{key}}}"), &format!("{key:<10} = \"{default}\""))
    });
    let rows = SETTINGS.iter().map(|setting| {
        [setting.key, &default(setting), &commands(setting.scope), &help(setting)].map(str::to_owned)
    });
    let names = SETTINGS.iter().map(|setting| {
        let flag = match words(setting.shape) {
            "" => format!("--{}", setting.flag()),
            word => format!("--{} {word}", setting.flag()),
        };
        [code(setting.key), code(&flag), code(&setting.variable())]
    });
    let rows = rows.map(|[key, default, commands, help]| [code(&key), default, commands, help]);
    let settings = table(["key", "default", "for", "meaning"], rows);
    let names = table(["key", "flag", "variable"], names);
    format!("{top}## Settings\n\n{settings}\n## Flags and variables\n\n{names}")
}

fn words(shape: Shape) -> &'static str {
    match shape {
        Shape::Text(word) | Shape::List(word) | Shape::Patterns(word) => word,
        Shape::Switch => "",
    }
}

/// The default. Where it is not one value, the help has it in words.
fn default(setting: &Setting) -> String {
    match in_words(setting) {
        Some((_, default)) => default.to_owned(),
        None => code(setting.default),
    }
}

fn help(setting: &Setting) -> String {
    let help = in_words(setting).map_or(setting.help, |(help, _)| help);
    format!("{}.", help.trim_end_matches('.'))
}

/// `What it is [default: ...]`, apart.
fn in_words(setting: &Setting) -> Option<(&'static str, &'static str)> {
    let (help, default) = setting.help.split_once(" [default: ")?;
    Some((help, default.trim_end_matches(']')))
}

fn commands(of: u8) -> String {
    let known = [
        (scope::ALONE, "khz"),
        (scope::AGENT, "agent"),
        (scope::HUB, "hub"),
        (scope::STORE, "store"),
        (scope::READER, "readers"),
    ];
    if of == scope::ALL {
        return String::from("all");
    }
    let names: Vec<&str> = known.iter().filter(|(bit, _)| of & bit != 0).map(|(_, name)| *name).collect();
    names.join(", ")
}
