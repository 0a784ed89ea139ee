//! axe-core, which finds what screen readers and weak eyes stumble over. It is no part of the repository: npm fetches it into the folder of
//! what is built, once. Without npm there is none, and its tests are skipped.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::page::Page;
use crate::target_dir;

/// Another version may find other things.
const VERSION: &str = "4.14.1";

/// What counts: the rules of WCAG 2.2 up to AA, and good practice.
const TAGS: &str = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']";

/// The handle of the overview may be narrow: buttons and keys do the same, which is an exception of WCAG 2.5.8 that axe-core cannot
/// see.
const ALLOWED: &str = "(id, element) => id === 'target-size' && element.closest('.strip') !== null";

/// axe-core.
pub struct Axe {
    script: String,
}

impl Axe {
    /// Fetches it, unless it is there. The error says what is missing.
    pub fn fetch() -> Result<Self, String> {
        let folder = target_dir().join(format!("axe-core-{VERSION}"));
        let script = folder.join("node_modules/axe-core/axe.min.js");
        if !script.is_file() {
            install(&folder)?;
        }
        let script =
            std::fs::read_to_string(&script).map_err(|error| format!("{}: {error}", script.display()))?;
        Ok(Axe { script })
    }

    /// What it finds on the page as it is: a line for each element.
    pub async fn findings(&self, page: &Page<'_>) -> Vec<String> {
        page.browser.client.execute(&self.script, vec![]).await.expect("axe-core runs");
        let found = page
            .eval(&format!(
                "axe.run(document, {{ runOnly: {{ type: 'tag', values: {TAGS} }}, resultTypes: ['violations'] }}).then(({{ violations }}) => \
                 violations.flatMap(({{ id, help, nodes }}) => nodes.filter(({{ target }}) => !({ALLOWED})(id, document.querySelector(target.at(-1)))).map(({{ target, failureSummary }}) => `${{id}}: ${{help}}: ${{target.join(' ')}}: ${{failureSummary}}`)))"
            ))
            .await;
        match found {
            Value::Array(lines) => {
                lines.iter().map(|line| line.as_str().unwrap_or_default().replace('\n', " ")).collect()
            }
            other => panic!("axe-core answers {other}"),
        }
    }
}

fn install(folder: &PathBuf) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let package = format!("axe-core@{VERSION}");
    let run = Command::new("npm")
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(folder)
        .arg(&package)
        .output()
        .map_err(|error| format!("npm cannot be started: {error}"))?;
    match run.status.success() {
        true => Ok(()),
        false => Err(format!("npm cannot fetch {package}: {}", String::from_utf8_lossy(&run.stderr))),
    }
}
