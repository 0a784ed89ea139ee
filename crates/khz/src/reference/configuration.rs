//! docs/configuration.md, from the table of settings.

use super::{code, table};
use crate::config::settings::{SETTINGS, Setting, Shape, scope};

const TOP: &str = "# Configuration

<!-- Made by `cargo xtask reference` from crates/khz/src/config/settings.rs. -->

Each setting can be given in four places. A later one wins:

1. the default;
2. the file: `~/.config/khz/khz.toml`, else `/etc/khz/khz.toml`, or the one that `--config FILE` names;
3. the environment: `KHZ_LISTEN=...`;
4. the flag: `--listen ...`.

Write numbers with their units: `\"5s\"`, `\"64MiB\"`, `\"100Hz\"`. A key that khz does not know is an error, with the line and the key that you may have meant. `khz config` prints
every setting, and where its value came from, as a file that can be edited. It prints the settings that a khz started here now would have, and does not ask a running one. It prints no token: if `KHZ_TOKEN` has one, `token` is empty, and a comment says so. A process reads its settings once, when it starts; a change needs a restart. Only certificates and their keys, rule files and files with secrets of receivers are read
again while it runs ([security.md](security.md)).

```toml
{listen}
{local_rate}            # kept in memory for the page's history
{rate_max}          # the most a reader may ask for
{cpu_max}             # of one core; beyond it fast lanes slow down, and say so

[sources.stat]
rate   = \"100Hz\"               # a rate of its own, also below the base rate, or where the kernel updates the source less often
budget = \"2%\"                  # of one core; if the source costs more, khz reads it less often, and says so
enabled = true

[sources.processes]
places = 50                      # at most 50 of each kind, instead of 20

[sources.textfile]
path = \"/var/lib/numbers\"       # *.prom files that programs leave for node_exporter
```

A table with a `path` and a name that no source of khz has describes a source of your own ([sources.md](sources.md#a-source-of-your-own)).

The file may also name receivers of remote write, in tables `[[remote_write]]` ([remote.md](remote.md)), and another engine that answers queries
in PromQL, in a table `[engine]` ([scale.md](scale.md#let-a-hub-ask-such-an-engine)). Tables `[[rules_peer]]` name other hubs
with the same rules ([rules.md](rules.md#two-hubs)). Tables below `[notify]` say who is notified of alerts ([notify.md](notify.md)),
tables `[actions.NAME]` what is done about them, and `[health]` what `khz health` looks at ([actions.md](actions.md)).

A hub may have sinks, which channels name with `to` ([channels.md](channels.md#sinks)):

```toml
[sinks.hot]
rrd    = \"/var/lib/khz/rrd-hot\"              # a directory of .rrd files, DIR/NODE/SERIES.rrd
layout = [\"10\", \"AVERAGE:0.5:1:8640\"]       # step and archives, as rrd_layout; MRTG's without it

[sinks.seen]
record = \"/var/lib/khz/seen\"                 # a directory of recordings, DIR/CHANNEL-START.NNNN.khzt
rotate = \"64MiB\"                             # a file, about
size   = \"1GiB\"                              # all files of a channel: the oldest goes
```

The page shows groups of nodes, which a hub's file may name, each with a [hostlist](names.md). A node may be in several:

```toml
[groups]
rack1 = \"node[001-032]\"
rack2 = \"node[033-064]\"
gpu   = \"gpu*\"
```

`khz check` names the sources. The column \"for\" says which commands take a setting as a flag: `khz` (without a command), `agent`, `hub`, and readers (`get`, `watch`, `nodes` and the like). `store` is `khz store`. The file may hold every
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
