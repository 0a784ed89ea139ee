//! `khz man` and `khz completions`: pages and completions from the same table as the flags. Nothing of it is
//! kept in the repository, so nothing of it can be out of date.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsFlags, ManFlags};
use crate::show::outcome::{Done, Failure, Outcome};

/// Writes `khz.1`, `khz-get.1` and the others into the directory, or `khz.1` to `out`.
pub fn man(flags: &ManFlags, out: &mut impl Write) -> Outcome {
    match &flags.directory {
        None => clap_mangen::Man::new(Cli::command()).render(out)?,
        Some(directory) => generate(directory).map_err(|error| {
            Failure::work(format!("cannot write man pages into {}: {error}", directory.display()))
        })?,
    }
    Ok(Done::Wholly)
}

fn generate(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}

/// Prints the completions of one shell.
pub fn completions(flags: &CompletionsFlags, out: &mut impl Write) -> Outcome {
    // clap_complete panics on a write that fails; a buffer cannot.
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "khz", &mut script);
    out.write_all(&script)?;
    Ok(Done::Wholly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_man_page_holds_examples_and_settings() {
        let mut page = Vec::new();
        man(&ManFlags { directory: None }, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("khz get") && page.contains("rate\\-max"), "{page}");
    }
}
