//! The peers: the crates `procfs` and `sysinfo` read the values of the same five files, beside ours.

use std::hint::black_box;
use std::time::Duration;

use procfs::{Current, CurrentSI};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, Networks, RefreshKind, System};

use crate::error::BenchError;
use crate::five::{FILES, room};
use crate::ours::Source;
use crate::pairs::{Batch, Contender, interleave, thread_cpu_ns};
use crate::place::Pinned;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// Our sample must cost this many times fewer microseconds of CPU than a peer's.
const FEWER: f64 = 5.0;

/// The pause between two readers when paced. With three readers, sysinfo's turn comes after more than 200 ms;
/// within that time it refuses to refresh CPUs.
const PAUSE: Duration = Duration::from_millis(125);

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    hot(record)?;
    paced(record)
}

/// Back to back. Here sysinfo refuses to refresh CPUs; it is measured without them and, made again each time,
/// with them.
fn hot(record: &mut Record) -> Result<(), BenchError> {
    let (mut sources, mut room) = (open_all()?, room());
    let (mut system, mut networks) = sysinfo_open().map_err(sysinfo_failed)?;
    let mut contenders = [
        Contender::call("ours", || gather_all(&mut sources, &mut room)),
        Contender::call("procfs", procfs_all),
        Contender::call("sysinfo without CPUs", || {
            sysinfo_all(&mut system, &mut networks);
            Ok(())
        }),
        Contender::call("sysinfo made anew", || {
            let kinds = RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing().with_usage())
                .with_memory(MemoryRefreshKind::everything());
            let system = System::new_with_specifics(kinds).map_err(sysinfo_failed)?;
            let networks = Networks::new_with_refreshed_list().map_err(sysinfo_failed)?;
            black_box((system.global_cpu_usage(), system.free_memory()));
            black_box(networks.len());
            sysinfo_scalars();
            Ok(())
        }),
    ];
    let span = Duration::from_millis(record.effort.of(200, 60));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    record.turns("peers", "hot", &turns);
    let costs: Vec<_> = turns.iter().map(|t| (t.name.clone(), t.map(Batch::cpu_micros))).collect();
    show(record, "hot", &costs);
    Ok(())
}

/// Every reader in turn, about three times a second, alone at its tick: otherwise the first reader would warm
/// the kernel for the others.
/// warm the kernel for the others.
fn paced(record: &mut Record) -> Result<(), BenchError> {
    let (mut sources, mut room) = (open_all()?, room());
    let (mut system, mut networks) = sysinfo_open().map_err(sysinfo_failed)?;
    let mut costs = ["ours", "procfs", "sysinfo"].map(|name| (name.to_owned(), Vec::new()));
    let ticks = record.effort.of(120, 36);
    for tick in 0..ticks {
        std::thread::sleep(PAUSE);
        let who = tick % costs.len();
        let before = thread_cpu_ns();
        match who {
            0 => gather_all(&mut sources, &mut room)?,
            1 => procfs_all()?,
            _ => sysinfo_all(&mut system, &mut networks),
        }
        let micros = (thread_cpu_ns() - before) as f64 / 1e3;
        record.sample(["peers", "paced", &costs[who].0], tick, "cpu_us", micros);
        costs[who].1.push(micros);
    }
    show(record, "paced", &costs);
    Ok(())
}

fn open_all() -> Result<Vec<Source>, BenchError> {
    let mut sources = FILES.iter().map(|name| Source::open(name)).collect::<Result<Vec<_>, _>>()?;
    gather_all(&mut sources, &mut room())?; // the first text is always parsed in full
    Ok(sources)
}

fn gather_all(sources: &mut [Source], room: &mut Vec<u8>) -> Result<(), BenchError> {
    sources.iter_mut().try_for_each(|source| source.gather(room).map(drop))
}

fn procfs_all() -> Result<(), BenchError> {
    let wrong = |e: procfs::ProcError| BenchError::Reply(format!("procfs: {e}"));
    black_box(procfs::KernelStats::current().map_err(wrong)?);
    black_box(procfs::Meminfo::current().map_err(wrong)?);
    black_box(procfs::LoadAverage::current().map_err(wrong)?);
    black_box(procfs::Uptime::current().map_err(wrong)?);
    black_box(procfs::net::dev_status().map_err(wrong)?);
    Ok(())
}

fn sysinfo_open() -> Result<(System, Networks), sysinfo::Error> {
    let mut system = System::new()?;
    system.refresh_cpu_usage();
    Ok((system, Networks::new_with_refreshed_list()?))
}

fn sysinfo_scalars() {
    black_box(System::load_average()).ok();
    black_box(System::uptime()).ok();
}

fn sysinfo_failed(error: sysinfo::Error) -> BenchError {
    BenchError::Reply(format!("sysinfo: {error:?}"))
}

fn sysinfo_all(system: &mut System, networks: &mut Networks) {
    system.refresh_cpu_usage();
    system.refresh_memory();
    networks.refresh(false);
    black_box((system.global_cpu_usage(), system.free_memory(), networks.len()));
    sysinfo_scalars();
}

fn show(record: &mut Record, how: &str, costs: &[(String, Vec<f64>)]) {
    let mut table = Table::new(&["reader", "us/sample", "quartiles", "min", "max", "x ours"]);
    let ours = costs[0].1.clone();
    for (name, micros) in costs {
        let (Some(spread), Some(times)) =
            (Spread::of(micros.iter().copied()), Spread::of(ratios(micros, &ours)))
        else {
            continue;
        };
        table.row([
            name.clone(),
            figure(spread.median),
            format!("{}..{}", figure(spread.lower), figure(spread.upper)),
            figure(spread.min),
            figure(spread.max),
            figure(times.median),
        ]);
        if name != "ours" {
            record.verdict(&format!("{name} / ours, {how}"), Some(times), Bound::AtLeast(FEWER));
        }
    }
    record.show(&format!("## Peers: CPU microseconds per sample of the five files, {how}"), &table);
}
