//! Files of numbers that programs leave for node_exporter (`*.prom` in one folder): reads them, and leaves out a file with an error,
//! whole, as node_exporter does. What a name becomes in khz is decided in `khz_parse::textfile`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use khz_model::Instance;
use khz_model::exposed::is_of_rows;
use khz_model::instance::kernel_text;
use khz_model::metric::Text;
use khz_parse::exposition::{Family, families};
use khz_parse::textfile::{metric_name, series, write_error, write_family, write_mtime};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::folder::names_of_files;
use super::text_churn::TextChurn;
use crate::clock;

/// The most files that are read. A program that writes such files has one of them.
pub const TEXT_FILES_MAX: usize = 256;
/// A longer file is left out. Its largest honest user lists each attribute of each disk: 100 bytes a number.
pub const TEXT_FILE_BYTES_MAX: u64 = 2 << 20;
/// The most numbers of all files. A file that goes beyond is left out.
pub const TEXT_FILE_SERIES_MAX: usize = 8_192;
/// The most bytes of all files that are read in one survey.
pub const TEXT_FILES_BYTES_MAX: u64 = 8 << 20;

/// What the names of files may not begin with: khz's own numbers and those of jobs are called so.
const OURS: &str = "khz_";

/// Names that the program has itself. Most machines have no such files, and never ask.
static TAKEN: LazyLock<HashSet<Text>> =
    LazyLock::new(|| crate::catalogue().iter().map(|metric| metric.exposition.name.clone()).collect());

/// The folder, and what is known of its files.
pub(super) struct TextFiles {
    folder: PathBuf,
    state: Mutex<(Latest, TextChurn)>,
}

/// The latest survey.
#[derive(Default)]
struct Latest {
    /// The files, as they were.
    stamps: Vec<(OsString, Stamp)>,
    /// The files beyond [`TEXT_FILES_MAX`].
    beyond: usize,
    /// A file was left out for want of room for new series: there may be room later.
    is_crowded: bool,
    text: Vec<u8>,
    /// What was wrong with which file.
    problems: BTreeMap<OsString, String>,
}

/// What tells a file from what it was before.
type Stamp = (u64, u64, i64, i64);

fn stamp(of: &Metadata) -> Stamp {
    (of.ino(), of.len(), of.mtime(), of.mtime_nsec())
}

