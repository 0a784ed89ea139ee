//! Random command lines: sensible ones, ones at the edge, and broken ones. The same for the same seed.

use super::oracle::Random;
use super::specs::{archive, source};

/// The moment before the first sample; not so long ago that a range up to now has millions of rows.
pub const BEGIN: u64 = 1_790_000_000;
const STEPS: [u64; 3] = [60, 300, 1800];

/// What a sequence has made so far, for later words that depend on it.
pub struct Story {
    step: u64,
    time: u64,
    /// Names of data sources of `a.rrd`.
    names: Vec<&'static str>,
}

/// Words without a meaning.
const JUNK: [&str; 16] = [
    "-1q", "--", "-", "--nope", "-q", "", "x", "5", "-h", "--daemon", "-s", "no.rrd", "a.rrd", "1:2",
    "--start=", "U",
];
/// Characters put into words. No slash and no digit: they could lead outside, or make large files.
const LETTERS: [&str; 16] =
    [":", "=", "-", "x", "U", " ", ",", ".", "@", "%", "\\", "\"", "'", "ü", "#", "N"];

impl Story {
    pub fn new(random: &mut Random) -> Self {
        Self { step: STEPS[random.below(3) as usize], time: BEGIN, names: vec!["x", "y"] }
    }

    /// The words of the next command.
    pub fn command(&mut self, random: &mut Random) -> Vec<String> {
        let mut words = match random.below(100) {
            0..=11 => self.create(random),
            12..=34 => self.update(random),
            35..=40 => self.plain("info", random),
            41..=43 => self.plain("last", random),
            44..=46 => self.plain("lastupdate", random),
            47..=51 => self.first(random),
            52..=63 => self.fetch(random),
            64..=74 => self.tune(random),
            75..=79 => self.resize(random),
            80..=85 => self.dump(random),
            86..=89 => self.restore(random),
            90..=96 => self.xport(random),
            _ => self.list(random),
        };
        if random.chance(30) {
            spoil(&mut words, random);
        }
        stay_here(&mut words);
        words
    }

    /// The command that a sequence begins with.
    pub fn first_command(&mut self, _random: &mut Random) -> Vec<String> {
        let (begin, step) = (BEGIN, self.step);
        words(&format!(
            "create a.rrd --start {begin} --step {step} DS:x:GAUGE:{} :U:U DS:y:COUNTER:{}:0:U RRA:AVERAGE:0.5:1:20 \
             RRA:LAST:0.5:1:10 RRA:MAX:0.5:4:10 RRA:AVERAGE:0.5:6:8",
            2 * step,
            3 * step
        ).replace(" :U", ":U"))
    }

    fn file(&self, random: &mut Random) -> String {
        let files = [
            "a.rrd", "a.rrd", "a.rrd", "a.rrd", "a.rrd", "a.rrd", "b.rrd", "no.rrd", "junk.rrd", "dir",
            "a.xml",
        ];
        random.pick(&files).into()
    }

    fn create(&mut self, random: &mut Random) -> Vec<String> {
        let file = random.pick(&["a.rrd", "b.rrd", "b.rrd", "b.rrd", "none/c.rrd", "dir"]);
        let start = random.pick(&[
            "1790000000",
            "1790000000",
            "1790000123",
            "1790000000.5",
            "20260922",
            "end-1d",
            "5",
            "1790000000+1h",
        ]);
        let mut words = words(&format!("create {file} --start {start}"));
        if random.chance(70) {
            let step =
                random.pick(&["60", "300", "1800", "5m", "1h", "0", "x", "7", "1d", "1x", "-5", "60s"]);
            words.extend([random.pick(&["--step", "-s"]).into(), step.into()]);
        }
        if random.chance(10) {
            words.push(random.pick(&["-O", "--no-overwrite"]).into());
        }
        if random.chance(12) {
            words.extend([random.pick(&["-t", "--template"]).into(), self.file(random)]);
        }
        if random.chance(12) {
            words.extend([random.pick(&["-r", "--source"]).into(), self.file(random)]);
        }
        for _ in 0..random.below(4) {
            words.push(source(random));
        }
        for _ in 0..random.below(4) {
            words.push(archive(random));
        }
        words
    }

