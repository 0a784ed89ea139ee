//! Copies the kernel files that khz reads into `fixtures/NAME`, with an ORIGIN that says where they come
//! from.

use std::fs;
use std::path::Path;

use crate::step;

/// The files that khz reads, and those that identify the machine.
const FILES: [&str; 13] = [
    "stat",
    "meminfo",
    "loadavg",
    "uptime",
    "net/dev",
    "vmstat",
    "diskstats",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "pressure/irq",
    "cpuinfo",
    "version",
];

/// Captures this machine.
pub fn run(name: &str) -> Result<(), String> {
    let to = step::root().join("fixtures").join(name);
    if to.exists() {
        return Err(format!("{} exists; choose another name", to.display()));
    }
    let mut captured = Vec::new();
    for file in FILES {
        let from = Path::new("/proc").join(file);
        // A kernel without PSI, or without PSI for interrupts, has no such file.
        let Ok(text) = fs::read(&from) else { continue };
        let to = to.join("proc").join(file);
        let folder = to.parent().ok_or("BUG: a file without a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&to, text))
            .map_err(|e| format!("{}: {e}", to.display()))?;
        captured.push(file);
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let origin = format!(
        "machine: (describe it: CPUs, memory, interfaces, what it was doing)\nkernel:  {}\ncommand: cargo xtask capture {name}\n\
         files:   {}\nscrubbed: (say what you changed; check cpuinfo and version)\n",
        kernel.trim(),
        captured.join(" ")
    );
    fs::write(to.join("ORIGIN"), origin).map_err(|e| format!("{}: {e}", to.display()))?;
    println!("captured {} files in {}; now fill in its ORIGIN", captured.len(), to.display());
    Ok(())
}