impl TextFiles {
    /// Those of the folder below the root.
    pub fn new(root: &Path, folder: &Path) -> Self {
        let folder = root.join(folder.strip_prefix("/").unwrap_or(folder));
        TextFiles { folder, state: Mutex::new((Latest::default(), TextChurn::new(clock::boot()))) }
    }

    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let mut names = match names_of_files(&self.folder) {
            Ok(names) => names,
            Err(errno) => return Ok(Err(errno)),
        };
        names.retain(|name| name.as_encoded_bytes().ends_with(b".prom"));
        let beyond = names.len().saturating_sub(TEXT_FILES_MAX);
        course.left_out += beyond as u64;
        names.truncate(TEXT_FILES_MAX);
        let stamps: Vec<(OsString, Stamp)> =
            names.into_iter().map(|name| (name.clone(), self.stamp_of(&name))).collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (latest, churn) = &mut *state;
        let is_same = latest.stamps == stamps && latest.beyond == beyond && !latest.is_crowded;
        if latest.text.is_empty() || !is_same {
            let found = self.read_all(course, &stamps, beyond, churn)?;
            if beyond > 0 && latest.beyond == 0 {
                let folder = self.folder.display();
                tracing::warn!(
                    "{folder}: more than {TEXT_FILES_MAX} files of numbers; {beyond} of them are left out"
                );
            }
            for (name, problem) in &found.problems {
                if latest.problems.get(name) != Some(problem) {
                    tracing::warn!("{} is left out: {problem}", self.folder.join(name).display());
                }
            }
            *latest = Latest { stamps, ..found };
        }
        Ok(Ok(latest.text.clone()))
    }

    fn stamp_of(&self, name: &OsStr) -> Stamp {
        std::fs::metadata(self.folder.join(name)).map_or((0, 0, 0, 0), |found| stamp(&found))
    }

    fn read_all(
        &self,
        course: &mut Course<'_>,
        stamps: &[(OsString, Stamp)],
        beyond: usize,
        churn: &mut TextChurn,
    ) -> Result<Latest, Abandoned> {
        let (mut texts, mut room, mut problems) = (Vec::new(), TEXT_FILES_BYTES_MAX, BTreeMap::new());
        for (name, _) in stamps {
            let path = self.folder.join(name);
            let read = match course.begin(path.as_os_str().as_encoded_bytes())? {
                true => read(&path, room),
                false => Err("it cannot be read: its file system does not answer".to_owned()),
            };
            match read {
                Ok((text, mtime)) => {
                    room -= text.len() as u64;
                    texts.push((name, text, mtime));
                }
                Err(problem) => drop(problems.insert(name.clone(), problem)),
            }
        }
        let (mut times, mut numbers) = (Vec::new(), Numbers::default());
        churn.begin(clock::boot());
        for (name, text, mtime) in &texts {
            match numbers.add(&kernel_text(name.as_encoded_bytes()), text, churn) {
                Ok(()) => {
                    write_mtime(*mtime, self.folder.join(name).as_os_str().as_encoded_bytes(), &mut times)
                }
                Err(problem) => drop(problems.insert((*name).clone(), problem)),
            }
        }
        let is_crowded = churn.end();
        let (mut error, mut text) = (String::new(), String::new());
        write_error(!problems.is_empty() || beyond > 0, &mut error);
        numbers.families.iter().for_each(|family| write_family(family, &mut text));
        let text = [error.as_bytes(), &times, text.as_bytes()].concat();
        Ok(Latest { stamps: Vec::new(), beyond, is_crowded, text, problems })
    }
}

/// The text of a file and when it was written, in seconds since 1970.
fn read(path: &Path, room: u64) -> Result<(String, u64), String> {
    let wrong = |error: std::io::Error| format!("it cannot be read: {error}");
    // A pipe without a writer must not wait.
    let file: File =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(wrong)?;
    let found = file.metadata().map_err(wrong)?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    let longest = TEXT_FILE_BYTES_MAX.min(room);
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > longest {
        return Err(format!(
            "a file may have {TEXT_FILE_BYTES_MAX} bytes, and all files together {TEXT_FILES_BYTES_MAX}"
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("byte {at} is not UTF-8")
    })?;
    Ok((text, found.mtime().max(0).cast_unsigned()))
}

/// The numbers of several files.
#[derive(Default)]
struct Numbers<'a> {
    families: Vec<Family<'a>>,
    /// The place of each family by its name in khz, so that two names do not become one.
    places: HashMap<String, usize>,
    /// What is there already.
    seen: HashSet<(usize, Option<Instance>)>,
}

