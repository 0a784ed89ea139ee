//! Sources that a configuration describes: a number in a small file, or in the same small file of several folders. Each is a tree
//! of small files, as ours are ([`crate::tree`]), and lives as long as the program.

use khz_model::name::is_metric_name;
use khz_model::{Exposition, Kind, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// Where the names of their metrics begin.
pub const PREFIX: &str = "own.";
/// The most such sources: each is surveyed by itself.
pub const OWN_SOURCES_MAX: usize = 16;
/// The longest path.
pub const OWN_PATH_MAX: usize = 256;
/// The most wildcards in a path: each is a label.
pub const OWN_WILDCARDS_MAX: usize = 3;
/// The longest help.
pub const OWN_HELP_MAX: usize = 200;

/// The labels of the second wildcard and the third.
static LABELS: [&str; OWN_WILDCARDS_MAX - 1] = ["part2", "part3"];

/// What a configuration says of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSource {
    /// Its name: `room` gives the metric `own.room`.
    pub name: String,
    /// The file: `/sys/class/room/*/temp`. In the names of folders `*` stands for anything and `#` for digits.
    pub path: String,
    /// The word that begins the line with the number, and the number's column after it, from 1; `None`: the number is all that the
    /// file has.
    pub line: Option<(String, usize)>,
    /// Counter or gauge.
    pub kind: Kind,
    /// The unit of the number.
    pub unit: Unit,
    /// The file counts in `10^-places` of the unit.
    pub places: u8,
    /// One sentence for people.
    pub help: String,
}

/// Why a source cannot be as somebody describes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnSourceError {
    /// The name.
    #[error("the name of a source has at most 32 small letters, digits and '_', and begins with a letter")]
    Name,
    /// The path.
    #[error("{0}; such a path is fine: /sys/class/room/*/temp")]
    Path(PathError),
    /// The line.
    #[error("a line is a word without blanks or ':', and a column is a number from 1 to 64")]
    Line,
    /// The help.
    #[error("the help has at most {OWN_HELP_MAX} bytes")]
    Help,
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<OwnSourceError>),
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with `/`.
    #[error("a path is absolute: it begins with '/'")]
    Relative,
    /// The file is at the root.
    #[error("the file is in a folder, not right below '/'")]
    AtRoot,
    /// An empty part, `.` or `..`.
    #[error("a path has no '.' and no '..', and no empty names")]
    Parts,
    /// A byte that a terminal would obey.
    #[error("a path has no control characters")]
    Control,
    /// More than [`OWN_PATH_MAX`] bytes.
    #[error("a path has at most {OWN_PATH_MAX} bytes")]
    Long,
    /// More than [`OWN_WILDCARDS_MAX`] wildcards.
    #[error("a path has at most {OWN_WILDCARDS_MAX} wildcards (* or #)")]
    Wildcards,
    /// A wildcard or `:` in the name of the file.
    #[error("wildcards (* or #) stand in names of folders, and the name of the file has none, and no ':'")]
    File,
}

impl OwnSource {
    /// Makes the source, for the life of the program.
    ///
    /// # Errors
    /// Something is not as it may be: all of it.
    pub fn make(&self) -> Result<&'static KernelFile, OwnSourceError> {
        let (folders, file) = self.checked()?;
        let field = match &self.line {
            None => leak(file),
            Some((word, column)) => leak(&format!("{file}: {word} {column} of {column}")),
        };
        let wildcards = folders.matches(['*', '#']).count();
        let name: Vec<Part> = (0..wildcards).map(Part::Captured).collect();
        let group = Group {
            label: if wildcards > 0 { "name" } else { "" },
            instance_labels: &LABELS[..wildcards.saturating_sub(1)],
            entries: Box::leak(Box::new([self.entry(field)])),
            branch: Some(Branch {
                folders: leak(folders),
                name: Box::leak(name.into_boxed_slice()),
                ..Branch::PLAIN
            }),
            ..Group::PLAIN
        };
        let source = leak(&self.name);
        Ok(Box::leak(Box::new(KernelFile {
            name: source,
            path: leak(&self.path[1..]),
            pieces: Pieces::Survey {
                subject: Subject::Tree(source),
                captured: leak(&format!("survey/own/{source}")),
            },
            only_base: true,
            scalars: &[],
            groups: Box::leak(Box::new([group])),
            parse,
        })))
    }

    /// The folders of the path and its file, if everything is as it may be.
    fn checked(&self) -> Result<(&str, &str), OwnSourceError> {
        let is_name = self.name.len() <= 32 && !self.name.contains('.') && is_metric_name(&self.name);
        let is_line = |(word, column): &(String, usize)| is_word(word) && (1..=64).contains(column);
        let place = self.place();
        let wrong = [
            (!is_name).then_some(OwnSourceError::Name),
            place.err().map(OwnSourceError::Path),
            (!self.line.as_ref().is_none_or(is_line)).then_some(OwnSourceError::Line),
            (self.help.len() > OWN_HELP_MAX).then_some(OwnSourceError::Help),
        ];
        let mut wrong: Vec<OwnSourceError> = wrong.into_iter().flatten().collect();
        match (place, wrong.len()) {
            (Ok(place), 0) => Ok(place),
            (_, 1) => Err(wrong.remove(0)),
            _ => Err(OwnSourceError::Several(wrong)),
        }
    }

    /// The folders of the path and its file.
    fn place(&self) -> Result<(&str, &str), PathError> {
        let path = self.path.strip_prefix('/').ok_or(PathError::Relative)?;
        if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(PathError::Parts);
        }
        if path.contains(|c: char| c.is_control()) {
            return Err(PathError::Control);
        }
        if path.len() >= OWN_PATH_MAX {
            return Err(PathError::Long);
        }
        let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
        if file.contains(['*', '#', ':']) {
            return Err(PathError::File);
        }
        if folders.matches(['*', '#']).count() > OWN_WILDCARDS_MAX {
            return Err(PathError::Wildcards);
        }
        if folders.is_empty() { Err(PathError::AtRoot) } else { Ok((folders, file)) }
    }

    fn entry(&self, field: &'static str) -> Entry {
        let name = leak(&format!("{PREFIX}{}", self.name));
        let help = match self.help.as_str() {
            "" => leak(&format!("What {} says.", self.path)),
            help => leak(help),
        };
        let entry = match self.kind {
            Kind::Counter => counter(name, field, self.unit, help),
            Kind::Gauge => gauge(name, field, self.unit, help).signed(),
        };
        let family = leak(&Exposition::given_name(name, self.kind, self.unit));
        entry.steps(self.places).every(SURVEY_PERIOD).exposed(family, &[])
    }
}

