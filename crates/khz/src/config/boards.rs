//! The files of boards: pages of panels that the page of this khz lists by name. A file that is wrong keeps the others going; what is
//! wrong with it is said with file, line and column. Watches nothing: files are read when khz starts.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use khz_http::{PanelKind, SavedBoard, SavedBoards, SavedPanel, Shows};
use khz_model::{Pattern, suggest};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Where boards are looked for if no setting says where.
pub const BOARDS_DIR: &str = "/etc/khz/boards";
/// Boards of a folder: the page lists them all.
pub const BOARDS_MAX: usize = 64;
/// Bytes of a file. The panels of a board take less.
pub const BOARD_BYTES_MAX: u64 = 64 << 10;
/// Panels of a board: as many as the page shows.
pub const PANELS_MAX: usize = 24;
/// Bytes of a pattern or a query.
pub const EXPRESSION_MAX: usize = 2_000;
/// Letters of a title.
pub const TITLE_MAX: usize = 80;
/// Letters of a board's name, which is in addresses.
pub const NAME_MAX: usize = 64;
/// Entries of the folder that are looked at: more are no folder of boards.
const ENTRIES_MAX: usize = 4_096;

/// Reads the boards that a setting names; without one, those of the usual folder, if there is one.
pub fn read(setting: Option<&Path>) -> SavedBoards {
    let folder = setting.map_or_else(|| PathBuf::from(BOARDS_DIR), Path::to_path_buf);
    let shown = Some(folder.display().to_string());
    match paths(&folder) {
        Ok(paths) => {
            let mut boards = SavedBoards { folder: shown, ..SavedBoards::default() };
            paths.into_iter().for_each(|path| add(&mut boards, &path));
            boards
        }
        // The usual folder may be missing, and may be nobody's business.
        Err(error) if setting.is_none() && error.kind() == ErrorKind::NotFound => {
            SavedBoards { folder: shown, ..SavedBoards::default() }
        }
        Err(error) => {
            let problems = vec![format!("{}: the boards cannot be read: {error}", folder.display())];
            SavedBoards { folder: shown, problems, ..SavedBoards::default() }
        }
    }
}

