//! Whom commands ask that only a running khz can answer. They gather nothing, so they show no flags of that.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::command::target::Target;
use crate::config::ReaderFlags;

/// Flags that mean nothing to them. `--direct` is refused with the reason, and the others may be in a file or variable for all commands.
const WITHOUT_MEANING: [&str; 4] = ["direct", "root", "window", "node"];

/// The running khz that is asked.
#[derive(Debug)]
pub struct Whom {
    /// Where to ask.
    pub target: Target,
    /// The settings.
    pub settings: ReaderFlags,
}

impl Args for Whom {
    fn augment_args(command: Command) -> Command {
        let command = ReaderFlags::augment_args(Target::augment_args(command));
        let hide = |command: Command, flag| command.mut_arg(flag, |arg| arg.hide(true));
        WITHOUT_MEANING.into_iter().fold(command, hide)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Whom {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let target = Target::from_arg_matches(matches)?;
        Ok(Whom { target, settings: ReaderFlags::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_gathering_are_not_shown_and_still_read() {
        let mut command = Whom::augment_args(Command::new("khz"));
        let help = command.render_long_help().to_string();
        assert!(help.contains("--server <URL>") && help.contains("--token <FILE>"), "{help}");
        for flag in WITHOUT_MEANING {
            assert!(!help.contains(&format!("--{flag}")), "{flag}: {help}");
        }
        let matches = command.get_matches_from(["khz", "--direct"]);
        assert!(Whom::from_arg_matches(&matches).is_ok_and(|whom| whom.target.direct));
    }
}
