//! Recent rows of some nodes, which a khz has in its memory: `/khz/v1/history`. They become the pieces that a stream would bring.

use khz_model::http_names::HISTORY_PATH;
use khz_model::{Nanos, Pattern};
use serde::Deserialize;

use crate::piece::{ColumnJson, RowJson};
use crate::server::matches;
use crate::{AskError, Column, Piece, Row, Server};

#[derive(Deserialize)]
struct HistoryJson {
    nodes: Vec<NodeJson>,
}

#[derive(Deserialize)]
struct NodeJson {
    node: String,
    columns: Vec<ColumnJson>,
    rows: Vec<RowJson>,
}

impl Server {
    /// The rows of the last `span`, node by node: of each its columns and its rows, oldest first, `rows` of them at most.
    pub fn history(&self, patterns: &[Pattern], span: Nanos, rows: usize) -> Result<Vec<Piece>, AskError> {
        let url = format!("{HISTORY_PATH}?{}&span={span}&rows={rows}", matches(patterns));
        let history: HistoryJson = self.get_json(&url)?;
        let pieces = |of: NodeJson| {
            let columns: Vec<Column> = of.columns.into_iter().map(Column::from).collect();
            let rows: Vec<Row> = of.rows.into_iter().map(Row::from).collect();
            let node = of.node;
            [
                Piece::Columns { node: node.clone(), rate: String::new(), columns },
                Piece::Rows { node, lost: 0, rows, last: None },
            ]
        };
        Ok(history.nodes.into_iter().flat_map(pieces).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_nodes_with_columns_and_rows() {
        let text = r#"{"nodes":[{"node":"n1","columns":[{"name":"load.1m","instance":null,"kind":"gauge","unit":"count","places":2}],"rows":[{"t":"7.5","b":"3","v":["0.52"]}]}],"misses":{"nodes":[],"patterns":[]}}"#;
        let history: HistoryJson = serde_json::from_str(text).unwrap();
        let node = &history.nodes[0];
        assert_eq!((node.node.as_str(), node.columns.len(), node.rows.len()), ("n1", 1, 1));
    }
}
