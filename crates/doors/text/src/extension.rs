//! The protocol's extensions: lines that begin with a colon, which old clients never send. This file reads
//! them and names what is wrong; it executes nothing.

use khz_model::{Nanos, Pattern, Rate};

/// One extension.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extension {
    /// Show only these nodes; `None`: all.
    Nodes(Option<Pattern>),
    /// Write statuses as lines.
    Lines,
    /// Write statuses as s-expressions.
    Sexp,
    /// Rows may be this old at most (`u64::MAX`: any age); `None`: the door's window.
    Age(Option<Nanos>),
    /// Send statuses at this rate until the client sends something.
    Every(Rate),
    /// List the items with their full names; with `types`, also with the types of their values.
    Items {
        /// Older hubs refuse a line with a word more, so they ask without it.
        types: bool,
    },
    /// List the lanes that run slower than asked.
    Slowed,
    /// The identities of this hub and of the hubs that its nodes come from.
    Hub,
    /// List the extensions.
    Help,
}

/// All commands and extensions, for people; the answer to `:help`.
pub(crate) const HELP: &str = "\
: #              the items: mask, name, U (unbounded) or B LOWER UPPER
: S              the status: BASE NUMBER NAME VALUE of every node and item
: 1f             only the items with these bits from here on; 0: all
: :nodes PATTERN only these nodes, such as node[1-64] or web*; alone: all
: :sexp  :lines  statuses as s-expressions, or as lines again
: :age 2ms       rows at most this old; any: the newest held; alone: the window
: :every 10Hz    a status ten times a second until you send something
: :items         the items with kind, unit, decimal places and full name
: :items types   the same with the type of the values before the name
: :slowed        the lanes that run slower than asked: NODE LANE RATE ASKED
: :hub           the identities of this hub and of those its nodes come from

";

impl Extension {
    /// Reads the text after the colon.
    pub fn read(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let alone = |extension| match rest {
            "" => Ok(extension),
            _ => Err(format!("{word} takes no argument")),
        };
        match word {
            "nodes" if rest.is_empty() => Ok(Extension::Nodes(None)),
            "nodes" => match Pattern::new(&format!("{rest}:*")) {
                Ok(pattern) => Ok(Extension::Nodes(Some(pattern))),
                Err(error) => Err(format!("{} (column {})", error.problem, error.at + 1)),
            },
            "lines" => alone(Extension::Lines),
            "sexp" => alone(Extension::Sexp),
            "items" if rest == "types" => Ok(Extension::Items { types: true }),
            "items" => alone(Extension::Items { types: false }),
            "slowed" => alone(Extension::Slowed),
            "hub" => alone(Extension::Hub),
            "help" => alone(Extension::Help),
            "age" => match rest {
                "" => Ok(Extension::Age(None)),
                "any" => Ok(Extension::Age(Some(Nanos(u64::MAX)))),
                age => age.parse().map(|age| Extension::Age(Some(age))).map_err(|e| format!("{e}")),
            },
            "every" => rest.parse().map(Extension::Every).map_err(|error| format!("{error}")),
            _ => Err("no such word; :help lists all".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        for (line, expected) in [
            ("nodes", Extension::Nodes(None)),
            ("nodes  n[1-3]", Extension::Nodes(Pattern::new("n[1-3]:*").ok())),
            ("nodes n[1-3,7],gpu01", Extension::Nodes(Pattern::new("n[1-3,7],gpu01:*").ok())),
            ("sexp", Extension::Sexp),
            ("age 2ms", Extension::Age(Some(Nanos::from_millis(2)))),
            ("age any", Extension::Age(Some(Nanos(u64::MAX)))),
            ("age", Extension::Age(None)),
            ("items", Extension::Items { types: false }),
            ("items types", Extension::Items { types: true }),
            ("hub", Extension::Hub),
            ("slowed", Extension::Slowed),
            ("every 10Hz", Extension::Every(Rate::from_hz(10).unwrap())),
        ] {
            assert_eq!(Extension::read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn errors_take_one_line() {
        for line in ["nodes n[", "age soon", "every", "every 0Hz", "items now", "sexp now", "frobnicate", ""]
        {
            let problem = Extension::read(line).unwrap_err();
            assert!(!problem.is_empty() && !problem.contains('\n'), "{line}: {problem}");
        }
    }

    #[test]
    fn the_help_fits_a_terminal() {
        let longest = HELP.lines().map(str::len).max();
        assert!(longest < Some(80), "{longest:?}");
        assert!(HELP.ends_with("\n\n"));
    }
}