/// The files of a folder, in the order of their names.
fn paths(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(ENTRIES_MAX) {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn add(boards: &mut SavedBoards, path: &Path) {
    let found = match boards.boards.len() < BOARDS_MAX {
        true => text(path).and_then(|(name, text)| board(&name, &text, path)),
        false => Err(format!("{}: there are more than {BOARDS_MAX} boards", path.display())),
    };
    match found {
        Ok(board) => boards.boards.push(board),
        // A folder of broken files says so once for each board that there may be.
        Err(problem) if boards.problems.len() < BOARDS_MAX => boards.problems.push(problem),
        Err(_) => {}
    }
}

/// The name of a board and the text of its file.
fn text(path: &Path) -> Result<(String, String), String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_name) {
        let rule = format!(
            "its name may have {NAME_MAX} letters, digits, '-', '_' and '.', because it is in addresses"
        );
        return Err(wrong(rule));
    }
    let is_file = path.metadata().map_err(|error| wrong(format!("cannot be read: {error}")))?.is_file();
    if !is_file {
        return Err(wrong("is no file".into()));
    }
    let file = File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut bytes = Vec::new();
    let read = file.take(BOARD_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > BOARD_BYTES_MAX {
        return Err(wrong(format!("has more than the {BOARD_BYTES_MAX} bytes of a board")));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8".into()))?;
    Ok((name.to_owned(), text))
}

/// What one file says.
fn board(name: &str, text: &str, path: &Path) -> Result<SavedBoard, String> {
    let reader = Reader { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let problem = format!("not TOML: {}", error.message().replace('\n', ", "));
        reader.wrong(error.span().unwrap_or(0..0), &problem)
    })?;
    let mut board = SavedBoard { name: name.to_owned(), title: name.to_owned(), panels: Vec::new() };
    for (key, value) in table.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("title", _) => board.title = reader.text_of(key, value, TITLE_MAX)?,
            ("panel", DeValue::Array(panels)) if panels.len() > PANELS_MAX => {
                return Err(reader.wrong(key.span(), &format!("a board has at most {PANELS_MAX} panels")));
            }
            ("panel", DeValue::Array(panels)) => {
                board.panels = panels.iter().map(|panel| reader.panel(panel)).collect::<Result<_, _>>()?;
            }
            ("panel", _) => return Err(reader.wrong(value.span(), "panel takes tables: [[panel]]")),
            _ => return Err(reader.unknown(key, &["title", "panel"])),
        }
    }
    match board.panels.is_empty() {
        true => Err(reader.wrong(0..0, "a board has at least one panel: [[panel]]")),
        false => Ok(board),
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

type Key<'a> = Spanned<DeString<'a>>;
type Item<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn panel(&self, item: &Item<'_>) -> Result<SavedPanel, String> {
        let DeValue::Table(keys) = item.get_ref() else {
            return Err(self.wrong(item.span(), "panel takes tables: [[panel]]"));
        };
        let mut panel = SavedPanel {
            shows: Shows::Query(String::new()),
            title: String::new(),
            kind: PanelKind::Line,
            is_wide: false,
        };
        let mut shown = 0;
        for (key, value) in keys.iter() {
            match key.get_ref().as_ref() {
                "match" => panel.shows = self.pattern(key, value)?,
                "query" => panel.shows = self.query(key, value)?,
                "title" => panel.title = self.text_of(key, value, TITLE_MAX)?,
                "kind" => panel.kind = self.kind(key, value)?,
                "wide" => panel.is_wide = self.switch(value)?,
                _ => return Err(self.unknown(key, &["match", "query", "title", "kind", "wide"])),
            }
            shown += usize::from(matches!(key.get_ref().as_ref(), "match" | "query"));
        }
        match shown {
            1 => Ok(panel),
            _ => Err(self.wrong(item.span(), "a panel has either match or query")),
        }
    }

    fn pattern(&self, key: &Key<'_>, value: &Item<'_>) -> Result<Shows, String> {
        let text = self.text_of(key, value, EXPRESSION_MAX)?;
        match Pattern::new(&text) {
            Ok(_) => Ok(Shows::Pattern(text)),
            Err(error) => Err(self.wrong(value.span(), &error.to_string())),
        }
    }

    fn query(&self, key: &Key<'_>, value: &Item<'_>) -> Result<Shows, String> {
        let text = self.text_of(key, value, EXPRESSION_MAX)?;
        let Err(error) = khz_promql::check(&text) else { return Ok(Shows::Query(text)) };
        let words = error.to_string();
        // A query of one line has its places behind the quote.
        let problem = match khz_promql::place(&words) {
            Some(((line, column), words)) if line == 1 && self.is_plain(value, &text) => {
                let start = value.span().start + column;
                return Err(self.wrong(start..start, &words));
            }
            Some((_, words)) => words,
            None => words,
        };
        Err(self.wrong(value.span(), &problem))
    }

    /// Whether the file has this text as it is, between two quotes.
    fn is_plain(&self, value: &Item<'_>, text: &str) -> bool {
        let span = value.span();
        self.text.get(span.start + 1..span.end.saturating_sub(1)) == Some(text)
    }

    fn kind(&self, key: &Key<'_>, value: &Item<'_>) -> Result<PanelKind, String> {
        let text = self.text_of(key, value, TITLE_MAX)?;
        let known = PanelKind::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| self.wrong(value.span(), "kind is \"line\", \"stack\" or \"heat\""))
    }

    fn switch(&self, value: &Item<'_>) -> Result<bool, String> {
        match value.get_ref() {
            DeValue::Boolean(on) => Ok(*on),
            _ => Err(self.wrong(value.span(), "wide takes true or false")),
        }
    }

    fn text_of(&self, key: &Key<'_>, value: &Item<'_>, most: usize) -> Result<String, String> {
        let name = key.get_ref();
        match value.get_ref() {
            DeValue::String(text) if text.chars().count() > most => {
                Err(self.wrong(value.span(), &format!("{name} has more than {most} letters")))
            }
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(value.span(), &format!("{name} takes text in quotes"))),
        }
    }

    fn unknown(&self, key: &Key<'_>, known: &[&str]) -> String {
        let name = key.get_ref();
        let hint = suggest::hint(name, known.iter().copied());
        self.wrong(key.span(), &format!("a board has no '{name}'{hint}"))
    }

    /// `FILE:LINE:COLUMN: problem`
    fn wrong(&self, span: Range<usize>, problem: &str) -> String {
        let before = self.text.get(..span.start.min(self.text.len())).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("{}:{line}:{column}: {problem}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<SavedBoard, String> {
        board("disks", text, Path::new("d.toml"))
    }

    #[test]
    fn a_board_has_its_panels_in_the_order_of_the_file() {
        let text = "title = \"Disks\"\n\n[[panel]]\nmatch = \"node[1-3]:disk.read_bytes[*]\"\nkind = \"stack\"\nwide = true\n\n\
                    [[panel]]\ntitle = \"Busy\"\nquery = \"rate(node_disk_io_time_seconds_total[1m])\"\n";
        let board = read_text(text).unwrap();
        assert_eq!((board.name.as_str(), board.title.as_str()), ("disks", "Disks"));
        let expected = [
            SavedPanel {
                shows: Shows::Pattern("node[1-3]:disk.read_bytes[*]".into()),
                title: String::new(),
                kind: PanelKind::Stack,
                is_wide: true,
            },
            SavedPanel {
                shows: Shows::Query("rate(node_disk_io_time_seconds_total[1m])".into()),
                title: "Busy".into(),
                kind: PanelKind::Line,
                is_wide: false,
            },
        ];
        assert_eq!(board.panels, expected);
        assert_eq!(read_text("[[panel]]\nmatch = \"load.*\"").unwrap().title, "disks", "without a title");
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_and_column() {
        for (text, expected) in [
            ("title = \n", "d.toml:1:"),
            ("titel = \"a\"\n", "d.toml:1:1: a board has no 'titel' (did you mean 'title'?)"),
            ("title = 7\n", "d.toml:1:9: title takes text in quotes"),
            ("title = \"a\"\n", "d.toml:1:1: a board has at least one panel: [[panel]]"),
            ("panel = 1\n", "d.toml:1:9: panel takes tables: [[panel]]"),
            (
                "[[panel]]\nkind = \"pie\"\nmatch = \"a.b\"\n",
                "d.toml:2:8: kind is \"line\", \"stack\" or \"heat\"",
            ),
            ("[[panel]]\nwide = 1\n", "d.toml:2:8: wide takes true or false"),
            ("[[panel]]\ncolour = \"red\"\n", "d.toml:2:1: a board has no 'colour'"),
            ("[[panel]]\ntitle = \"a\"\n", "d.toml:1:1: a panel has either match or query"),
            ("[[panel]]\nmatch = \"a.b\"\nquery = \"up\"\n", "d.toml:1:1: a panel has either match or query"),
            ("[[panel]]\nmatch = \"Net.rx[\"\n", "d.toml:2:9: "),
            ("[[panel]]\nquery = \"rate(up\"\n", "d.toml:2:"),
        ] {
            let problem = read_text(text).unwrap_err();
            assert!(problem.starts_with(expected), "{text:?}: {problem}");
        }
    }

    #[test]
    fn a_wrong_query_is_named_at_its_own_place() {
        let problem = read_text("[[panel]]\nquery = \"sum(up) + + )\"\n").unwrap_err();
        let column: usize = problem.split(':').nth(2).unwrap().parse().unwrap();
        assert!(problem.starts_with("d.toml:2:") && column > 10, "{problem}");
    }

    #[test]
    fn everything_has_a_limit() {
        let panel = "[[panel]]\nmatch = \"load.1m\"\n";
        assert_eq!(read_text(&panel.repeat(PANELS_MAX)).unwrap().panels.len(), PANELS_MAX);
        assert!(read_text(&panel.repeat(PANELS_MAX + 1)).unwrap_err().contains("at most 24 panels"));
        let long = |letters| format!("title = \"{}\"\n{panel}", "ä".repeat(letters));
        assert!(read_text(&long(TITLE_MAX)).is_ok());
        assert!(read_text(&long(TITLE_MAX + 1)).unwrap_err().contains("more than 80 letters"));
        let query = format!("[[panel]]\nquery = \"{}\"\n", "1+".repeat(EXPRESSION_MAX));
        assert!(read_text(&query).unwrap_err().contains("more than 2000 letters"));
    }

    /// An empty folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("khz-boards-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_broken_file_keeps_the_others_going() {
        let Folder(folder) = &Folder::new("broken");
        let write = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text).unwrap();
        write("b.toml", b"[[panel]]\nmatch = \"load.1m\"\n");
        write("a.toml", b"title = \"A\"\n[[panel]]\nquery = \"up\"\n");
        write("broken.toml", b"title = \n");
        write("large.toml", &vec![b'#'; BOARD_BYTES_MAX as usize + 1]);
        write("latin.toml", b"title = \"\xe4\"\n");
        write("a b.toml", b"[[panel]]\nmatch = \"load.1m\"\n");
        write("notes.txt", b"no board");
        std::fs::create_dir(folder.join("folder.toml")).unwrap();
        let SavedBoards { folder: shown, boards, problems } = read(Some(folder));
        assert_eq!(shown.as_deref(), folder.to_str());
        let names: Vec<&str> = boards.iter().map(|board| board.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        for (file, words) in [
            ("a b.toml", "its name may have"),
            ("broken.toml:1:", "not TOML"),
            ("folder.toml", "is no file"),
            ("large.toml", "more than the 65536 bytes"),
            ("latin.toml", "is not UTF-8"),
        ] {
            let said = problems.iter().any(|problem| problem.contains(file) && problem.contains(words));
            assert!(said, "{file}: {problems:?}");
        }
        assert_eq!(problems.len(), 5);
    }

    #[test]
    fn a_folder_that_a_setting_names_must_exist() {
        let Folder(folder) = &Folder::new("missing");
        let boards = read(Some(&folder.join("none")));
        assert!(boards.boards.is_empty());
        assert!(boards.problems[0].contains("the boards cannot be read"), "{:?}", boards.problems);
    }

    #[test]
    fn more_boards_than_a_page_lists_are_named() {
        let Folder(folder) = &Folder::new("many");
        for n in 0..=BOARDS_MAX {
            let text = "[[panel]]\nmatch = \"load.1m\"\n";
            std::fs::write(folder.join(format!("b{n:03}.toml")), text).unwrap();
        }
        let boards = read(Some(folder));
        assert_eq!(boards.boards.len(), BOARDS_MAX);
        assert!(boards.problems[0].ends_with("there are more than 64 boards"), "{:?}", boards.problems);
    }

    #[test]
    fn the_shipped_boards_are_boards() {
        let boards = read(Some(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/boards"))));
        assert_eq!(boards.problems, Vec::<String>::new());
        let names: Vec<&str> = boards.boards.iter().map(|board| board.name.as_str()).collect();
        assert_eq!(names, ["disks", "nodes"]);
    }
}
