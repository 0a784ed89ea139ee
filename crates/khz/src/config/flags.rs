//! The settings as flags: made from the table, read as text. The plan checks the values.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::settings::{SETTINGS, Setting, Shape, scope};

/// Heading of the settings in the help.
const HEADING: &str = "Settings (also KHZ_... in the environment, and keys of the file)";

/// Settings given on the command line. `SCOPE` selects the settings that the command needs.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags<const SCOPE: u8> {
    /// The file of `--config`.
    pub config: Option<PathBuf>,
    /// One entry for each setting of the table; `None` where it is not given.
    pub given: Vec<Option<String>>,
}

/// The flags of commands that gather for themselves.
pub type NodeFlags = SettingFlags<{ scope::ALONE }>;
/// The flags of the agent.
pub type AgentFlags = SettingFlags<{ scope::AGENT }>;
/// The flags of the hub.
pub type HubFlags = SettingFlags<{ scope::HUB }>;
/// The flags of commands that read a store.
pub type StoreFlags = SettingFlags<{ scope::STORE }>;
/// The flags of commands that read what another process gathers.
pub type ReaderFlags = SettingFlags<{ scope::READER }>;

impl<const SCOPE: u8> SettingFlags<SCOPE> {
    /// No setting is given.
    pub fn none() -> Self {
        SettingFlags { config: None, given: SETTINGS.iter().map(|_| None).collect() }
    }

    /// These settings, and those of `outer` where they are not given here.
    pub fn over(self, outer: NodeFlags) -> NodeFlags {
        let given = self.given.into_iter().zip(outer.given).map(|(inner, outer)| inner.or(outer)).collect();
        SettingFlags { config: self.config.or(outer.config), given }
    }

    fn settings() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.scope & SCOPE != 0)
    }
}

impl<const SCOPE: u8> Args for SettingFlags<SCOPE> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("Read this file instead of ~/.config/khz/khz.toml or /etc/khz/khz.toml")
            .long_help("Read this file instead of ~/.config/khz/khz.toml (or below XDG_CONFIG_HOME), or else /etc/khz/khz.toml [env: KHZ_CONFIG]")
            .help_heading(HEADING)
            .value_parser(ValueParser::path_buf());
        command.arg(config).args(Self::settings().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SCOPE: u8> FromArgMatches for SettingFlags<SCOPE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SETTINGS.iter().map(|setting| text(matches, setting)).collect();
        let config = matches.try_get_one::<PathBuf>("config").ok().flatten().cloned();
        Ok(SettingFlags { config, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let help = match (setting.default, setting.shape) {
        ("", _) | (_, Shape::Switch) => setting.help.to_owned(),
        (default, _) => format!("{} [default: {default}]", setting.help),
    };
    let long_help = format!("{help} [env: {}]", setting.variable());
    let arg =
        Arg::new(setting.key).long(setting.flag()).help(help).long_help(long_help).help_heading(HEADING);
    match setting.shape {
        Shape::Text(value) | Shape::List(value) | Shape::Patterns(value) => arg.value_name(value),
        Shape::Switch => arg.action(ArgAction::SetTrue),
    }
}

fn text(matches: &ArgMatches, setting: &Setting) -> Option<String> {
    match setting.shape {
        Shape::Text(_) | Shape::List(_) | Shape::Patterns(_) => {
            matches.try_get_one::<String>(setting.key).ok().flatten().cloned()
        }
        Shape::Switch => {
            let on = matches.try_get_one::<bool>(setting.key).ok().flatten().copied().unwrap_or(false);
            on.then(|| "true".to_owned())
        }
    }
}
