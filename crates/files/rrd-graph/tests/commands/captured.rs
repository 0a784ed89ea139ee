//! Graph commands as programs gave them to rrdtool (`commands/ORIGIN`), and files for them. The tests draw them, and the benchmark.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The time (s) at which the files begin.
pub const START: u64 = 1_700_000_100;
/// The most samples of one `update`.
const SAMPLES: usize = 1_000;

/// A captured command: the .rrd files that it reads, and its arguments.
pub struct Captured {
    /// Its name, which begins with that of the program.
    pub name: String,
    files: Vec<Layout>,
    arguments: Vec<String>,
}

/// An .rrd file as its program makes it.
struct Layout {
    name: String,
    step: u64,
    /// `DS:` and `RRA:`, as in `create`.
    words: Vec<String>,
}

impl Captured {
    /// Every one in a folder.
    pub fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "txt"));
        paths.sort();
        paths
            .iter()
            .map(|path| Self::read(path).ok_or_else(|| format!("{}: no command", path.display())))
            .collect()
    }

    /// Lines `file NAME STEP DS:... RRA:...`, an empty line, and one argument a line.
    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let (files, arguments) = text.split_once("\n\n")?;
        let layout = |line: &str| {
            let mut of = line.strip_prefix("file ")?.split(' ').map(str::to_string);
            let (name, step) = (of.next()?, of.next()?.parse().ok()?);
            Some(Layout { name, step, words: of.collect() })
        };
        Some(Self {
            name: path.file_stem()?.to_str()?.into(),
            files: files.lines().map(layout).collect::<Option<_>>()?,
            arguments: arguments.lines().map(str::to_string).collect(),
        })
    }

    /// How long its files are filled: a week, or half a day where rows are short.
    pub fn filled_for(&self) -> u64 {
        if self.files.iter().any(|file| file.step < 60) { 43_200 } else { 7 * 86_400 }
    }

    /// Makes its files in a folder of their own.
    pub fn fill(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.files
            .iter()
            .enumerate()
            .try_for_each(|(number, file)| file.fill(folder, number, self.filled_for()))
    }

    /// Its arguments from `start` to `end`; some also draw the time of the same length that ended at `start`.
    pub fn spanning(&self, start: u64, end: u64) -> Vec<String> {
        let put = |line: &String| match line.as_str() {
            "START" => start.to_string(),
            "END" => end.to_string(),
            line => {
                let line = line.replace("=START", &format!("={start}")).replace("=END", &format!("={end}"));
                let line = line.replace("=BEFORE", &format!("={}", start.saturating_sub(end - start)));
                let line = if line.starts_with("SHIFT:") {
                    line.replace(":PERIOD", &format!(":{}", end - start))
                } else {
                    line
                };
                line.replace("VRULE:END", &format!("VRULE:{end}"))
            }
        };
        self.arguments.iter().map(put).collect()
    }
}

impl Layout {
    /// Makes the file with waves, each source in its own: gauges as they are, counters that grow by them.
    fn fill(&self, folder: &Path, number: usize, seconds: u64) -> Result<(), String> {
        let (step, start) = (self.step.to_string(), START.to_string());
        let create = ["create", &self.name, "--start", &start, "--step", &step].map(str::to_string);
        rrdtool(folder, &[&create[..], &self.words].concat())?;
        let sources = self.words.iter().filter(|word| word.starts_with("DS:"));
        let sources: Vec<Vec<&str>> = sources.map(|word| word.split(':').collect()).collect();
        let mut counts = vec![0u64; sources.len()];
        let samples: Vec<String> = (1..=seconds / self.step)
            .map(|row| {
                let mut sample = (START + row * self.step).to_string();
                for (place, source) in sources.iter().enumerate() {
                    let value = self.value(row, source, place, number);
                    match source[2] {
                        "GAUGE" => sample.push_str(&format!(":{value:.3}")),
                        _ => {
                            counts[place] += (value * self.step as f64) as u64;
                            sample.push_str(&format!(":{}", counts[place]));
                        }
                    }
                }
                sample
            })
            .collect();
        samples.chunks(SAMPLES).try_for_each(|some| {
            let update = ["update".to_string(), self.name.clone()];
            rrdtool(folder, &[&update[..], some].concat())
        })
    }

    /// A wave, below the highest value that the source allows.
    fn value(&self, row: u64, source: &[&str], place: usize, number: usize) -> f64 {
        let turn = (row * self.step) as f64 / 86_400.0 * std::f64::consts::TAU;
        let base = [4e5, 60.0, 0.7][(number + place) % 3];
        let highest = source[5].parse().unwrap_or(f64::INFINITY);
        let wave = 1.3 + (turn * (1.0 + 0.3 * place as f64) + number as f64).sin();
        if base * 2.4 > highest { highest / 2.4 * wave } else { base * wave }
    }
}

fn rrdtool(folder: &Path, words: &[String]) -> Result<(), String> {
    let mut command = Command::new("rrdtool");
    command.args(words).current_dir(folder).env("TZ", "UTC").env("LC_ALL", "C");
    let output =
        command.output().map_err(|error| format!("rrdtool: {error}; install Debian's package `rrdtool`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("rrdtool {}: {said}", words[..2].join(" "))) }
}
