//! What to change so that more files fit: each change is another question, whose answer says what it brings.

use std::sync::Arc;

use super::answer::{Answer, Fit};
use super::question::Question;
use super::shape::Shape;
use super::words;
use khz_rrd::rra::Function;

/// Seconds that the daemon gathers updates in the proposal: 12 updates of 5 minutes.
const GATHER: u64 = 3600;
/// From this multiple of the median on, the worst round is worth spreading.
const UNEVEN: f64 = 2.0;
/// Page-ins of a round that no disk notices.
const FEW: f64 = 1000.0;
/// Seconds over which the daemon spreads files that finish a coarse row (`--spread`).
const SPREAD: u64 = 1200;

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What to do.
    pub what: String,
    /// What it brings.
    pub brings: String,
    /// The answer after it, where the model has one.
    pub after: Option<Answer>,
}

/// The changes that help, those that cost least first.
pub fn changes(question: &Question, answer: &Answer) -> Vec<Change> {
    let mut list = vec![];
    list.extend(advise(question, answer));
    list.extend(read_less_ahead(question, answer));
    list.extend(spread_rows(question, answer));
    if answer.fit != Fit::Fits || answer.is_in_time(question.files) == Some(false) {
        list.extend(fewer_archives(question, answer));
        list.extend(gather(question, answer));
        list.extend(spread_closes(question, answer));
        list.extend(memory(question, answer));
    }
    list
}

fn changed(what: String, question: &Question, before: &Answer) -> Option<Change> {
    let after = Answer::to(question).ok()?;
    let brings = format!(
        "{} page-ins a second, {} in the worst round; {} files fit",
        words::count(after.mean),
        words::count(after.worst.page_ins),
        words::count(after.capacity())
    );
    let helps = after.capacity() > before.capacity()
        || after.mean < before.mean
        || after.worst.page_ins < before.worst.page_ins;
    helps.then_some(Change { what, brings, after: Some(after) })
}

fn advise(question: &Question, answer: &Answer) -> Option<Change> {
    if question.is_advised {
        return None;
    }
    let what = "advise the kernel that access is random: khz rrd and khz rrdcached do it, and so does today's rrdtool";
    changed(what.into(), &question.with(|other| other.is_advised = true), answer)
}

/// For programs that cannot be changed.
fn read_less_ahead(question: &Question, answer: &Answer) -> Option<Change> {
    if question.is_advised || question.readahead <= question.page {
        return None;
    }
    let kib = question.page / 1024;
    let what = format!(
        "or let the disk read a page at a time, for all its files: echo {kib} > /sys/block/DISK/queue/read_ahead_kb"
    );
    changed(what, &question.with(|other| other.readahead = question.page), answer)
}

fn spread_rows(question: &Question, answer: &Answer) -> Option<Change> {
    if !question.is_in_step {
        return None;
    }
    let what = "let each file begin at rows of its own, as new files of khz and of today's rrdtool do; khz rrd dump and khz rrd \
                restore give an old file such rows";
    changed(what.into(), &question.with(|other| other.is_in_step = false), answer)
}

/// Of one point, the four plain functions have the same value, and the archive with most rows answers for all.
fn fewer_archives(question: &Question, answer: &Answer) -> Option<Change> {
    let shape = &question.shape;
    let mut same: Vec<usize> = (0..shape.archives.len())
        .filter(|index| shape.archives[*index].points == 1 && shape.archives[*index].function.is_plain())
        .collect();
    let best = *same.iter().max_by_key(|index| {
        let rows = &shape.archives[**index];
        (rows.rows, rows.function == Function::Average, std::cmp::Reverse(**index))
    })?;
    same.retain(|index| *index != best);
    if same.is_empty() {
        return None;
    }
    let names: Vec<&str> = same.iter().map(|index| shape.archives[*index].function.name()).collect();
    let what = format!(
        "leave out {} of one point a row: of one point AVERAGE, MIN, MAX and LAST are the same value, and {} answers for all \
         of them",
        names.join(", "),
        shape.archives[best].function.name()
    );
    let smaller = without(shape, &same);
    changed(what, &question.with(|other| other.shape = Arc::new(smaller)), answer)
}

fn without(shape: &Shape, spare: &[usize]) -> Shape {
    let gone = spare.len() as u64;
    // Definition, row pointer and state of each archive.
    let of_an_archive = 120 + 8 + 80 * shape.sources;
    let mut smaller =
        Shape { header: shape.header - gone * of_an_archive, archives: vec![], ..shape.clone() };
    let mut end = smaller.header;
    for (index, rows) in shape.archives.iter().enumerate() {
        if !spare.contains(&index) {
            let mut rows = rows.clone();
            rows.start = end;
            end += rows.rows * shape.row();
            smaller.archives.push(rows);
        }
    }
    smaller.length = end;
    smaller
}

