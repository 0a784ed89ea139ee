//! `khz complete`, which the scripts of `khz completions` call at each Tab: prints the words with which the typed one can go
//! on, one a line. Subcommands, flags and files come from clap's engine; what a value is follows from the name that the help
//! gives it (PATTERN, NODES). Never fails: a Tab is no place for an error.

use std::ffi::{OsStr, OsString};
use std::io::Write;

use clap::{Args, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};

use super::known::Known;
use super::series;
use super::typed::Typed;
use crate::show::outcome::{Done, Outcome};

/// `khz complete`.
#[derive(Debug, Args)]
pub struct CompleteFlags {
    /// Which shell asks.
    #[arg(value_enum)]
    pub shell: Shell,
    /// bash: the line up to the cursor, and COMP_WORDBREAKS. Others: the words; the last one is at the cursor.
    #[arg(last = true)]
    pub words: Vec<OsString>,
}

/// A shell that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// It takes quoted words.
    Bash,
    /// It quotes words itself.
    Zsh,
    /// It quotes words itself, and gives the word at the cursor as it is typed.
    Fish,
}

/// Prints the words. `program` is the whole command line.
pub fn run(flags: &CompleteFlags, program: clap::Command, out: &mut impl Write) -> Outcome {
    let given: Vec<String> = flags.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (line, breaks) = match (flags.shell, given.as_slice()) {
        (Shell::Bash, [line, breaks, ..]) => (line.as_str(), breaks.as_str()),
        (Shell::Fish, [.., word]) => (word.as_str(), ""),
        _ => ("", ""),
    };
    let typed = Typed::read(line, breaks);
    let words = match flags.shell {
        Shell::Bash => typed.words.clone(),
        Shell::Zsh => given,
        Shell::Fish => {
            let before = given.len().saturating_sub(1);
            given[..before].iter().chain(typed.words.last()).cloned().collect()
        }
    };
    for word in offered(&words, program) {
        let reply = match flags.shell {
            Shell::Bash => typed.reply(&word),
            // A name with a line break would be two.
            Shell::Zsh | Shell::Fish => (!word.chars().any(char::is_control)).then_some(word),
        };
        if let Some(reply) = reply {
            writeln!(out, "{reply}")?;
        }
    }
    Ok(Done::Wholly)
}

/// The words with which the last one can go on.
fn offered(words: &[String], program: clap::Command) -> Vec<String> {
    let Some(last) = words.last() else { return Vec::new() };
    let mut program = with_values(program, &Known::of(words));
    let index = words.len() - 1;
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let folder = std::env::current_dir().ok();
    let Ok(found) = complete(&mut program, words, index, folder.as_deref()) else { return Vec::new() };
    let mut found: Vec<String> =
        found.iter().filter_map(|one| one.get_value().to_str().map(str::to_owned)).collect();
    // A user who wants a flag types its first dash.
    let is_flag = |word: &String| word.starts_with('-');
    if !is_flag(last) && found.iter().any(|word| !is_flag(word)) {
        found.retain(|word| !is_flag(word));
    }
    found.truncate(series::WORDS_MAX);
    found
}

/// The command line with what values of some names can be.
fn with_values(program: clap::Command, known: &Known) -> clap::Command {
    let for_args = known.clone();
    let program = program.mut_args(move |arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let known = for_args.clone();
        match names.first().map(|name| name.as_str()) {
            Some("PATTERN") => arg.add(completer(move |word| series::patterns(&known, word))),
            Some("NODES" | "NODES|FILE") => arg.add(completer(move |word| series::nodes(&known, word))),
            _ => arg,
        }
    });
    let known = known.clone();
    program.mut_subcommands(move |command| with_values(command, &known))
}

fn completer(words: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |word: &OsStr| -> Vec<CompletionCandidate> {
        let words = word.to_str().map(&words).unwrap_or_default();
        words.into_iter().map(CompletionCandidate::new).collect()
    })
}