impl<'a> Numbers<'a> {
    /// Adds the numbers of a file, or none of them.
    fn add(&mut self, file: &str, text: &'a str, churn: &mut TextChurn) -> Result<(), String> {
        let found = families(text).map_err(|error| error.to_string())?;
        let count: usize = found.iter().map(|family| family.samples.len()).sum();
        if self.seen.len() + count > TEXT_FILE_SERIES_MAX {
            return Err(format!(
                "with it there would be more than {TEXT_FILE_SERIES_MAX} numbers in such files"
            ));
        }
        let (mut new_places, mut new) = (HashMap::new(), HashSet::new());
        let (mut places, mut named) = (Vec::with_capacity(found.len()), Vec::with_capacity(count));
        for family in &found {
            let metric = self.free_name(family)?;
            let next = self.families.len() + new_places.len();
            let place = self.places.get(&metric).copied().unwrap_or(next);
            places.push(place);
            if place == next && new_places.insert(metric, place).is_some() {
                return Err(format!(
                    "{}: khz has small letters only, and so another name is the same",
                    family.name
                ));
            }
            for sample in &family.samples {
                let series =
                    series(family, sample).map_err(|error| format!("line {}: {error}", sample.line))?;
                named.push((family.name, series.instance.clone()));
                let one = (place, series.instance);
                if self.seen.contains(&one) || !new.insert(one) {
                    return Err(format!(
                        "line {}: {} has been there with these labels",
                        sample.line, family.name
                    ));
                }
            }
        }
        if !churn.take(named.iter().map(|(name, instance)| (*name, instance.as_ref()))) {
            return Err(format!(
                "its labels change too often: files may bring {TEXT_FILE_SERIES_MAX} new series in 5 minutes"
            ));
        }
        for (family, place) in found.into_iter().zip(places) {
            match self.families.get_mut(place) {
                Some(known) => known.samples.extend(family.samples),
                None => self.families.push(helped(family, file)),
            }
        }
        self.places.extend(new_places);
        self.seen.extend(new);
        Ok(())
    }

    /// The name of a family in khz, if nothing else has it.
    fn free_name(&self, family: &Family<'_>) -> Result<String, String> {
        let name = family.name;
        if name.starts_with(OURS) || is_of_rows(name) || TAKEN.contains(name) {
            return Err(format!("khz has numbers called {name} itself"));
        }
        let metric = metric_name(name).map_err(|error| error.to_string())?;
        match self.places.get(&metric).and_then(|&place| self.families.get(place)) {
            Some(other) if other.name != name => Err(format!(
                "{name}: khz has small letters only, and {} of another file is the same then",
                other.name
            )),
            Some(other) if other.kind != family.kind => {
                Err(format!("{name}: another file gives it another type"))
            }
            _ => Ok(metric),
        }
    }
}

