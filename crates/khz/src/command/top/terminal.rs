//! The terminal in full-screen use: raw mode, the other screen, the mouse. However the program ends or stops, the terminal is
//! restored.

use std::io::{self, Stdout, Write};
use std::sync::Once;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};

use super::app::App;
use super::draw::draw;

/// The terminal, filled.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Gives the terminal back. If the terminal is gone, errors do not matter.
fn restore() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, Hide)
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it prints its sentence.
    pub fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let taken = take();
        let screen = taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match screen {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws the state, as far as it differs from what is there.
    pub fn draw(&mut self, app: &App) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw(app, frame.buffer_mut(), area);
        })?;
        Ok(())
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.terminal.size().unwrap_or(Size::new(80, 24))
    }

    /// Takes the terminal again, and draws everything at the next time.
    pub fn take_again(&mut self) -> io::Result<()> {
        take()?;
        // Do not use `clear`: it asks the terminal for the cursor's place, and the thread that reads keys would get the answer.
        let Size { width, height } = self.size();
        self.terminal.resize(Rect::new(0, 0, width, height))
    }

    /// Gives the terminal back, until it is taken again.
    pub fn give_back(&self) {
        restore();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}
