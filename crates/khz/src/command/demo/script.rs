//! What happens in a demo, and when: the faults of the simulated nodes, and for each a stop of the tour that says what to click and what
//! to type. Everything is a function of the flags. It prints nothing.

use std::time::Duration;

use khz_http::Stop;
use khz_model::{Nanos, Pattern};
use khz_simulate::{Fault, FaultEnd, FaultKind, Faults, Job};

use super::cast::Cast;

/// The recordings that the nodes play; their numbers follow.
pub const WORKLOADS: [&str; 3] = ["idle", "compile", "netcopy"];
const IDLE: usize = 0;
const COMPILE: usize = 1;
const NETCOPY: usize = 2;

/// A row of the job comes at least this often.
const JOB_PERIOD: Nanos = Nanos::from_millis(100);

/// When the script's parts begin and how long they last (s).
const SLOWS: (u64, u64) = (20, 3_600);
const LEAKS: (u64, u64) = (45, 60);
const STORMS: (u64, u64) = (75, 75);
const AILS: (u64, u64) = (80, 20);
/// For how long the dead node stays away.
const AWAY: u64 = 90;
/// When the tour is over.
const CURTAIN: u64 = 210;

/// A script.
pub struct Script {
    /// What is wrong with which nodes.
    pub faults: Faults,
    /// Who does the same work.
    pub jobs: Vec<Job>,
    /// What there is to see.
    pub stops: Vec<Stop>,
}

impl Script {
    /// The script for these nodes. Rows come once in `period`; with a speed of 2 everything happens in half the time.
    pub fn new(cast: &Cast, period: Nanos, speed: f64) -> Self {
        let tempo = Tempo(speed);
        Script { faults: faults(cast, tempo), jobs: jobs(cast, period), stops: stops(cast, tempo) }
    }
}

/// How much faster than usual everything happens.
#[derive(Clone, Copy)]
struct Tempo(f64);

impl Tempo {
    fn nanos(self, seconds: u64) -> Nanos {
        Nanos((seconds as f64 * 1e9 / self.0).round() as u64)
    }

    fn time(self, seconds: u64) -> Duration {
        Duration::from_nanos(self.nanos(seconds).0)
    }
}

fn jobs(cast: &Cast, period: Nanos) -> Vec<Job> {
    let job = |numbers, workload, period| Job { nodes: of_nodes(&cast.names(numbers)), workload, period };
    vec![
        job(&cast.job, COMPILE, period.min(JOB_PERIOD)),
        job(&cast.writers, NETCOPY, period),
        job(&cast.free, IDLE, period),
    ]
}

fn of_nodes(names: &str) -> Pattern {
    Pattern::new(&format!("{names}:*")).expect("BUG: the names of the demo are a pattern")
}

fn faults(cast: &Cast, tempo: Tempo) -> Faults {
    let fault = |kind, names: &str, (begin, lasts), strength, end| Fault {
        kind,
        nodes: of_nodes(names),
        begin: tempo.nanos(begin),
        lasts: tempo.nanos(lasts),
        strength,
        end,
    };
    let back = FaultEnd::Down(Some(tempo.nanos(AWAY)));
    Faults::new(vec![
        fault(FaultKind::NoisyNeighbour, &cast.name(cast.slow), SLOWS, 1.0, FaultEnd::Stays),
        fault(FaultKind::Leak, &cast.name(cast.leaking), LEAKS, 1.0, FaultEnd::Stays),
        fault(FaultKind::IoStorm, &cast.names(&cast.writers), STORMS, 0.9, FaultEnd::Heals),
        fault(FaultKind::CreepingEcc, &cast.name(cast.dying), AILS, 1.0, back),
    ])
}

