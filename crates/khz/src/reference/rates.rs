//! docs/rates.md, from what each source says of itself.

use khz_model::{Nanos, Refresh};
use khz_parse::{KernelFile, Pieces, Subject};

use super::{code, table};

const TOP: &str = "# How often each source is read

<!-- Made by `cargo xtask reference` from the sources. -->

For users who want to know how often khz reads each source while nobody asks for more. A *source* is one thing that khz reads, such as a file of the kernel ([sources.md](sources.md)).

- Once a second, a node makes a row of all sources (its *base lane*, `base_rate`), and sends the row to the hub.
- Ten times a second, a node makes a row of the sources that change faster (its *local lane*, `local_rate`). These rows stay in the node's memory.
- khz reads no source more often than the kernel updates it. There are two exceptions: `rate` of `[sources.NAME]`, and `exact` of a channel or a stream.
- A reader may ask for another rate, up to `rate_max`: `khz watch cpu.all.user --rate 1000`.
- `[sources.NAME]` in the configuration gives a source its own rate or budget, or switches it off ([configuration.md](configuration.md)).
- If a source costs more than its budget, khz reads it less often, and the log says so. The budget is 5 % of a core for a file, 1 % for a survey, 0.3 % for processes. `khz check` says what each source costs on this machine.

";

/// The period of the local lane.
const LOCAL: Nanos = Nanos::from_millis(100);

/// The page.
pub fn page() -> String {
    let row = |file: &&'static KernelFile| [code(file.name), code(&place(file)), rate(file), reason(file)];
    let rows = khz_parse::files().iter().map(row);
    format!("{TOP}{}", table(["source", "of", "read", "why"], rows))
}

fn period(file: &KernelFile) -> Nanos {
    file.refresh(|_| true).and_then(Refresh::period).unwrap_or(Nanos(0))
}

fn rate(file: &KernelFile) -> String {
    let lane = if file.only_base { Nanos::SECOND } else { LOCAL };
    match file.rest() {
        Some(Refresh::Constant) => "once".to_owned(),
        _ => format!("every {}", lane.max(period(file))),
    }
}

fn reason(file: &KernelFile) -> String {
    let period = period(file);
    let subject = match file.pieces {
        Pieces::Survey { subject, .. } => Some(subject),
        _ => None,
    };
    match subject {
        _ if file.rest().is_some() => "it describes the node, and seldom changes".to_owned(),
        Some(Subject::ControlGroups | Subject::Processes) => {
            "many files: as often as the base lane, within its budget".to_owned()
        }
        Some(Subject::Clock) => "the kernel's own view of the clock changes slowly".to_owned(),
        Some(Subject::Logins) => "users come and go slowly, and each session may be a file".to_owned(),
        Some(Subject::TextFiles) => "programs write such files once a minute at most".to_owned(),
        Some(_) => {
            "a file server or a driver may not answer, so a thread of its own reads it; it changes slowly"
                .to_owned()
        }
        None if period > Nanos::SECOND => "it seldom changes, or it is a long text".to_owned(),
        None if file.only_base => {
            "few people look at it, and reading all such files takes longer than the classic ones".to_owned()
        }
        None if period > Nanos(0) => format!("cheap, and the kernel updates it every {period}"),
        None => match slowest(file) {
            Some(slowest) => {
                format!("cheap, and a part of it changes at any time (the rest every {slowest})")
            }
            None => "cheap, and it changes at any time".to_owned(),
        },
    }
}

/// The longest time after which the kernel updates a part of it; `None`: no part waits for longer than khz does.
fn slowest(file: &KernelFile) -> Option<Nanos> {
    let metrics = file.metrics();
    let changing = metrics.iter().filter(|metric| metric.refresh != Refresh::Constant);
    changing.filter_map(|metric| metric.refresh.period()).max().filter(|period| *period > LOCAL)
}

/// Its path; of a system call, its name.
fn place(file: &KernelFile) -> String {
    if file.path.ends_with(')') { file.path.to_owned() } else { format!("/{}", file.path) }
}
