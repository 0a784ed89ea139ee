//! The size of the terminal that stdout or stderr goes to, if it is one.

use std::io::IsTerminal;

/// Columns and lines of the terminal that stdout goes to; `None` when it is a file or a pipe.
pub fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Some((size.ws_col.into(), size.ws_row.into())),
        // A terminal that does not know its size counts as 80 by 24.
        _ => Some((80, 24)),
    }
}

/// Columns of the terminal that stderr goes to.
pub fn stderr_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Columns of the terminal that stdout goes to.
pub fn width() -> Option<usize> {
    size().map(|(columns, _)| columns)
}