    fn update(&mut self, random: &mut Random) -> Vec<String> {
        let mut words = vec![random.pick(&["update", "update", "updatev"]).to_string()];
        words.push(if random.chance(80) { "a.rrd".into() } else { self.file(random) });
        let mut count = 2;
        if random.chance(20) {
            let template = random.pick(&["x", "y", "y:x", "x:y", "x:x", "z", "", ":", "x:", "x:y:z"]);
            words.extend([random.pick(&["-t", "--template"]).to_string(), template.to_string()]);
            count = template.split(':').count();
        }
        if random.chance(8) {
            words.push(random.pick(&["-s", "--skip-past-updates"]).into());
        }
        if random.chance(8) {
            words.push("--".into());
        }
        for _ in 0..1 + random.below(3) * random.below(2) {
            words.push(self.sample(random, count));
        }
        words
    }

    fn sample(&mut self, random: &mut Random, count: usize) -> String {
        self.time += match random.below(12) {
            0 => 0,
            1 => 1,
            2 => self.step * random.below(30),
            3..=6 => random.below(2 * self.step),
            _ => self.step,
        };
        let time = match random.below(30) {
            0 => random
                .pick(&["", "x", "1e9", "0", "179000000x", "nan", "5.5.5", " 1790000000", "+1790000000"])
                .to_string(),
            1 => format!("{}.{}", self.time, random.below(1000)),
            2 => format!("{}", self.time - random.below(400)),
            _ => self.time.to_string(),
        };
        let mut sample = time;
        let separators = if random.chance(4) { random.pick(&["@", "::", "", " "]) } else { ":" };
        let count = if random.chance(5) { random.below(4) as usize } else { count };
        for index in 0..count {
            sample.push_str(if index == 0 { separators } else { ":" });
            let value = match random.below(14) {
                0 => "U".into(),
                1 => random
                    .pick(&[
                        "", "x", "1.5", "-3", "nan", "inf", "1e5", "0x10", "1,5", "5 5", "++5", "U5", "u",
                        ".",
                    ])
                    .to_string(),
                2 => format!("{}.{}", random.below(100), random.below(1000)),
                _ => random.below(100_000).to_string(),
            };
            sample.push_str(&value);
        }
        sample
    }

    fn plain(&self, command: &str, random: &mut Random) -> Vec<String> {
        let mut words = vec![command.into(), self.file(random)];
        if command == "info" && random.chance(15) {
            words.push(random.pick(&["-F", "--noflush"]).into());
        }
        if random.chance(5) {
            words.push("extra".into());
        }
        words
    }

    fn first(&self, random: &mut Random) -> Vec<String> {
        let mut words = vec!["first".to_string(), self.file(random)];
        if random.chance(70) {
            let index = random.pick(&["0", "1", "3", "4", "99", "-1", "x", "", "1x", "0x1"]);
            match random.below(3) {
                0 => words.push(format!("--rraindex={index}")),
                1 => words.extend(["--rraindex".into(), index.into()]),
                _ => words.extend(["-a".into(), index.into()]),
            }
        }
        words
    }

    fn range(&self, random: &mut Random, words: &mut Vec<String>) {
        let end = self.time + random.below(10 * self.step);
        let start = end - random.below(40 * self.step);
        let start = match random.below(20) {
            0 => random
                .pick(&[
                    "end-1h",
                    "e-300",
                    "20260922",
                    "09/22/2026",
                    "22.09.2026",
                    "noon 20260922",
                    "foo",
                    "",
                    "0",
                    "start",
                    "end",
                ])
                .into(),
            1 => format!("{start}+5min"),
            _ => start.to_string(),
        };
        let end = match random.below(20) {
            0 => random
                .pick(&[
                    "start+1h",
                    "s+600",
                    "20260923",
                    "Sep 23 2026",
                    "x",
                    "start+2h30m",
                    "1790000000",
                    "5",
                ])
                .into(),
            1 => format!("{end}-5min"),
            _ => end.to_string(),
        };
        words.extend([
            random.pick(&["-s", "--start"]).into(),
            start,
            random.pick(&["-e", "--end"]).into(),
            end,
        ]);
    }

