//! Reads the errors that each controller of the memory has counted (EDAC).

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
    let all = root.join("sys/devices/system/edac/mc");
    let numbers = match numbered(&all, "mc") {
        Ok(numbers) => numbers,
        Err(errno) => return Ok(Err(errno)),
    };
    let mut text = Vec::new();
    for number in numbers {
        let Ok(mut controller) = Folder::open(&all.join(format!("mc{number}"))) else { continue };
        text.extend(format!("controller {number}").bytes());
        controller.number("ce_count", "correctable_errors", &mut text);
        controller.number("ue_count", "uncorrectable_errors", &mut text);
        text.push(b'\n');
    }
    // The folder is there without a driver, too.
    Ok(if text.is_empty() { Err(Errno::NOENT) } else { Ok(text) })
}