/// True if a configuration describes this source.
pub fn is_own(file: &KernelFile) -> bool {
    file.groups.iter().flat_map(|group| group.entries).any(|entry| entry.name.starts_with(PREFIX))
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 64
        && !word.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':')
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> OwnSource {
        OwnSource {
            name: "room".into(),
            path: path.into(),
            line: None,
            kind: Kind::Gauge,
            unit: Unit::Celsius,
            places: 3,
            help: String::new(),
        }
    }

    #[test]
    fn a_path_says_where_the_instances_are() {
        let of = |path: &str| {
            source(path).make().map(|file| {
                let branch = file.groups[0].branch.unwrap();
                (branch.folders, file.groups[0].entries[0].field, branch.name.len())
            })
        };
        assert_eq!(of("/sys/class/room/*/temp"), Ok(("sys/class/room/*", "temp", 1)));
        assert_eq!(of("/sys/room#/x*/temp"), Ok(("sys/room#/x*", "temp", 2)));
        assert_eq!(of("/proc/room"), Ok(("proc", "room", 0)));
        let long = format!("/a/{}", "b".repeat(OWN_PATH_MAX));
        for (wrong, why) in [
            ("", PathError::Relative),
            ("room", PathError::Relative),
            ("a/b", PathError::Relative),
            ("/", PathError::Parts),
            ("/room", PathError::AtRoot),
            ("/a/../b", PathError::Parts),
            ("/a/./b", PathError::Parts),
            ("/a//b", PathError::Parts),
            ("/a/", PathError::Parts),
            ("/a/*", PathError::File),
            ("/*", PathError::File),
            ("/a/b:c", PathError::File),
            ("/*/*/*/*/b", PathError::Wildcards),
            ("/a/\u{1}/b", PathError::Control),
            (&long, PathError::Long),
        ] {
            assert_eq!(of(wrong), Err(OwnSourceError::Path(why)), "{wrong}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong = OwnSource {
            name: "Room".into(),
            line: Some(("a b".into(), 1)),
            help: "h".repeat(OWN_HELP_MAX + 1),
            ..source("/room")
        };
        let error = wrong.make().unwrap_err().to_string();
        for part in [
            OwnSourceError::Name,
            OwnSourceError::Path(PathError::AtRoot),
            OwnSourceError::Line,
            OwnSourceError::Help,
        ] {
            assert!(error.contains(&part.to_string()), "{error}");
        }
        assert!(!error.contains("absolute"), "only what is wrong: {error}");
    }

    #[test]
    fn what_it_says_becomes_a_metric() {
        let terms = OwnSource {
            line: Some(("hits".into(), 2)),
            kind: Kind::Counter,
            unit: Unit::Bytes,
            places: 0,
            help: "Hits.".into(),
            ..source("/proc/spl/x")
        };
        let metric = terms.make().unwrap().metrics().remove(0);
        assert_eq!((&*metric.name, &*metric.exposition.name), ("own.room", "khz_own_room_bytes_total"));
        assert_eq!((&*metric.help, &*metric.origin.field), ("Hits.", "x: hits 2 of 2"));
        for (name, line) in [
            ("Room", None),
            ("a.b", None),
            ("", None),
            ("room", Some(("a b".to_owned(), 1))),
            ("room", Some(("a".to_owned(), 0))),
        ] {
            assert!(OwnSource { name: name.into(), line, ..source("/a/b") }.make().is_err(), "{name}");
        }
    }
}