    fn fetch(&self, random: &mut Random) -> Vec<String> {
        let functions = ["AVERAGE", "AVERAGE", "LAST", "MAX", "MIN", "FOO", "average", "SEASONAL"];
        let mut words = vec!["fetch".to_string(), self.file(random), random.pick(&functions).into()];
        self.range(random, &mut words);
        if random.chance(40) {
            let resolution = random.pick(&["1", "300", "600", "1800", "1h", "x", "0", "5x", "-1"]);
            words.extend([random.pick(&["-r", "--resolution"]).into(), resolution.into()]);
        }
        if random.chance(15) {
            words.push(random.pick(&["-a", "--align-start"]).into());
        }
        words
    }

    fn tune(&mut self, random: &mut Random) -> Vec<String> {
        let mut words = vec!["tune".to_string(), self.file(random)];
        for _ in 0..1 + random.below(2) {
            let name = if random.chance(85) { random.pick(&self.names).to_string() } else { "z".into() };
            let change = match random.below(9) {
                0 => format!("-h {name}:{}", random.pick(&["600", "1", "0", "x", "", "-5", "5m"])),
                1 => format!("-i {name}:{}", random.pick(&["U", "-5", "0.5", "x", "", "1e3"])),
                2 => format!("--maximum {name}:{}", random.pick(&["U", "-5", "0.5", "x", "", "1e9"])),
                3 => format!(
                    "-d {name}:{}",
                    random.pick(&["GAUGE", "COUNTER", "DERIVE", "ABSOLUTE", "DCOUNTER", "FOO", ""])
                ),
                4 => format!(
                    "--data-source-rename={name}:{}",
                    random.pick(&["x", "y", "a_very_long_name_of_a_source", "", "a.b"])
                ),
                5 => format!("--step {}", random.pick(&["60", "30", "7", "x", "600"])),
                6 => random
                    .pick(&["--alpha 0.3", "-b x", "-p 3", "-n 1", "-f 3", "-w 5", "--gamma 0.1", "-s 0.1"])
                    .into(),
                7 => random
                    .pick(&[
                        "DELRRA:7",
                        "DEL:nobody",
                        "DEL:",
                        "DS:",
                        "RRA:",
                        "RRA#9:+3",
                        "RRA#0:x3",
                        "RRA#x:+1",
                        "foo",
                    ])
                    .into(),
                _ => format!("-h {name}"),
            };
            words.extend(change.split(' ').map(str::to_string));
        }
        words
    }

    fn resize(&self, random: &mut Random) -> Vec<String> {
        let (rra, way) =
            (random.pick(&["0", "1", "2", "7", "-1", "x"]), random.pick(&["GROW", "SHRINK", "grow", ""]));
        let rows = random.pick(&["1", "3", "7", "0", "-2", "x", "100", "5x"]);
        vec!["resize".into(), self.file(random), rra.into(), way.into(), rows.into()]
    }

    fn dump(&self, random: &mut Random) -> Vec<String> {
        let mut words = vec!["dump".to_string(), self.file(random)];
        if random.chance(30) {
            words.push("a.xml".into());
        }
        match random.below(8) {
            0 => words.push(random.pick(&["-n", "--no-header"]).into()),
            1 => words.extend(["-h".into(), random.pick(&["none", "xsd", "dtd", "foo", ""]).into()]),
            2 => words.push(format!("--header={}", random.pick(&["none", "xsd", "dtd", "foo"]))),
            _ => {}
        }
        words
    }

