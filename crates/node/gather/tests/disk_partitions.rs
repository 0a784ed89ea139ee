//! A disk with many partitions: the kernel hands out `/proc/diskstats` in several pieces, and the first is
//! short. The disks after it are read all the same. Needs root, a loop device and util-linux.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use futures_executor::block_on;
use khz_gather::{Agent, Plan};
use khz_model::{Nanos, NodeName, Pattern};

/// Their lines fill more than a page.
const PARTITIONS: usize = 100;
const SECTORS: usize = 2_048;

/// A loop device over a sparse file, with partitions that only the kernel knows.
struct LoopDisk {
    device: String,
    image: PathBuf,
}

impl LoopDisk {
    /// Makes the device; `Err` names what is missing on this machine.
    fn new() -> Result<Self, String> {
        let image = std::env::temp_dir().join(format!("khz-partitions-{}.img", std::process::id()));
        let file = std::fs::File::create(&image).map_err(|e| e.to_string())?;
        let device = file
            .set_len((SECTORS * (PARTITIONS + 2) * 512) as u64)
            .map_err(|e| e.to_string())
            .and_then(|()| attach(&image.to_string_lossy()));
        let device = match device {
            Ok(device) => device,
            Err(missing) => {
                let _ = std::fs::remove_file(&image);
                return Err(missing);
            }
        };
        // From here on, dropping the disk cleans up.
        let disk = LoopDisk { device, image };
        for number in 1..=PARTITIONS {
            let (number, start) = (number.to_string(), (SECTORS * number).to_string());
            run("addpart", &[&disk.device, &number, &start, "8"])?;
        }
        Ok(disk)
    }

    fn name(&self) -> &str {
        Path::new(&self.device).file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        for number in 1..=PARTITIONS {
            let _ = run("delpart", &[&self.device, &number.to_string()]);
        }
        let _ = run("losetup", &["--detach", &self.device]);
        let _ = std::fs::remove_file(&self.image);
    }
}

/// Makes a loop device of the image. It is not the first device, whose lines would begin the text: a short
/// piece must precede the long one.
fn attach(image: &str) -> Result<String, String> {
    let mut last = Err("no free loop device".to_owned());
    for number in (1..8).rev() {
        let device = format!("/dev/loop{number}");
        last = run("losetup", &["--partscan", &device, image]).map(|_| device);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Runs a program and returns its output.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn disks_after_one_with_a_hundred_partitions_are_not_lost() {
    let disk = match LoopDisk::new() {
        Ok(disk) => disk,
        Err(missing) => {
            return khz_skip::skip(format!("needs root, a loop device and util-linux ({missing})"));
        }
    };
    let agent = Agent::start(Plan::new("/", NodeName::new("n1").unwrap())).unwrap();
    let pattern = [Pattern::new("disk.reads[*]").unwrap()];
    let snapshot = block_on(agent.query().latest(&pattern, Nanos(0))).unwrap();
    let text = std::fs::read_to_string("/proc/diskstats").unwrap();
    agent.stop();
    let names: Vec<_> = text.lines().map(|line| line.split_whitespace().nth(2).unwrap()).collect();
    let read: Vec<_> = snapshot.nodes[0]
        .1
        .iter()
        .filter(|sample| sample.reading.value().is_some())
        .map(|sample| sample.series.instance.as_ref().unwrap().name())
        .collect();
    assert!(names.contains(&format!("{}p{PARTITIONS}", disk.name()).as_str()), "no partitions: {text}");
    assert_eq!(read, names);
}
