//! `khz config`: the effective configuration as TOML that can be read back, each value with where it came from.

use crate::config::NodeFlags;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use clap::Args;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use khz_ask::{ForeignServer, is_secret_header};
use khz_model::Pattern;
use khz_trust::{Protocol, TlsClient};

use crate::config::boards;
use crate::config::places;
use crate::config::secrets::{hidden, is_secret};
use crate::config::settings::{SETTINGS, Setting, Shape};
use crate::config::{
    ActionValues, ForeignValues, Layers, NotifyValues, Plan, SinkValues, SourceValues, Value,
};
use crate::show::table::printable;

/// Examples for `khz config --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz config                                each value, and where it comes from
  KHZ_WINDOW=1ms khz config --rate-max 500Hz
  khz config > khz.toml                     a file to start from";

/// `khz config`.
#[derive(Debug, Args)]
pub struct ConfigFlags {
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

/// Prints the configuration.
pub fn run(flags: ConfigFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (layers, plan) = super::plan(flags.settings.over(outer))?;
    out.write_all(toml(&layers, &plan).as_bytes())?;
    check_foreign(&plan)?;
    check_boards(&plan)
}

/// Reads the files of boards, as a daemon does when it starts; names everything that is wrong.
fn check_boards(plan: &Plan) -> Outcome {
    let problems = boards::read(plan.boards.as_deref()).problems;
    match problems.is_empty() {
        true => Ok(Done::Wholly),
        false => Err(Failure::usage(problems.join("\n"))),
    }
}

/// The column of comments, unless the value is longer.
const COMMENT_COLUMN: usize = 36;

/// The whole configuration; `plan` is what these layers were checked to mean.
pub fn toml(layers: &Layers, plan: &Plan) -> String {
    let mut text = String::new();
    for setting in SETTINGS.iter().filter(|setting| setting.key != "sources") {
        let value = layers.value(setting.key);
        let shown = match setting.key {
            "node" => hidden(plan.node.as_str()).into_owned(),
            // The output can be used as a file: it must not have a part of a token.
            "token" if is_secret(&value.text) => {
                let why = format!("{}, where it is set; it is not shown", value.origin);
                text.push_str(&line(setting.key, &quoted(""), &why));
                continue;
            }
            _ => hidden(&value.text).into_owned(),
        };
        let chosen = chosen(setting.key, plan).filter(|_| shown.is_empty());
        let origin = match chosen {
            // Only in the comment: as a value it would hold for every user and machine.
            Some(directory) => format!("{}: {}", value.origin, printable(&directory.display().to_string())),
            None => value.origin.to_string(),
        };
        text.push_str(&line(setting.key, &written(setting, &shown), origin));
    }
    let sources = layers.value("sources");
    if !sources.text.is_empty() {
        text.push_str(&line("sources", &list(&sources.text), &sources.origin));
    } else {
        layers.sources.iter().for_each(|source| text.push_str(&table(source)));
    }
    layers.sinks.iter().for_each(|sink| text.push_str(&sink_table(sink)));
    if let Some(engine) = &layers.engine {
        text.push_str(&format!("\n[engine]\n{}", foreign_keys(engine)));
    }
    for peer in &layers.rules_peers {
        text.push_str(&format!("\n[[rules_peer]]\n{}", foreign_keys(peer)));
    }
    layers.remote_writes.iter().for_each(|receiver| text.push_str(&receiver_table(receiver)));
    text.push_str(&notify_tables(&layers.notify));
    layers.actions.iter().for_each(|action| text.push_str(&action_tables(action)));
    if !layers.groups.is_empty() {
        text.push_str("\n[groups]\n");
        layers.groups.iter().for_each(|(name, hosts)| {
            text.push_str(&line(&key(name), &quoted(&hosts.text), &hosts.origin));
        });
    }
    if let Some(health) = &layers.health {
        text.push_str(&format!("\n[health]\n{}", foreign_keys(health)));
    }
    if let Some(jobs) = &layers.jobs {
        text.push_str(&format!("\n[jobs]\n{}", foreign_keys(jobs)));
    }
    text
}

/// A `[sinks.NAME]` table.
fn sink_table(sink: &SinkValues) -> String {
    let mut text = format!("\n[sinks.{}]\n", sink.name);
    for (key, value) in &sink.keys {
        let shown = if key == "layout" { list(&value.text) } else { quoted(&value.text) };
        text.push_str(&line(key, &shown, &value.origin));
    }
    text
}

/// A `[[remote_write]]` table.
fn receiver_table(receiver: &ForeignValues) -> String {
    let mut text = format!("\n[[remote_write]]\n{}", foreign_keys(receiver));
    for rule in &receiver.rules {
        text.push_str("\n[[remote_write.relabel]]\n");
        for (key, value) in rule {
            let shown = if key == "source_labels" { list(&value.text) } else { quoted(&value.text) };
            text.push_str(&line(key, &shown, &value.origin));
        }
    }
    text
}

/// The tables below `[notify]`.
fn notify_tables(values: &NotifyValues) -> String {
    let mut text = String::new();
    if !values.labels.is_empty() {
        text.push_str("\n[notify.labels]\n");
        for (name, value) in &values.labels {
            text.push_str(&line(&key(name), &quoted(&hidden(&value.text)), &value.origin));
        }
    }
    for table in &values.alertmanagers {
        text.push_str(&format!("\n[[notify.alertmanager]]\n{}", foreign_keys(table)));
    }
    if let Some(table) = &values.email {
        text.push_str(&format!("\n[notify.email]\n{}", foreign_keys(table)));
    }
    for table in &values.webhooks {
        text.push_str(&format!("\n[[notify.webhook]]\n{}", foreign_keys(table)));
    }
    for (table, command) in &values.execs {
        let command = line("command", &words(command), &table.at);
        text.push_str(&format!("\n[[notify.exec]]\n{command}{}", foreign_keys(table)));
    }
    text
}

/// The table `[actions.NAME]`, and the one below it.
fn action_tables(action: &ActionValues) -> String {
    let mut text = format!("\n[actions.{}]\n", action.name);
    for (word, command) in &action.programs {
        text.push_str(&line(word, &words(command), &action.values.at));
    }
    text.push_str(&foreign_keys(&action.values));
    for (word, values) in &action.tables {
        text.push_str(&format!("\n[actions.{}.{word}]\n{}", action.name, foreign_keys(values)));
    }
    text
}

/// The keys of a table that names a server of somebody else, or of an action.
fn foreign_keys(values: &ForeignValues) -> String {
    let mut text = String::new();
    for (key, value) in &values.keys {
        let shown = match key.as_str() {
            "match" | "series" => patterns(&value.text),
            "conditions" => {
                let all: Vec<String> = value.text.split(';').map(quoted).collect();
                format!("[{}]", all.join(", "))
            }
            "to" => list(&value.text),
            // Somebody may have written the secret itself where the name of its file belongs.
            "bearer" | "password" if is_secret(&value.text) || !khz_ask::is_named(Path::new(&value.text)) => {
                quoted("")
            }
            "url" => quoted(&without_query(&value.text)),
            "insecure" | "dry_run" | "strip_domain" => value.text.clone(),
            _ => quoted(&hidden(&value.text)),
        };
        text.push_str(&line(key, &shown, &value.origin));
    }
    for (name, pairs) in [("labels", &values.labels), ("headers", &values.headers)] {
        let pair = |(name, value): &(String, Value)| match is_secret_header(name) {
            true => format!("{} = {}", key(name), quoted("(a secret)")),
            false => format!("{} = {}", key(name), quoted(&hidden(&value.text))),
        };
        if let Some((_, first)) = pairs.first() {
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            text.push_str(&line(name, &format!("{{ {} }}", pairs.join(", ")), &first.origin));
        }
    }
    text
}

/// The words of a program, without what looks like a secret.
fn words(command: &[String]) -> String {
    let one = |(word, at): (&String, Option<usize>)| match at.and_then(|at| word.get(..at)) {
        Some(before) => quoted(&format!("{}(a secret)", hidden(before))),
        None => quoted(&hidden(word)),
    };
    let words: Vec<String> = command.iter().zip(khz_notify::secret_words(command)).map(one).collect();
    format!("[{}]", words.join(", "))
}

/// What follows a '?' is often a secret.
fn without_query(url: &str) -> String {
    match url.split_once('?') {
        Some((before, _)) => format!("{}?(a secret)", hidden(before)),
        None => hidden(url).into_owned(),
    }
}

/// Checks the files of TLS and of secrets that servers of others need, as a daemon does when it starts; names everything that is wrong.
fn check_foreign(plan: &Plan) -> Result<(), Failure> {
    let mut servers: Vec<(String, &ForeignServer)> = Vec::new();
    servers.extend(plan.engine.iter().map(|server| ("engine".to_owned(), server)));
    servers.extend(plan.rules_peers.iter().map(|server| ("rules_peer".to_owned(), server)));
    let notified = plan.notify.alertmanagers.iter().map(|way| (&way.name, &way.server));
    let notified = notified.chain(plan.notify.webhooks.iter().map(|way| (&way.name, &way.server)));
    servers.extend(notified.map(|(name, server)| (format!("notify '{name}'"), server)));
    let receivers = plan.remote_write.iter();
    servers.extend(receivers.map(|it| (format!("remote_write '{}'", it.name), &it.server)));
    let mut problems: Vec<String> = Vec::new();
    for (name, server) in servers {
        problems.extend(problems_of(server).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    if let Some((_, file)) = plan.notify.email.as_ref().and_then(|way| way.login.as_ref()) {
        let problem = khz_ask::secret("password", file).err();
        problems.extend(problem.map(|problem| format!("notify 'email': {problem}")));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(problems.join("\n"))),
    }
}

/// What is wrong with the files that a server needs.
fn problems_of(server: &ForeignServer) -> Vec<String> {
    let tls = server.files.clone().and_then(|files| TlsClient::load(files, Protocol::Http).err());
    let tls = tls.map(|error| sentence(&error));
    tls.into_iter().chain(server.login.authorization().err()).collect()
}

/// The directory that this user's khz would choose now, if no setting names one.
fn chosen(key: &str, plan: &Plan) -> Option<PathBuf> {
    match key {
        "run_dir" => places::run_dirs(plan).into_iter().next(),
        "ring_dir" => Some(places::usual_ring_dir()),
        "state_dir" => places::usual_state_dir(),
        "store" => places::store_dir(plan).ok().flatten(),
        _ => None,
    }
}

fn table(source: &SourceValues) -> String {
    let mut text = format!("\n[sources.{}]\n", key(&source.name));
    let mut add = |key: &str, value: &Option<Value>, write: fn(&str) -> String| {
        if let Some(value) = value {
            text.push_str(&line(key, &write(&value.text), &value.origin));
        }
    };
    add("rate", &source.rate, quoted);
    add("enabled", &source.enabled, str::to_owned);
    add("budget", &source.budget, quoted);
    text
}

fn line(key: &str, value: &str, origin: impl fmt::Display) -> String {
    format!("{:<COMMENT_COLUMN$}  # {origin}\n", format!("{key} = {value}"))
}

fn written(setting: &Setting, text: &str) -> String {
    match setting.shape {
        Shape::Switch => text.to_owned(),
        Shape::List(_) => list(text),
        Shape::Patterns(_) => patterns(text),
        Shape::Text(_) => quoted(text),
    }
}

fn list(text: &str) -> String {
    let items: Vec<String> =
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(quoted).collect();
    format!("[{}]", items.join(", "))
}

/// A list of patterns. Each is quoted by itself, since a hostlist has commas too.
fn patterns(text: &str) -> String {
    let patterns = Pattern::list(text).unwrap_or_default();
    let patterns: Vec<String> = patterns.iter().map(|pattern| quoted(&pattern.to_string())).collect();
    format!("[{}]", patterns.join(", "))
}

/// A TOML key: bare where TOML allows it; `net/dev` needs quotes.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;
    use crate::config::layers::tests::layers;

    #[test]
    fn receivers_can_be_read_back() {
        let text = "[[remote_write]]\nurl = \"http://vm/w\"\nmatch = [\"*:cpu.*\", \"n[1,2]:net.*\"]\nevery = \"15s\"\n\
                    labels = { a = \"1\", b = \"2\" }\nheaders = { X-Scope-OrgID = \"t\" }\n\
                    [[remote_write.relabel]]\nsource_labels = [\"a\", \"b\"]\naction = \"drop\"\n\
                    [[remote_write.relabel]]\nregex = \"a\\\\.b\"\naction = \"labeldrop\"\n\
                    [[remote_write]]\nurl = \"http://other/w\"\n";
        let read = |text: &str| file::read("k.toml", text, &[]).unwrap().remote_writes;
        let shown: String = read(text).iter().map(receiver_table).collect();
        let plain = |all: Vec<ForeignValues>| {
            let texts = |pairs: &[(String, Value)]| {
                let mut texts: Vec<_> =
                    pairs.iter().map(|(key, value)| (key.clone(), value.text.clone())).collect();
                texts.sort();
                texts
            };
            let one = |it: &ForeignValues| {
                let rules: Vec<_> = it.rules.iter().map(|rule| texts(rule)).collect();
                (texts(&it.keys), texts(&it.labels), texts(&it.headers), rules)
            };
            all.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(plain(read(&shown)), plain(read(text)), "{shown}");
    }

    #[test]
    fn actions_and_health_can_be_read_back() {
        let text = "[actions.look]\ndiagnose = [\"/bin/look\", \"a, b\"]\nretries = 2\n\
                    [actions.out]\ndrain = { strip_domain = true }\ndry_run = false\n\
                    [actions.fast]\nboost = { series = [\"cpu.*\", \"load.1m\"], rate = \"100Hz\" }\n\
                    [health]\nconditions = [\"mem.available > 1GiB\", \"load.1m < 64\"]\non_unhealthy = \"out\"\n";
        let plan = |text: &str| {
            let plan = Plan::check(&layers(text, &[], &[]), "n1", &["stat", "meminfo", "net_dev"]).unwrap();
            (plan.actions, plan.health)
        };
        let (actions, health) = plan(text);
        assert_eq!((actions.actions.len(), health.conditions.len()), (3, 2));
        assert_eq!(plan(&shown(text, &[], &[])), (actions, health));
    }

    #[test]
    fn arguments_and_file_names_that_are_secrets_are_not_shown() {
        let text = "[[notify.exec]]\ncommand = [\"/bin/page\", \"--password=SECRET\", \"--token\", \"SECRET\", \"ops\"]\n\
                    [actions.look]\ndiagnose = [\"/bin/look\", \"--api-key=SECRET\"]\n\
                    [[notify.webhook]]\nurl = \"https://hook/x?t=SECRET\"\nca = \"/ca\"\nbearer = \"/SECRET\"\n";
        let shown = shown(text, &[], &[]);
        assert!(!shown.contains("SECRET"), "{shown}");
        for line in [
            "command = [\"/bin/page\", \"--password=(a secret)\", \"--token\", \"(a secret)\", \"ops\"]",
            "diagnose = [\"/bin/look\", \"--api-key=(a secret)\"]",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }

    #[test]
    fn ways_to_people_can_be_read_back() {
        let text = "[notify.labels]\ncluster = \"a\"\n\
                    [[notify.alertmanager]]\nurl = \"http://am:9093\"\nresend = \"30s\"\n\
                    [notify.email]\nserver = \"mail:25\"\ntls = \"none\"\nfrom = \"k@a.b\"\nto = [\"x@a.b\", \"y@a.b\"]\n\
                    [[notify.webhook]]\nurl = \"http://hook/x\"\nheaders = { X-Scope-OrgID = \"t\" }\nper_hour = 10\n\
                    [[notify.exec]]\ncommand = [\"/bin/page\", \"a, b\"]\nwait = \"1m\"\n";
        let read = |text: &str| file::read("k.toml", text, &["stat", "meminfo", "net_dev"]).unwrap().notify;
        let plain = |values: &NotifyValues| {
            let mut text = notify_tables(values);
            // Where a value was written is another line.
            text = text
                .lines()
                .map(|line| line.split("  #").next().unwrap_or_default().trim_end())
                .collect::<Vec<_>>()
                .join("\n");
            text
        };
        let again = read(&shown(text, &[], &[]));
        assert_eq!(plain(&again), plain(&read(text)));
        assert_eq!(again.execs[0].1, ["/bin/page", "a, b"]);
        assert_eq!((again.alertmanagers.len(), again.webhooks.len(), again.labels.len()), (1, 1, 1));
    }

    fn shown(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
        let layers = layers(file, variables, flags);
        let plan = Plan::check(&layers, "host1", &["stat", "meminfo", "net_dev"]).unwrap();
        toml(&layers, &plan)
    }

    #[test]
    fn an_engine_can_be_read_back() {
        let text =
            "[engine]\nurl = \"http://vm:8428\"\ntimeout = \"5s\"\nheaders = { X-Scope-OrgID = \"t\" }\n";
        let read = |text: &str| {
            let engine = file::read("k.toml", text, &["stat", "meminfo", "net_dev"]).unwrap().engine.unwrap();
            let texts = |pairs: Vec<(String, Value)>| {
                pairs.into_iter().map(|(key, value)| (key, value.text)).collect::<Vec<_>>()
            };
            (texts(engine.keys), texts(engine.headers))
        };
        assert_eq!(read(&shown(text, &[], &[])), read(text));
        assert_eq!(read(text).0.len(), 2);
    }

    #[test]
    fn every_value_says_where_it_came_from() {
        let text = shown(
            "ring = \"1MiB\"\n[sources.stat]\nrate = \"100Hz\"\nenabled = true\n",
            &[("KHZ_WINDOW", "3us")],
            &[("listen", "127.0.0.1:9")],
        );
        let (given, defaults): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| !line.contains("  # default"));
        assert_eq!(
            given,
            [
                "listen = [\"127.0.0.1:9\"]              # --listen",
                "window = \"3us\"                        # KHZ_WINDOW",
                "ring = \"1MiB\"                         # /etc/khz/khz.toml:1",
                "",
                "[sources.stat]",
                "rate = \"100Hz\"                        # /etc/khz/khz.toml:3",
                "enabled = true                        # /etc/khz/khz.toml:4",
            ]
        );
        // Sources are shown as tables.
        assert_eq!(defaults.len(), SETTINGS.len() - 4);
        assert!(defaults.contains(&"cpu_max = \"10%\"                       # default"));
    }

    #[test]
    fn no_part_of_a_token_is_shown_and_what_is_shown_reads_back() {
        let token = format!("khz-reader-bob-{}", "0f".repeat(32));
        let text = shown("", &[("KHZ_TOKEN", &token)], &[]);
        let line = text.lines().find(|line| line.starts_with("token =")).unwrap();
        assert_eq!(
            line,
            "token = \"\"                            # KHZ_TOKEN, where it is set; it is not shown"
        );
        assert!(!text.contains("0f0f") && !text.contains("bob"), "{text}");
        let again = file::read("again.toml", &text, &["stat"]).unwrap();
        let at = crate::config::settings::position("token").unwrap();
        assert_eq!(again.settings[at].as_ref().unwrap().text, "");
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let patterns = "load.*,n1,n[3,5]:mem.free;n1.a,n2.a:cpu.*";
        let flags = [
            ("root", "/a \"b\"\\c\t"),
            ("sources", "stat=100Hz,meminfo"),
            ("rrd_match", patterns),
            ("nodes", "n[1,3],m1"),
        ];
        let text = shown("", &[], &flags);
        assert!(
            text.contains("rrd_match = [\"load.*\", \"n1,n[3,5]:mem.free\", \"n1.a\", \"n2.a:cpu.*\"]"),
            "{text}"
        );
        let again = file::read("again.toml", &text, &["stat", "meminfo"]).unwrap();
        let at = |key: &str| crate::config::settings::position(key).unwrap();
        assert_eq!(again.settings[at("root")].as_ref().unwrap().text, "/a \"b\"\\c\t");
        assert_eq!(again.settings[at("sources")].as_ref().unwrap().text, "stat=100Hz,meminfo");
        assert_eq!(again.settings[at("nodes")].as_ref().unwrap().text, "n[1,3],m1");
        let read = |text: &str| Pattern::list(text).unwrap();
        assert_eq!(read(&again.settings[at("rrd_match")].as_ref().unwrap().text), read(patterns));
    }
}
