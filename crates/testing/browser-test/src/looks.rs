//! A view at several sizes and in both themes: opened, checked, and kept as a picture that people look at. It does not know what is
//! to be checked on a view, except that it fits the screen and that the console is silent.

use serde_json::json;

use crate::browser::{Browser, Theme};
use crate::page::Page;
use crate::run::assert_clean_console;
use crate::target_dir;

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// CSS pixels.
    pub width: u32,
    /// CSS pixels.
    pub height: u32,
    /// The theme that the system prefers.
    pub theme: Theme,
}

/// A look, for short.
pub const fn look(width: u32, height: u32, theme: Theme) -> Look {
    Look { width, height, theme }
}

/// A desk and a phone, each light and dark.
pub const DESK_AND_PHONE: [Look; 4] = [
    look(1280, 900, Theme::Light),
    look(390, 844, Theme::Dark),
    look(1280, 900, Theme::Dark),
    look(390, 844, Theme::Light),
];

/// The smallest screen, a usual one, and a very wide one.
pub const ALL_SIZES: [Look; 6] = [
    look(1280, 900, Theme::Light),
    look(320, 640, Theme::Dark),
    look(2560, 1300, Theme::Light),
    look(1280, 900, Theme::Dark),
    look(320, 640, Theme::Light),
    look(2560, 1300, Theme::Dark),
];

impl Look {
    /// "1280-light", for the name of a picture.
    pub fn name(self) -> String {
        format!("{}-{}", self.width, self.theme.as_str())
    }
}

/// At each look: `open` opens the view and checks it. Then it has to fit the screen, and its picture is kept as
/// `screenshots/NAME-WIDTH-THEME.png`.
pub async fn at_each_look<'b>(
    browser: &'b Browser,
    name: &str,
    looks: &[Look],
    open: impl AsyncFn(Look) -> Page<'b>,
) {
    for &look in looks {
        browser.look(look.width, look.height, look.theme).await;
        let page = open(look).await;
        page.assert_fits().await;
        page.picture(&format!("{name}-{}", look.name())).await;
        assert_clean_console(browser).await;
    }
}

impl Page<'_> {
    /// Nothing lies outside the screen. What scrolls within its own box may be wider.
    pub async fn assert_fits(&self) {
        const OUTSIDE: &str = "(() => { \
            const wide = document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} pixels wide`] : []; \
            const scrolls = (e) => { for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) \
                if (getComputedStyle(p).overflowX !== 'visible') return true; return false; }; \
            const outside = [...document.querySelectorAll('main *, .top *, .controls *')].filter((e) => { \
                if (!(e.offsetWidth > 1)) return false; \
                const { left, right } = e.getBoundingClientRect(); \
                return (right > innerWidth + 0.5 || left < -0.5) && !scrolls(e); }); \
            return [...wide, ...outside.slice(0, 5).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)]; })()";
        let width = self.eval("innerWidth").await;
        assert_eq!(self.eval(OUTSIDE).await, json!([]), "outside of a screen {width} pixels wide");
    }

    /// Keeps what is seen as `screenshots/NAME.png`.
    pub async fn picture(&self, name: &str) {
        self.screenshot(&target_dir().join(format!("screenshots/{name}.png"))).await;
    }
}
