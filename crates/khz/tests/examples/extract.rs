//! Finds examples where people read them: in the console blocks of pages, and in what `--help` of every command prints.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// One example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The page or command that it is from.
    pub place: String,
    /// What a reader types.
    pub line: String,
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.line)
    }
}

/// What follows a prompt in the console blocks; the text after ` #` is a comment.
pub fn of_page(page: &str, text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut is_console = false;
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        } else if let Some(typed) = line.strip_prefix("$ ").filter(|_| is_console) {
            let typed = typed.split(" # ").next().unwrap_or(typed).trim_end();
            examples.push(Example { place: page.into(), line: typed.to_owned() });
        }
    }
    examples
}

/// The examples of a program and of all its commands.
pub fn of_help(khz: &Path) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        let help = help(khz, &words);
        let place = format!("khz {} --help", words.join(" "));
        examples.extend(of_text(&help).into_iter().map(|line| Example { place: place.clone(), line }));
        // The one that comes first is taken next.
        let below: Vec<_> =
            commands(&help).into_iter().map(|command| [words.clone(), vec![command]].concat()).collect();
        waiting.extend(below.into_iter().rev());
    }
    examples
}

fn help(khz: &Path, words: &[String]) -> String {
    let done = Command::new(khz).args(words).arg("--help").output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

/// The names in a help's list of commands. The words of `khz rrd` and its like are rrdtool's own.
fn commands(help: &str) -> Vec<String> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The lines below `Examples:`: two spaces, what is typed, and, after two spaces more, what it does.
fn of_text(help: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let block =
        help.lines().skip_while(|line| *line != "Examples:").skip(1).take_while(|line| !line.is_empty());
    for line in block {
        let goes_on = examples.last().is_some_and(|last| last.ends_with('\\'));
        if goes_on {
            let last = examples.pop().unwrap_or_default();
            examples.push(format!("{} {}", last.trim_end_matches(['\\', ' ']), typed(line.trim_start())));
        } else if let Some(rest) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            examples.push(typed(rest).to_owned());
        }
    }
    examples
}

fn typed(line: &str) -> &str {
    line.split("  ").next().unwrap_or(line)
}

#[test]
fn examples_are_found_with_their_second_lines_and_without_what_is_for_people() {
    let help = "Usage\n\nExamples:\n  khz one                what it does,\n                         and more\n  khz two --a \\\n          --b    this\n\nkhz three\n";
    assert_eq!(of_text(help), ["khz one", "khz two --a --b"]);
    let readme = "$ no\n```console\n$ khz get 'a#b'   # the first\nout\n$ printf '#' | nc\n```\n$ no\n";
    let lines: Vec<String> = of_page("README.md", readme).into_iter().map(|one| one.line).collect();
    assert_eq!(lines, ["khz get 'a#b'", "printf '#' | nc"]);
}
