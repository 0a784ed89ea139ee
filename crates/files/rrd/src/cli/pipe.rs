//! rrdtool's pipe mode: commands line by line, `OK` or `ERROR:` after each; owns the extra commands of that mode.

use std::io::{BufRead, Read, Write};
use std::path::Path;

use super::{Command, command, options, print};
use crate::error::{Error, Result, refused};
use crate::text;

/// Bytes of one line; rrdtool has no limit.
const LINE_MAX: u64 = 1 << 20;

/// Serves until `quit` or the end of `input`. Returns the exit code.
pub(super) fn run(
    directory: Option<&String>,
    more: &[Command],
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> i32 {
    if let Some(directory) = directory
        && let Err(error) = std::env::set_current_dir(text::path(directory))
    {
        super::say(&format!("ERROR: {}", Error::io("changing to", text::path(directory), error)));
        return 1;
    }
    while let Some(line) = next_line(input) {
        let outcome = match line {
            Line::TooLong => refused(format!("a line of more than {LINE_MAX} bytes")),
            Line::Whole(line) => match options::words(text::of(&line).trim_end_matches(is_blank)) {
                None => refused("creating arguments"),
                Some(words) if words == ["quit"] => return 0,
                Some(words) => one(&words, more, out),
            },
        };
        let answer = match outcome {
            Ok(()) => status(),
            Err(error) => format!("ERROR: {error}\n"),
        };
        if out.write_all(&text::bytes(&answer)).and_then(|()| out.flush()).is_err() {
            return 1;
        }
    }
    0
}

/// One line of the input.
enum Line {
    Whole(Vec<u8>),
    /// It was skipped up to its end, so that none of it runs as a command.
    TooLong,
}

/// The next line with its end; `None` at the end of the input.
fn next_line(input: &mut dyn BufRead) -> Option<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        // One byte more than a line may have, for its end.
        match input.take(LINE_MAX + 1).read_until(b'\n', &mut line) {
            Err(_) => return None,
            Ok(0) if line.is_empty() && !is_too_long => return None,
            Ok(0) => break,
            Ok(_) if line.ends_with(b"\n") => break,
            Ok(_) if line.len() as u64 > LINE_MAX => {
                is_too_long = true;
                line.clear();
            }
            // The input has ended.
            Ok(_) => break,
        }
    }
    Some(if is_too_long { Line::TooLong } else { Line::Whole(line) })
}

/// Whether a character at the end of a line is no part of it.
fn is_blank(letter: char) -> bool {
    letter.is_ascii() && !letter.is_ascii_graphic()
}

/// `OK` with the seconds of user, system and real time since the start, as rrdtool prints them.
fn status() -> String {
    let used = |clock| rustix::time::clock_gettime(clock);
    let cpu = used(rustix::time::ClockId::ProcessCPUTime);
    format!("OK u:{}.{:02} s:0.00 r:0.00\n", cpu.tv_sec, cpu.tv_nsec / 10_000_000)
}

fn one(words: &[String], more: &[Command], out: &mut dyn Write) -> Result<()> {
    let Some((name, rest)) = words.split_first() else { return command(words, more, out) };
    let name = name.as_str();
    let wanted = match name {
        "cd" | "mkdir" => 1,
        "pwd" | "ls" | "quit" => 0,
        _ => return command(words, more, out),
    };
    if rest.len() != wanted {
        return refused(format!("invalid parameter count for {name}"));
    }
    match name {
        "cd" => match std::env::set_current_dir(text::path(&rest[0])) {
            Ok(()) => Ok(()),
            Err(error) => refused(format!("chdir {} {}", rest[0], crate::error::os_text(&error))),
        },
        "mkdir" => match std::fs::create_dir(text::path(&rest[0])) {
            Ok(()) => Ok(()),
            Err(error) => refused(format!("mkdir {}: {}", rest[0], crate::error::os_text(&error))),
        },
        "pwd" => match std::env::current_dir() {
            Ok(dir) => print(out, &format!("{}\n", text::name(&dir))),
            Err(error) => Err(Error::io("reading", ".", error)),
        },
        _ => list_directory(Path::new("."), out),
    }
}

/// Directories as `d name`, `.rrd` files as `- name`.
fn list_directory(path: &Path, out: &mut dyn Write) -> Result<()> {
    let failed = |error| Error::io("reading", path, error);
    // rrdtool lists these as well.
    print(out, "d .\nd ..\n")?;
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = text::name(entry.file_name());
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            print(out, &format!("d {name}\n"))?;
        } else if name.ends_with(".rrd") {
            print(out, &format!("- {name}\n"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to `input`.
    fn answers(input: &[u8]) -> Vec<String> {
        let mut out = vec![];
        assert_eq!(run(None, &[], &mut &*input, &mut out), 0);
        String::from_utf8(out).unwrap().lines().map(str::to_string).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_whole_and_has_one_answer() {
        let limit = LINE_MAX as usize;
        for (length, is_too_long) in
            [(limit - 1, false), (limit, false), (limit + 1, true), (3 * limit + 7, true)]
        {
            // Wherever it were cut, the rest would be a command that prints something.
            let mut line = b"pwd ".repeat(length.div_ceil(4));
            line.truncate(length);
            for end in ["", "\n", "\npwd\n"] {
                let answers = answers(&[&line, end.as_bytes()].concat());
                let wanted = match is_too_long {
                    true => format!("ERROR: a line of more than {LINE_MAX} bytes"),
                    false => "ERROR: invalid parameter count for pwd".into(),
                };
                assert_eq!(answers[0], wanted, "{length}");
                let others = if end.len() > 1 { 2 } else { 0 };
                assert_eq!(answers.len(), 1 + others, "{length} {end:?}: {:?}", &answers[1..]);
            }
        }
    }
}