fn gather(question: &Question, answer: &Answer) -> Option<Change> {
    let write = GATHER.max(question.rhythm.interval.saturating_mul(2));
    if question.rhythm.write >= write {
        return None;
    }
    let what = format!(
        "gather {} updates in the caching daemon and write them at once, each file at another time: khz rrdcached -w \
         {write} -z {write}",
        write / question.rhythm.interval
    );
    changed(what, &question.with(|other| other.rhythm.write = write), answer)
}

/// The daemon delays the write of a file that finishes a coarse row.
fn spread_closes(question: &Question, answer: &Answer) -> Option<Change> {
    let rounds = SPREAD / question.rhythm.interval;
    let more = answer.worst.page_ins - answer.median;
    let is_uneven = answer.worst.page_ins > UNEVEN * answer.median && answer.worst.page_ins > FEW;
    if rounds < 2 || !is_uneven || question.rhythm.write > question.rhythm.interval {
        return None;
    }
    Some(Change {
        what: format!(
            "spread the rows of full hours: khz rrdcached --spread {SPREAD} (its default) delays each file by its own time"
        ),
        brings: format!(
            "about {} page-ins in the worst round instead of {}",
            words::count(answer.median + more / rounds as f64),
            words::count(answer.worst.page_ins)
        ),
        after: None,
    })
}

fn memory(question: &Question, answer: &Answer) -> Option<Change> {
    let wanted = answer.wanted.ceil();
    if answer.fit == Fit::Fits || wanted >= u64::MAX as f64 {
        return None;
    }
    let what = format!("give the files {} of memory for their pages", words::bytes(wanted));
    changed(what, &question.with(|other| other.memory = wanted as u64), answer)
}

#[cfg(test)]
mod tests {
    use super::super::answer::tests::question;
    use super::*;

    fn all(question: &Question) -> Vec<Change> {
        changes(question, &Answer::to(question).unwrap())
    }

    fn whats(question: &Question) -> String {
        all(question).into_iter().map(|change| change.what + "\n").collect()
    }

    #[test]
    fn what_fits_needs_no_change() {
        assert_eq!(all(&question(1000, 1 << 30)), []);
    }

    #[test]
    fn each_change_helps_those_who_need_it() {
        let asked = question(300_000, 4 << 30);
        let said = whats(&asked);
        let wanted =
            ["leave out MAX of one point", "-w 3600 -z 3600", "--spread 1200", "of memory for their pages"];
        for what in wanted {
            assert!(said.contains(what), "{said}");
        }
        assert!(!said.contains("advise") && !said.contains("rows of its own"), "{said}");
        let plain = asked.with(|other| (other.is_advised, other.is_in_step) = (false, true));
        let said = whats(&plain);
        assert!(
            said.starts_with("advise the kernel")
                && said.contains("read_ahead_kb")
                && said.contains("rows of its own"),
            "{said}"
        );
    }

    #[test]
    fn memory_that_is_proposed_is_enough() {
        let asked = question(300_000, 4 << 30);
        let last = all(&asked).pop().unwrap();
        assert_eq!(last.after.unwrap().fit, Fit::Fits);
    }

    #[test]
    fn gathered_updates_read_less() {
        let asked = question(300_000, 2 << 30);
        let before = Answer::to(&asked).unwrap();
        let gathered = gather(&asked, &before).unwrap().after.unwrap();
        assert!(gathered.mean < before.mean / 3.0, "{} {}", gathered.mean, before.mean);
        // Who gathers already is not told to.
        assert_eq!(gather(&asked.with(|other| other.rhythm.write = 3600), &before), None);
    }

    #[test]
    fn archives_that_say_the_same_are_found() {
        let said = |name| {
            let shape = Arc::new(super::super::named::shape(name).unwrap());
            whats(&question(900_000, 4 << 30).with(|other| other.shape = shape))
        };
        assert!(said("munin").contains("leave out MIN, MAX of one point"), "{}", said("munin"));
        assert!(said("cacti").contains("leave out MIN, MAX, LAST of one point"), "{}", said("cacti"));
        // The longest is kept.
        let mut shape = (*question(1, 1).shape).clone();
        shape.archives[0].rows -= 100;
        let longest = whats(&question(300_000, 4 << 30).with(|other| other.shape = Arc::new(shape)));
        assert!(
            longest.contains("leave out AVERAGE of one point") && longest.contains("and MAX answers"),
            "{longest}"
        );
    }

    #[test]
    fn a_layout_without_archives_is_what_create_would_make() {
        let shape = super::super::named::shape("mrtg").unwrap();
        let mut definition = super::super::named::definition("mrtg").unwrap();
        definition.archives.remove(4);
        assert_eq!(without(&shape, &[4]), Shape::of(&definition).unwrap());
    }
}