/// The family, which says where it is from if it says nothing of itself.
fn helped<'a>(family: Family<'a>, file: &str) -> Family<'a> {
    if family.help.is_empty() {
        Family { help: format!("A number of {file}.").into(), ..family }
    } else {
        family
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::MadeUp;
    use crate::survey::looks::Looks;
    use khz_model::Reading;
    use khz_parse::{Subject, textfile::FILE};
    use std::os::unix::ffi::OsStrExt;

    /// Series and their readings, of those that are there.
    fn present(looks: &Looks) -> Vec<(String, f64)> {
        let parser = looks.parse(&FILE);
        let series = parser.schema().series().iter().enumerate();
        let one = |(slot, series): (usize, &khz_model::Series)| match parser.reading(slot)? {
            Reading::Present(bits) if series.metric.name.starts_with("text.") => {
                Some((series.to_string(), f64::from_bits(bits)))
            }
            Reading::Present(number) => Some((series.to_string(), number as f64)),
            _ => None,
        };
        series.filter_map(one).filter(|(name, _)| !name.starts_with("textfile.mtime")).collect()
    }

    fn shown(looks: &Looks) -> Vec<String> {
        present(looks).into_iter().map(|(series, value)| format!("{series} {value}")).collect()
    }

    fn file(name: &str) -> String {
        format!("var/lib/prometheus/node-exporter/{name}")
    }

    #[test]
    fn files_are_read_again_when_they_change_and_left_out_with_an_error() {
        let root = MadeUp::new("text-files");
        root.write(&file("a.prom"), "# TYPE done_total counter\ndone_total{queue=\"x\"} 7\n");
        root.write(&file("b.prom"), "on 1\n");
        root.write(&file("b.prom.tmp"), "on 2\n");
        let looks = Looks::at(&root, Subject::TextFiles);
        assert_eq!(shown(&looks), ["textfile.error 0", "text.done_total[queue=x] 7", "text.on 1"]);
        // A program is still writing.
        root.write(&file("b.prom"), "on 1\nload");
        assert_eq!(shown(&looks), ["textfile.error 1", "text.done_total[queue=x] 7"]);
        root.write(&file("b.prom"), "on 3\nload 5\n");
        std::fs::remove_file(root.join(file("a.prom"))).unwrap();
        assert_eq!(shown(&looks), ["textfile.error 0", "text.on 3", "text.load 5"]);
        // Two files may have numbers of one name.
        root.write(&file("c.prom"), "on{a=\"1\"} 4\n");
        assert_eq!(shown(&looks), ["textfile.error 0", "text.on 3", "text.on[a=1] 4", "text.load 5"]);
    }

    #[test]
    fn any_name_of_a_file_is_shown_and_files_beyond_the_limit_are_an_error() {
        let root = MadeUp::new("text-files-names");
        let folder = root.join(file(""));
        for (number, name) in [&b"a \\b.prom"[..], b"c\n.prom", b"d\xff.prom"].into_iter().enumerate() {
            root.write(&file("of.tmp"), format!("x{number} 1\n"));
            std::fs::rename(folder.join("of.tmp"), folder.join(OsStr::from_bytes(name))).unwrap();
        }
        let looks = Looks::at(&root, Subject::TextFiles);
        assert_eq!(shown(&looks), ["textfile.error 0", "text.x0 1", "text.x1 1", "text.x2 1"]);
        let parser = looks.parse(&FILE);
        let files = parser
            .schema()
            .series()
            .iter()
            .filter_map(|series| Some(series.instance.as_ref()?.name().to_owned()));
        let folder = "/var/lib/prometheus/node-exporter";
        let names: Vec<String> = files
            .filter(|name| name.contains(folder))
            .map(|name| name.rsplit('/').next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a \\b.prom", "c\n.prom", "d\\xFF.prom"]);
        for number in 0..TEXT_FILES_MAX {
            root.write(&file(&format!("n{number:03}.prom")), format!("y{number} 1\n"));
        }
        let shown = shown(&looks);
        assert_eq!((&*shown[0], shown.len()), ("textfile.error 1", 1 + TEXT_FILES_MAX));
    }

    #[test]
    fn a_file_that_khz_cannot_show_is_left_out_and_the_others_stay() {
        let whole = ["textfile.error 1", "text.on 1"];
        let long = format!("x{{a=\"{}\"}} 1\n", "v".repeat(5_000));
        let many: String = (0..TEXT_FILE_SERIES_MAX).map(|n| format!("x{{n=\"{n}\"}} 1\n")).collect();
        let huge = "# a comment\n".repeat(TEXT_FILE_BYTES_MAX as usize / 12 + 1);
        for (number, text) in [
            "node_load1 1\n",
            "node_time_seconds 1\n",
            "up 1\n",
            "khz_job_x 1\n",
            "on 2\n",
            "On 2\n",
            "x 1\nX 2\n",
            "# TYPE on gauge\nup{a=\"1\"} 1\n",
            "x 1 1600000000000\n",
            "x{a=\"1\",b=\"2\"} 1\nx{b=\"2\",a=\"1\"} 1\n",
            "x \u{0}\n",
            &long,
            &many,
            &huge,
        ]
        .iter()
        .enumerate()
        {
            let root = MadeUp::new(&format!("text-files-{number}"));
            root.write(&file("a.prom"), "on 1\n");
            root.write(&file("b.prom"), text);
            assert_eq!(shown(&Looks::at(&root, Subject::TextFiles)), whole, "{number}");
        }
        let root = MadeUp::new("text-files-bytes");
        root.write(&file("a.prom"), "on 1\n");
        root.write(&file("b.prom"), b"x{a=\"\xff\"} 1\n");
        std::fs::create_dir(root.join(file("c.prom"))).unwrap();
        let pipe = root.join(file("d.prom"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(shown(&Looks::at(&root, Subject::TextFiles)), whole);
    }
}
