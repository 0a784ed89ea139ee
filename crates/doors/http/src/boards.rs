//! `/khz/v1/boards`: the boards that somebody has put into files on this machine: pages of panels, by name. The page lists and shows
//! them. It reads no file, and nobody can change a board here.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::json;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Path of the boards.
pub(crate) const BOARDS_PATH: &str = "/khz/v1/boards";

/// All boards, as they were read when the program started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedBoards {
    /// The folder that they are in; `None`: boards are not looked for.
    pub folder: Option<String>,
    /// The boards, in the order of their names.
    pub boards: Vec<SavedBoard>,
    /// What is wrong with files that cannot be shown, a sentence each, with file, line and column.
    pub problems: Vec<String>,
}

/// A page of panels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedBoard {
    /// As addresses call it: the name of its file without `.toml`.
    pub name: String,
    /// As people call it.
    pub title: String,
    /// Its panels, in their order.
    pub panels: Vec<SavedPanel>,
}

/// One panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPanel {
    /// What is shown.
    pub shows: Shows,
    /// As people call it; empty: as what it shows.
    pub title: String,
    /// How it is drawn.
    pub kind: PanelKind,
    /// Whether it is as wide as the page.
    pub is_wide: bool,
}

/// What a panel shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The series of a pattern.
    Pattern(String),
    /// A query in PromQL.
    Query(String),
}

/// How a panel is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelKind {
    /// A line for each series.
    #[default]
    Line,
    /// Areas on top of one another.
    Stack,
    /// A row of colours for each series.
    Heat,
}

impl PanelKind {
    /// All kinds.
    pub const ALL: [PanelKind; 3] = [PanelKind::Line, PanelKind::Stack, PanelKind::Heat];

    /// As files and answers call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PanelKind::Line => "line",
            PanelKind::Stack => "stack",
            PanelKind::Heat => "heat",
        }
    }
}

/// `GET /khz/v1/boards`
pub(crate) async fn boards(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let saved = Arc::clone(&app.boards);
    pages::json(&app, async move |writer| write(writer, &saved).await).await
}

async fn write(mut writer: Writer, saved: &SavedBoards) -> Result<Writer, Refusal> {
    writer.page().push_str("{\"folder\":");
    json::text_or_null(writer.page(), saved.folder.as_deref());
    writer.page().push_str(",\"boards\":[");
    for (number, board) in saved.boards.iter().enumerate() {
        json::next(writer.page(), number);
        write_board(writer.page(), board);
        writer.turn().await?;
    }
    writer.page().push_str("],\"problems\":[");
    for (number, problem) in saved.problems.iter().enumerate() {
        json::next(writer.page(), number);
        member(writer.page(), "{", "text", problem, "}");
        writer.turn().await?;
    }
    writer.page().push_str("]}\n");
    Ok(writer)
}

fn write_board(out: &mut String, board: &SavedBoard) {
    member(out, "{", "name", &board.name, ",");
    member(out, "", "title", &board.title, ",\"panels\":");
    json::list(out, &board.panels, write_panel);
    out.push('}');
}

fn write_panel(out: &mut String, panel: &SavedPanel) {
    match &panel.shows {
        Shows::Pattern(pattern) => member(out, "{", "match", pattern, ","),
        Shows::Query(query) => member(out, "{", "query", query, ","),
    }
    member(out, "", "title", &panel.title, ",");
    member(out, "", "kind", panel.kind.as_str(), ",\"wide\":");
    out.push_str(if panel.is_wide { "true}" } else { "false}" });
}

fn member(out: &mut String, before: &str, name: &str, value: &str, after: &str) {
    out.push_str(before);
    json::text(out, name);
    out.push(':');
    json::text(out, value);
    out.push_str(after);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_has_a_pattern_or_a_query_and_text_is_quoted() {
        let panel = |shows, kind, is_wide| SavedPanel { shows, title: "a \"b\"".into(), kind, is_wide };
        let panels = vec![
            panel(Shows::Pattern("net.rx_bytes[eth0]".into()), PanelKind::Line, false),
            panel(Shows::Query("up == 0".into()), PanelKind::Heat, true),
        ];
        let mut out = String::new();
        write_board(&mut out, &SavedBoard { name: "n".into(), title: "T".into(), panels });
        let expected = r#"{"name":"n","title":"T","panels":[{"match":"net.rx_bytes[eth0]","title":"a \"b\"","kind":"line","wide":false},{"query":"up == 0","title":"a \"b\"","kind":"heat","wide":true}]}"#;
        assert_eq!(out, expected);
    }
}
