//! The list of the files that a node serves below `/proc`: a text like any other, with one name a line. Foreign names become
//! paths, so each is checked here. A reader of the list leaves out and counts names that are no paths.

use crate::limits::TEXT_PATH_MAX;

/// Between a link's name and its target.
const ARROW: &str = " -> ";

/// The kind of a name in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedAs<'a> {
    /// A file.
    File,
    /// A link to this path, relative to the link's directory.
    Link(&'a str),
}

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingLine<'a> {
    /// The path below `/proc`.
    pub path: &'a str,
    /// A file or a link.
    pub listed: ListedAs<'a>,
}

/// True for a path that may follow `/proc/`: names with single slashes between them, none of which is `.` or `..`, and no
/// control characters.
pub fn is_text_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
    path.len() <= TEXT_PATH_MAX
        && !path.contains(|c: char| c.is_control())
        && !path.contains(ARROW)
        && path.split('/').all(is_name)
}

/// The lines of a list; `None` for each invalid line.
pub fn lines(list: &[u8]) -> impl Iterator<Item = Option<ListingLine<'_>>> {
    let lines = list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let (path, listed) = match line.split_once(ARROW) {
            Some((path, target)) => (path, ListedAs::Link(target)),
            None => (line, ListedAs::File),
        };
        let leads_somewhere = match listed {
            ListedAs::File => true,
            ListedAs::Link(target) => is_text_path(target),
        };
        (is_text_path(path) && leads_somewhere).then_some(ListingLine { path, listed })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_or_break_their_place_are_none() {
        for good in ["meminfo", "net/dev", "sys/kernel/hostname", "a b", "..a", "fs/jbd2/sda1-8/info"] {
            assert!(is_text_path(good), "{good}");
        }
        let long = "n/".repeat(200) + "n";
        for bad in
            ["", "/", "/etc", "a/", "a//b", ".", "..", "a/../b", "../a", "a\nb", "a\0", "a -> b", &long]
        {
            assert!(!is_text_path(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_list_has_files_and_links_and_marks_lines_that_are_neither() {
        let list = b"mounts -> self/mounts\nself/mounts\nx/../../etc\nevil -> ../etc\n\xff\n";
        let read: Vec<_> = lines(list).collect();
        assert_eq!(
            read,
            [
                Some(ListingLine { path: "mounts", listed: ListedAs::Link("self/mounts") }),
                Some(ListingLine { path: "self/mounts", listed: ListedAs::File }),
                None,
                None,
                None
            ]
        );
    }
}