fn stops(cast: &Cast, tempo: Tempo) -> Vec<Stop> {
    let (slow, leaking, dying) = (cast.name(cast.slow), cast.name(cast.leaking), cast.name(cast.dying));
    let (job, writers) = (cast.names(&cast.job), cast.names(&cast.writers));
    let peers = cast.job.len() - 1;
    let dies = AILS.0 + AILS.1;
    let stop = |at, title: &str, text: &str, view: &str, command: &str| Stop {
        at: tempo.time(at),
        title: title.to_owned(),
        text: text.to_owned(),
        view: encoded(view),
        command: command.to_owned(),
    };
    vec![
        stop(
            0,
            &format!("{job} run one job, ten rows a second"),
            "A tile is a node, its colour how busy it is. Most of the others are free.",
            &format!("find={job}"),
            "nodes",
        ),
        stop(
            SLOWS.0,
            &format!("{slow} of the job becomes slow"),
            &format!(
                "A hypervisor gives its CPU time to others, and its {peers} peers wait for it. Its tile is unlike all others."
            ),
            &format!("metric=cpu.all.steal&sort=value&find={job}"),
            "query 'topk(3, sum by (instance) (rate(node_cpu_seconds_total{mode=\"steal\"}[30s])))'",
        ),
        stop(
            LEAKS.0,
            &format!("{leaking} begins to leak memory"),
            "Its available memory falls evenly. An alert comes before it is gone, another one when it swaps.",
            &format!("node={leaking}"),
            &format!("watch {leaking}:mem.available"),
        ),
        stop(
            STORMS.0,
            &format!("{writers} write a checkpoint, all at once"),
            "An I/O storm: their disks have no time left, and their programs wait for them.",
            "metric=disk&sort=value",
            "query 'topk(5, rate(node_disk_written_bytes_total[15s]))'",
        ),
        stop(
            dies,
            &format!("{dying} dies"),
            "It falls silent, as one whose power is gone. Its tile is crossed out.",
            "metric=memory",
            "nodes --down",
        ),
        stop(
            STORMS.0 + STORMS.1,
            "The storm is over",
            "Alerts end by themselves. Each opened alert has a plot of the minutes around its beginning.",
            "alerts=",
            "alerts",
        ),
        stop(
            dies + AWAY,
            &format!("{dying} is back"),
            "Its uptime begins again, and its gap stays a gap. Before it died, pages of its memory had failed.",
            &format!("node={dying}"),
            &format!(
                "query 'max_over_time(node_memory_HardwareCorrupted_bytes{{instance=\"{dying}\"}}[10m])'"
            ),
        ),
        stop(
            CURTAIN,
            "That was the tour",
            "The leak and the slow node stay, and the demo goes on. Ask it something of your own.",
            "query=topk(5, node_load1)",
            "query 'topk(5, node_load1)'",
        ),
    ]
}

/// A part of an address that a terminal makes a link of as a whole.
fn encoded(view: &str) -> String {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._=&*".contains(&byte);
    view.bytes()
        .map(|byte| if may_stand(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(speed: f64) -> Script {
        Script::new(&Cast::new(200, 1), Nanos::SECOND, speed)
    }

    #[test]
    fn every_fault_begins_or_ends_at_a_stop_that_names_its_nodes() {
        let Script { faults, stops, .. } = script(1.0);
        for fault in faults.iter() {
            let ends = fault.begin.0 + fault.lasts.0;
            let is_told = |stop: &Stop| {
                let at = stop.at.as_nanos() as u64;
                let nodes = fault.nodes.to_string();
                (at == fault.begin.0 || at == ends) && stop.title.contains(nodes.trim_end_matches(":*"))
            };
            assert!(stops.iter().any(is_told), "{fault:?}");
        }
    }

    #[test]
    fn stops_come_in_their_order_and_twice_as_fast_in_half_the_time() {
        let (usual, fast) = (script(1.0).stops, script(2.0).stops);
        assert!(usual.is_sorted_by_key(|stop| stop.at));
        for (usual, fast) in usual.iter().zip(&fast) {
            assert_eq!(usual.at, fast.at * 2);
        }
    }

    #[test]
    fn an_address_has_no_letter_that_a_terminal_would_not_make_a_link_of() {
        for stop in script(1.0).stops {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._=&%*".contains(c);
            assert!(stop.view.chars().all(is_plain), "{}", stop.view);
        }
    }

    #[test]
    fn the_job_is_sampled_ten_times_a_second_and_a_faster_rate_is_for_all() {
        let periods = |period| {
            Script::new(&Cast::new(200, 1), period, 1.0).jobs.iter().map(|job| job.period).collect::<Vec<_>>()
        };
        let (tenth, hundredth) = (Nanos::from_millis(100), Nanos::from_millis(10));
        assert_eq!(periods(Nanos::SECOND), [tenth, Nanos::SECOND, Nanos::SECOND]);
        assert_eq!(periods(hundredth), [hundredth; 3]);
    }
}
