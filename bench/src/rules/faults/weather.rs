//! What healthy nodes do: jobs that come and go. Each plays one of the recordings, takes memory in one of the ways in which programs
//! do, and writes to the disk now and then. It is made up, and meant to be harder on the rules than a quiet cluster.

/// Numbers from a seed (splitmix64).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 up to 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.part() * end as f64) as usize
    }
}

/// How a job takes its memory.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// All at the start, within a minute.
    AtOnce,
    /// Evenly until its end.
    Evenly,
    /// In four steps.
    InSteps,
    /// Up and down, every ten minutes or so.
    UpAndDown(f64),
}

/// What a node does for a while. Times are seconds.
#[derive(Clone, Debug)]
pub struct Job {
    pub begin: f64,
    pub end: f64,
    /// The number of the recording that it plays, and where in it.
    pub recording: usize,
    pub phase: u64,
    /// The most memory that it takes, as a share of what is available.
    peak: f64,
    takes: Takes,
    /// How often it writes a checkpoint, for how long, and how much all tasks wait for the disk then.
    checkpoint: (f64, f64, f64),
}

impl Job {
    /// The next job, which begins at a time.
    pub fn next(begin: f64, chance: &mut Chance) -> Self {
        // Many are short, some take a day.
        let lasts = 300.0 * 288f64.powf(chance.part().powf(1.5));
        // The recordings are idle, compile, netcopy, mempressure; the last one is a node that runs out of memory, and rare.
        let recording = match chance.below(100) {
            0..30 => 0,
            30..70 => 1,
            70..99 => 2,
            _ => 3,
        };
        let lasts = if recording == 3 { lasts.min(900.0) } else { lasts };
        let takes = match chance.below(10) {
            0..5 => Takes::AtOnce,
            5..7 => Takes::Evenly,
            7..9 => Takes::InSteps,
            _ => Takes::UpAndDown(chance.between(300.0, 1_200.0)),
        };
        // One job in twenty fills the node nearly to the brim.
        let peak = if chance.below(20) == 0 { chance.between(0.85, 0.93) } else { chance.between(0.02, 0.8) };
        let checkpoint =
            (chance.between(1_200.0, 7_200.0), chance.between(20.0, 240.0), chance.between(0.05, 0.7));
        let phase = chance.below(60) as u64;
        Job { begin, end: begin + lasts, recording, phase, peak, takes, checkpoint }
    }

    /// The memory that it has taken, as a share of what was available.
    pub fn memory(&self, now: f64) -> f64 {
        let (since, part) = (now - self.begin, (now - self.begin) / (self.end - self.begin));
        let share = match self.takes {
            Takes::AtOnce => (since / 60.0).min(1.0),
            Takes::Evenly => part,
            Takes::InSteps => ((part * 4.0).floor() + 1.0) / 4.0,
            Takes::UpAndDown(every) => (since % every) / every,
        };
        self.peak * share.clamp(0.0, 1.0)
    }

    /// How much all tasks wait for the disk.
    pub fn disk(&self, now: f64) -> f64 {
        let (every, length, level) = self.checkpoint;
        if (now - self.begin) % every > every - length { level } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_follow_each_other_and_take_no_more_than_there_is() {
        let (mut chance, mut job) = (Chance::new(7), Job::next(0.0, &mut Chance::new(1)));
        for _ in 0..1_000 {
            assert!(job.end >= job.begin + 300.0 && job.end <= job.begin + 86_400.0, "{job:?}");
            for tenth in 0..=10 {
                let now = job.begin + (job.end - job.begin) * f64::from(tenth) / 10.0;
                assert!((0.0..0.95).contains(&job.memory(now)) && job.disk(now) < 1.0, "{job:?}");
            }
            job = Job::next(job.end, &mut chance);
        }
    }
}
