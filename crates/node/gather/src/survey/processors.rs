//! Reads how often each core, and each package, was slowed down because it was too hot. Processors other than Intel's have
//! no such files.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::folder::{Folder, numbered};

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    let all = root.join("sys/devices/system/cpu");
    let numbers = match numbered(&all, "cpu") {
        Ok(numbers) => numbers,
        Err(errno) => return Ok(Err(errno)),
    };
    // The threads of a core have the same count, and so have the cores of a package.
    let (mut cores, mut packages) = (BTreeMap::new(), BTreeMap::new());
    for number in numbers {
        let cpu = all.join(format!("cpu{number}"));
        let Ok(mut counts) = Folder::open(&cpu.join("thermal_throttle"), course.whereabouts()) else {
            continue;
        };
        let Ok(mut topology) = Folder::open(&cpu.join("topology"), course.whereabouts()) else { continue };
        let mut number =
            |file: &str| std::str::from_utf8(topology.value(file).ok()?).ok()?.parse::<u32>().ok();
        let (Some(core), Some(package)) = (number("core_id"), number("physical_package_id")) else {
            continue;
        };
        cores.entry((package, core)).or_insert_with(|| {
            let mut line = format!("core {core} package={package}").into_bytes();
            counts.number("core_throttle_count", "core_throttles", &mut line);
            line
        });
        packages.entry(package).or_insert_with(|| {
            let mut line = format!("package {package}").into_bytes();
            counts.number("package_throttle_count", "package_throttles", &mut line);
            line
        });
    }
    let mut text = Vec::new();
    for line in cores.into_values().chain(packages.into_values()) {
        text.extend(line);
        text.push(b'\n');
    }
    Ok(if text.is_empty() { Err(Errno::NOENT) } else { Ok(text) })
}
