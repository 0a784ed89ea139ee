//! The keys of `khz top`: one table, the source of `?`, `--help`, the man page and docs/top.md.

use ratatui::crossterm::event::KeyCode;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the program.
    Quit,
    /// Back: out of the help, the past, the search, a node.
    Back,
    /// Opens the chosen node.
    Open,
    /// Shows the keys.
    Help,
    /// Searches for nodes or processes.
    Search,
    /// Samples at this rate.
    Rate(u16),
    /// Steps through rows of the past.
    Step(i8),
    /// Steps through the past by a minute.
    Minute(i8),
    /// Asks for a time.
    Time,
    /// Stops the picture, or follows the present again.
    Pause,
    /// Follows the present.
    Live,
    /// Moves the choice by lines.
    Move(i8),
    /// Moves the choice by pages.
    Page(i8),
    /// To the first or the last line.
    End(i8),
    /// Shows all curves as a waterfall.
    Waterfall,
    /// Shows the cluster as tiles.
    Tiles,
    /// Sorts by another column.
    Sort(i8),
    /// Sorts the other way.
    Reverse,
    /// Only nodes that are down or odd.
    OnlyOdd,
    /// A column of the charts is shorter or longer.
    Zoom(i8),
    /// Draws everything again.
    Redraw,
    /// Stops the program until `fg`.
    Suspend,
}

/// A line of the table.
pub struct Binding {
    /// The keys.
    pub keys: &'static [KeyCode],
    /// As people write them.
    pub shown: &'static str,
    /// What they do.
    pub help: &'static str,
    /// What each of them does.
    pub actions: &'static [Action],
}

const fn binding(
    keys: &'static [KeyCode],
    shown: &'static str,
    help: &'static str,
    actions: &'static [Action],
) -> Binding {
    Binding { keys, shown, help, actions }
}

/// All keys. Ctrl-C, Ctrl-L and Ctrl-Z are added in [`control`].
pub const KEYS: [Binding; 19] = {
    use Action as A;
    use KeyCode as K;
    [
        binding(&[K::Char('?'), K::Char('h'), K::F(1)], "? h", "these keys", &[A::Help]),
        binding(
            &[K::Char('q'), K::F(10)],
            "q",
            "quit (also Ctrl-C); Ctrl-Z stops it, Ctrl-L draws it again",
            &[A::Quit],
        ),
        binding(&[K::Esc, K::Backspace], "Esc", "back: to the present, to the list", &[A::Back]),
        binding(&[K::Enter], "Enter", "open the chosen node", &[A::Open]),
        binding(
            &[K::Up, K::Down, K::Char('k'), K::Char('j')],
            "Up Down k j",
            "choose a line",
            &[A::Move(-1), A::Move(1), A::Move(-1), A::Move(1)],
        ),
        binding(
            &[K::PageUp, K::PageDown],
            "PgUp PgDn",
            "choose a line, a page further",
            &[A::Page(-1), A::Page(1)],
        ),
        binding(&[K::Home, K::End], "Home End", "the first line, the last line", &[A::End(-1), A::End(1)]),
        binding(&[K::Char('/')], "/", "search: nodes of the list, processes of a node", &[A::Search]),
        binding(
            &[K::Char('1'), K::Char('2'), K::Char('3'), K::Char('4')],
            "1 2 3 4",
            "sample at 1, 10, 100, 1,000 Hz (of a node)",
            &[A::Rate(1), A::Rate(10), A::Rate(100), A::Rate(1_000)],
        ),
        binding(
            &[K::Char('b'), K::Char('f'), K::Left, K::Right],
            "b f Left Right",
            "one row back, one row forward",
            &[A::Step(-1), A::Step(1), A::Step(-1), A::Step(1)],
        ),
        binding(
            &[K::Char('B'), K::Char('F')],
            "B F",
            "a minute back, a minute forward",
            &[A::Minute(-1), A::Minute(1)],
        ),
        binding(
            &[K::Char('t'), K::Char(':')],
            "t :",
            "go to a time: 14:03, -10m, 2026-11-30 14:03:20",
            &[A::Time],
        ),
        binding(&[K::Char(' ')], "Space", "stop the picture; follow the present", &[A::Pause]),
        binding(&[K::Char('l')], "l", "follow the present", &[A::Live]),
        binding(
            &[K::Char('s'), K::Char('S'), K::Char('r')],
            "s S r",
            "sort by the next column, the one before, turned",
            &[A::Sort(1), A::Sort(-1), A::Reverse],
        ),
        binding(&[K::Char('w')], "w", "waterfall: every node or processor over time", &[A::Waterfall]),
        binding(&[K::Char('v')], "v", "view the cluster as tiles, as a list", &[A::Tiles]),
        binding(&[K::Char('o')], "o", "only nodes that are down or odd", &[A::OnlyOdd]),
        binding(
            &[K::Char('+'), K::Char('-')],
            "+ -",
            "charts over a shorter time, over a longer time",
            &[A::Zoom(-1), A::Zoom(1)],
        ),
    ]
};

/// What a key does.
pub fn action(code: KeyCode) -> Option<Action> {
    let bound = |binding: &Binding| {
        let at = binding.keys.iter().position(|key| *key == code)?;
        binding.actions.get(at).or(binding.actions.last()).copied()
    };
    // Several keys may have the same action.
    KEYS.iter().find_map(bound)
}

/// What a key does together with Ctrl.
pub fn control(letter: char) -> Option<Action> {
    match letter {
        'c' => Some(Action::Quit),
        'l' => Some(Action::Redraw),
        'z' => Some(Action::Suspend),
        _ => None,
    }
}

/// What the mouse does.
pub const MOUSE: &str = "Mouse: the wheel and a click choose a line, a second click opens it. A click on\n\
                         the heading sorts. Hold Shift to select text.";

/// The keys, a line each, and the mouse.
pub fn lines() -> String {
    let lines = KEYS.iter().map(|binding| format!("  {:<16}{}\n", binding.shown, binding.help));
    format!("{}{MOUSE}", lines.collect::<String>())
}

/// The same for `--help` and the man page.
pub fn text() -> String {
    format!("Keys:\n{}", lines())
}

/// The same as a table of Markdown, for docs/top.md.
#[cfg(test)]
pub fn markdown() -> String {
    let keys = |binding: &Binding| {
        binding.shown.split(' ').map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" ")
    };
    let row = |binding: &Binding| format!("| {} | {} |\n", keys(binding), binding.help);
    format!("| key | what it does |\n|---|---|\n{}", KEYS.iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_does_one_thing_and_every_line_fits_a_terminal() {
        let mut seen = Vec::new();
        for binding in &KEYS {
            for key in binding.keys {
                assert!(!seen.contains(key), "{key:?} stands twice");
                assert!(action(*key).is_some());
                seen.push(*key);
            }
            assert!(binding.actions.len() == 1 || binding.actions.len() == binding.keys.len());
        }
        for line in text().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(action(KeyCode::Char('3')), Some(Action::Rate(100)));
        assert_eq!(action(KeyCode::Char('h')), Some(Action::Help));
        assert_eq!((action(KeyCode::Char('x')), control('z')), (None, Some(Action::Suspend)));
    }

    #[test]
    fn the_page_has_the_table_of_the_code() {
        let page = include_str!("../../../../../docs/top.md");
        assert!(page.contains(&markdown()), "docs/top.md needs this table:\n{}", markdown());
    }
}