    fn restore(&self, random: &mut Random) -> Vec<String> {
        let from = random.pick(&["a.xml", "a.xml", "a.xml", "junk.rrd", "no.xml", "dir"]);
        let mut words = vec!["restore".into(), from.into(), random.pick(&["b.rrd", "a.rrd", "r.rrd"]).into()];
        if random.chance(60) {
            words.push(random.pick(&["-f", "--force-overwrite", "-r", "--range-check"]).into());
        }
        words
    }

    fn xport(&self, random: &mut Random) -> Vec<String> {
        let mut words = vec!["xport".to_string()];
        self.range(random, &mut words);
        if random.chance(25) {
            words.extend([
                random.pick(&["-m", "--maxrows"]).into(),
                random.pick(&["10", "15", "400", "9", "x"]).into(),
            ]);
        }
        if random.chance(25) {
            words.extend(["--step".into(), random.pick(&["60", "300", "700", "x", "0"]).into()]);
        }
        if random.chance(30) {
            words.push(random.pick(&["-t", "--json", "--enumds", "--showtime"]).into());
        }
        let file = self.file(random);
        let name = if random.chance(90) { "x" } else { "z" };
        let function = random.pick(&["AVERAGE", "LAST", "MAX", "FOO"]);
        words.push(format!("DEF:a={file}:{name}:{function}"));
        if random.chance(50) {
            let expression = random.pick(&[
                "a,2,*",
                "a,a,+",
                "a,UN,0,a,IF",
                "a,",
                "b",
                "a,FOO",
                "1",
                "",
                "a,2",
                "a,+",
                "a,TIME,POP",
            ]);
            words.push(format!("CDEF:b={expression}"));
        }
        words.push(
            random
                .pick(&[
                    "XPORT:a",
                    "XPORT:a:legend",
                    "XPORT:b:two words",
                    "XPORT:c",
                    "XPORT:",
                    "XPORT",
                    "PRINT:a",
                ])
                .into(),
        );
        words
    }

    fn list(&self, random: &mut Random) -> Vec<String> {
        let mut words =
            vec!["list".to_string(), random.pick(&[".", "dir", "no", "a.rrd", "", "./dir/"]).into()];
        if random.chance(30) {
            words.insert(1, random.pick(&["-r", "--recursive", "-F", "--noflush"]).into());
        }
        words
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// Gives `--daemon` a socket that does not exist where a number follows: 1790000000 is an address somewhere in the world.
fn stay_here(words: &mut Vec<String>) {
    let is_number = |word: &String| word.starts_with(|letter: char| letter.is_ascii_digit());
    let far = words.windows(2).position(|pair| pair[0] == "--daemon" && is_number(&pair[1]));
    if let Some(index) = far {
        words.insert(index + 1, "unix:none".into());
    }
}

/// Changes one word, rightly or wrongly; never the command itself.
fn spoil(words: &mut Vec<String>, random: &mut Random) {
    let at = 1 + random.below(words.len() as u64) as usize;
    let inside = at.min(words.len() - 1).max(1);
    if words.len() < 2 {
        return words.push(random.pick(&JUNK).into());
    }
    match random.below(7) {
        0 | 1 => words.insert(at.min(words.len()), random.pick(&JUNK).into()),
        2 => drop(words.remove(inside)),
        3 => {
            let other = 1 + random.below(words.len() as u64 - 1) as usize;
            words.swap(inside, other);
        }
        4 => {
            let word = words[inside].clone();
            words.insert(inside, word);
        }
        5 => {
            let word = &mut words[inside];
            let cut = word
                .char_indices()
                .map(|(at, _)| at)
                .nth(random.below(1 + word.chars().count() as u64) as usize);
            if let Some(cut) = cut {
                word.truncate(cut);
            }
        }
        _ => {
            let word = &mut words[inside];
            let places: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
            word.insert_str(places[random.below(places.len() as u64) as usize], random.pick(&LETTERS));
        }
    }
}
