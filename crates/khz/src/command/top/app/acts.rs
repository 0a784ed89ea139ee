//! The changes made by keys, clicks and typed lines.

use super::{App, Origin, Then, ZOOMS};
use crate::command::top::keys::Action;
use crate::command::top::prompt::{Kind, Prompt};

impl App {
    /// A click on a line of the list chooses it; one on the chosen line opens it.
    pub fn click(&mut self, line: usize) {
        let lines = self.list.lines(self.shown());
        if self.list.place(&lines) == line {
            self.open();
        } else {
            self.list.choose_line(line);
        }
    }

    /// A click on the heading of a column sorts by it, or turns the order.
    pub fn sort_by(&mut self, column: usize) {
        if self.list.sorted == column {
            self.list.reverse = !self.list.reverse;
        } else {
            (self.list.sorted, self.list.reverse) = (column, false);
        }
    }

    /// Does what a key says.
    pub fn act(&mut self, action: Action) -> Then {
        if self.help && !matches!(action, Action::Quit | Action::Redraw | Action::Suspend) {
            self.help = false;
            return Then::Go;
        }
        match action {
            Action::Quit => return Then::Quit,
            Action::Suspend => return Then::Suspend,
            Action::Redraw => return Then::Redraw,
            Action::Help => self.help = true,
            Action::Back => self.back(),
            Action::Open => self.open(),
            Action::Search => self.prompt = Some(Prompt::new(Kind::Search)),
            Action::Time => self.prompt = Some(Prompt::new(Kind::Time)),
            Action::Rate(rate) => self.set_rate(rate),
            Action::Step(direction) => self.step(direction),
            Action::Minute(direction) => self.minute(direction),
            Action::Pause if self.past.is_some() => self.live(),
            Action::Pause => {
                if let Some(at) = self.moment() {
                    self.show_past(at, None);
                }
            }
            Action::Live => self.live(),
            Action::Move(by) => self.choose(isize::from(by)),
            Action::Page(by) => self.choose(isize::from(by) * self.page.max(1) as isize),
            Action::End(by) => self.choose(isize::from(by) * isize::MAX / 2),
            Action::Waterfall => self.waterfall = !self.waterfall,
            Action::Tiles => self.list.tiles = !self.list.tiles,
            Action::Sort(by) if self.focus.is_none() => self.list.sort(by),
            Action::Sort(by) => self.processes.sort(by),
            Action::Reverse if self.focus.is_none() => self.list.reverse = !self.list.reverse,
            Action::Reverse => self.processes.reverse = !self.processes.reverse,
            Action::OnlyOdd => self.list.only_odd = !self.list.only_odd,
            Action::Zoom(by) => self.set_zoom(by),
        }
        Then::Go
    }

    fn back(&mut self) {
        let searches = match self.focus {
            Some(_) => &mut self.processes.search,
            None => &mut self.list.search,
        };
        if !searches.is_empty() {
            searches.clear();
        } else if self.waterfall {
            self.waterfall = false;
        } else if (self.past.is_some() || self.question.is_some()) && self.origin != Origin::Recording {
            self.live();
        } else if self.focus.is_some() && self.has_list {
            self.focus_on(None);
        }
    }

    fn open(&mut self) {
        if self.focus.is_none()
            && let Some(node) = self.list.chosen(self.shown())
        {
            self.waterfall = false;
            self.focus_on(Some(node));
        }
    }

    fn set_rate(&mut self, rate: u16) {
        if self.focus.is_none() {
            return self.say("a list comes once a second; open a node to see more");
        }
        if self.origin == Origin::Recording {
            return self.say("a recording has the rate at which it was made");
        }
        self.past = None;
        if rate == self.rate {
            // Its rows are coming.
            return;
        }
        self.rate = rate;
        self.begin_at_other_rate();
    }

    fn set_zoom(&mut self, by: i8) {
        let zoom = self.zoom.saturating_add_signed(by.into()).min(ZOOMS.len() - 1);
        if zoom == self.zoom {
            return;
        }
        self.zoom = zoom;
        self.draw_live_again();
        if let Some(at) = self.past.as_ref().map(|past| past.at) {
            self.show_past(at, None);
        }
        let step = self.keep(self.loaded()).step;
        self.say(format!("a column of a chart is {}", crate::show::quantities::of_span(step.as_secs_f64())));
    }

    fn choose(&mut self, by: isize) {
        match self.focus {
            None => {
                let count = self.list.lines(self.shown()).len();
                self.list.choose(by, count);
            }
            Some(_) => self.processes.choose(by),
        }
    }

    /// A character of a line that is typed. `Err`: the text of a time. The caller knows the time zone and reads it.
    pub fn typed(&mut self, c: char) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.put(c);
        self.search();
    }

    /// Puts a pasted text into the typed line, up to its first end of line. Its letters do not act as keys.
    pub fn pasted(&mut self, text: &str) {
        if self.prompt.is_none() {
            return self.say("pasted text is left out: press / or t first");
        }
        let line = text.trim_start().lines().next().unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).for_each(|c| self.typed(c));
    }

    /// Removes the last character, or closes an empty line.
    pub fn erased(&mut self) {
        if self.prompt.as_mut().is_some_and(|prompt| !prompt.erase()) {
            self.prompt = None;
        }
        self.search();
    }

    /// A search shows at once what it finds.
    fn search(&mut self) {
        let Some(Prompt { kind: Kind::Search, text }) = &self.prompt else { return };
        let text = text.to_lowercase();
        match self.focus {
            Some(_) => self.processes.search = text,
            None => self.list.search = text,
        }
    }

    /// The line is whole; the text of a time is returned.
    pub fn entered(&mut self) -> Option<String> {
        let prompt = self.prompt.take()?;
        (prompt.kind == Kind::Time && !prompt.text.trim().is_empty()).then_some(prompt.text)
    }
}
