//! The answer as tables of 80 columns.

use khz_rrd::lines::wrapped;

use super::answer::{Answer, Fit};
use super::change::{self, Change};
use super::model::{Hour, Round};
use super::pages::Reading;
use super::paper_beside::{self, Beside};
use super::question::Question;
use super::request::Origins;
use super::system::Map;
use super::words;

/// Hours of a column of the table of the day.
const HALF: usize = 12;

/// The whole answer.
pub fn text(question: &Question, answer: &Answer, origins: &Origins) -> String {
    let mut text = verdict(question, answer);
    text += &asked(question, origins);
    text += &archives(question, answer);
    text += &memory(question, answer);
    text += &day(question, answer);
    text += &breaks(question, answer);
    text += &changes(&change::changes(question, answer));
    text += &paper(question, &paper_beside::beside(question));
    text
}

/// In a sentence.
fn verdict(question: &Question, answer: &Answer) -> String {
    wrapped("", "", &sentence(question, answer))
}

/// The same, to be broken into lines.
pub(super) fn sentence(question: &Question, answer: &Answer) -> String {
    let files = words::grouped(question.files);
    let (has, hot) = (words::count(answer.pages), words::count(answer.model.hot()));
    let fits = match answer.fit {
        Fit::Fits if answer.pages >= answer.model.whole => {
            format!("{files} files fit, each of them whole ({} pages).", words::count(answer.model.whole))
        }
        Fit::Fits => {
            format!("{files} files fit: their hot pages stay in memory ({hot} of {has} pages a file).")
        }
        Fit::Partly(classes) => format!(
            "{files} files fit partly: memory has room for {has} pages a file; {hot} are hot. Ordinary updates read nothing; \
             the archives of {} and longer rows are read again when they are written.",
            answer.model.classes.get(classes).map_or(String::new(), |class| words::time(class.seconds))
        ),
        Fit::Not => format!(
            "{files} files do not fit: memory has {has} pages a file, and an ordinary update needs {}, so each update reads \
             pages again.",
            words::count(answer.model.ordinary())
        ),
    };
    let most = format!(" This memory holds the hot pages of {} files.", words::count(answer.capacity()));
    let in_time = match (question.reads, answer.is_in_time(question.files)) {
        (Some(reads), Some(true)) => format!(" A disk of {} reads a second keeps up.", words::count(reads)),
        (Some(reads), Some(false)) => format!(
            " A disk of {} reads a second does not keep up: the worst round takes {} and the next begins after {}.",
            words::count(reads),
            words::time((answer.worst.page_ins / reads).ceil() as u64),
            words::time(question.rhythm.interval)
        ),
        _ => String::new(),
    };
    fits + &most + &in_time
}

fn heading(text: &str) -> String {
    format!("\n{text}\n")
}

fn asked(question: &Question, origins: &Origins) -> String {
    let (shape, system, rhythm) = (&question.shape, &question.system, question.rhythm);
    let mut text = heading("What was asked");
    let mut line =
        |name: &str, value: &str| text += &wrapped(&format!("  {name:<12}"), &" ".repeat(14), value);
    line(
        "layout",
        &format!(
            "{}: {}, {}; {} bytes, {} pages of {}",
            origins.layout,
            words::number(shape.sources, "data source"),
            words::number(shape.archives.len() as u64, "archive"),
            words::grouped(shape.length),
            words::grouped(shape.pages(question.page)),
            words::grouped(question.page)
        ),
    );
    let write = match rhythm.write > rhythm.interval {
        true => format!(", written each {}", words::time(rhythm.write)),
        false => String::new(),
    };
    line("updates", &format!("each file each {}{write}", words::time(rhythm.interval)));
    line("memory", &format!("{} ({})", words::bytes(question.memory as f64), origins.memory));
    let map = if system.map == Map::Extents { "extents" } else { "a block map" };
    let (read, sizes) = (is_read(system.is_read), is_read(system.objects.is_read));
    line(
        "file system",
        &format!(
            "{} ({}): blocks of {} and inodes of {} bytes, {map} ({read}); kernel objects ({sizes})",
            system.name, origins.system, system.block, system.inode
        ),
    );
    line("readahead", &format!("{} ({})", words::bytes(question.readahead as f64), origins.readahead));
    let advice = if question.is_advised { "given" } else { "not given" };
    let rows = if question.is_in_step { "the same in all files" } else { "of each file its own" };
    line("advice", &format!("{advice}; rows: {rows}"));
    text
}

fn is_read(is_read: bool) -> &'static str {
    if is_read { "read from this machine" } else { "the usual ones" }
}

/// What each class of archives touches.
fn archives(question: &Question, answer: &Answer) -> String {
    let model = &answer.model;
    let other = other_side(question);
    let (with, without) = if question.is_advised { (model, &other) } else { (&other, model) };
    let mut text = heading("Pages of a file in one write");
    text += &format!(
        "  {:<13}{:>9}{:>18}{:>14}{:>17}\n",
        "written each", "archives", "next page after", "with advice", "without advice"
    );
    for (index, class) in model.classes.iter().enumerate() {
        let next = class.next.map_or("never".into(), words::time);
        let up_to = |model: &super::model::Model| words::count(model.up_to(index + 1));
        text += &format!(
            "  {:<13}{:>9}{next:>18}{:>14}{:>17}\n",
            words::time(class.seconds),
            class.archives,
            up_to(with),
            up_to(without)
        );
    }
    text += &wrapped(
        "  ",
        "  ",
        "Each line counts the header and the archives of the lines above, too: the last line is all that is hot.",
    );
    text
}

/// The model of the other side: without advice where there is some.
fn other_side(question: &Question) -> super::model::Model {
    question.with(|other| other.is_advised = !question.is_advised).model()
}

fn memory(question: &Question, answer: &Answer) -> String {
    let mut text = heading("Memory");
    text += &format!("  {:<34}{:>14}{:>14}\n", "", "a file", "all files");
    let files = question.files as f64;
    let mut line = |name: &str, bytes: f64| {
        text += &format!("  {name:<34}{:>14}{:>14}\n", words::bytes(bytes), words::bytes(files * bytes));
    };
    let (room, hot) = (answer.room, answer.model.hot());
    line("inode, name, tree of its pages", room.aside);
    line("pages of an ordinary update", answer.model.ordinary() * room.page);
    line("hot pages", hot * room.page);
    line("wanted: hot pages and the rest", room.aside + hot * room.page);
    line("there is", room.memory / files);
    text
}

fn day(question: &Question, answer: &Answer) -> String {
    let files = question.files as f64;
    let hours = answer.model.hours(&answer.load, files);
    let mut text = heading("Page-ins by hour of the day, UTC");
    let names = format!("  {:<6}{:>11}{:>19}", "hour", "a second", "worst round");
    text += &format!("{names}  {names}\n");
    for hour in 0..HALF {
        let half = |hour: usize| format!("  {:<6}{}", format!("{hour:02}:00"), of_hour(hours.get(hour)));
        text += &format!("{}  {}\n", half(hour), half(hour + HALF));
    }
    text += &wrapped("  ", "  ", &worst_round(question, answer));
    if answer.model.classes.iter().any(|class| class.seconds > super::model::DAY) {
        text += &wrapped("  ", "  ", "It is a day on which rows of more than a day end, too.");
    }
    text
}

fn worst_round(question: &Question, answer: &Answer) -> String {
    let (worst, interval) = (answer.worst, question.rhythm.interval);
    let when = match question.is_in_step {
        true => "At worst the archives of all files come to their next page in one round, which has".into(),
        false => format!("The worst round, at {}, has", clock(worst.time)),
    };
    format!(
        "On average {} page-ins a second. {when} {}: {} a second, if it is spread over the {} until the next. A round in the \
         middle has {}.",
        words::count(answer.mean),
        words::count(worst.page_ins),
        words::count(worst.page_ins / interval as f64),
        words::time(interval),
        words::count(answer.median)
    )
}

fn of_hour(hour: Option<&Hour>) -> String {
    let hour = hour.copied().unwrap_or_default();
    let worst =
        hour.worst.map(|Round { time, page_ins }| format!("{} at {}", words::count(page_ins), clock(time)));
    format!("{:>11}{:>19}", words::count(hour.mean), worst.unwrap_or("no round".into()))
}

/// A time of the day.
pub(super) fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}", seconds / 3600, seconds % 3600 / 60)
}

fn breaks(question: &Question, answer: &Answer) -> String {
    let mut text = heading("Where it breaks");
    text += "  up to files   stays in memory\n";
    let mut before = None;
    for limit in answer.limits.iter().rev() {
        // A class that adds no page breaks where the next one does.
        if before.replace(limit.files) == Some(limit.files) {
            continue;
        }
        let what = match limit.classes {
            0 => "the header".to_string(),
            classes if classes == answer.model.classes.len() => "everything hot".to_string(),
            classes => format!(
                "archives with rows of up to {}",
                words::time(answer.model.classes[classes - 1].seconds)
            ),
        };
        text += &format!("  {:>11}   {what}\n", words::count(limit.files));
    }
    if let (Some(most), Some(reads)) = (answer.in_time, question.reads) {
        text += &wrapped(
            "  ",
            "  ",
            &format!(
                "With {} reads a second each round ends before the next up to {} files.",
                words::count(reads),
                words::count(most)
            ),
        );
    }
    if answer.fit != Fit::Fits {
        text += &wrapped("  ", "  ", &format!("All would fit in {} of memory.", words::bytes(answer.wanted)));
    }
    text
}

fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut text = heading("What to change");
    for change in changes {
        text += &wrapped("  - ", "    ", &change.what);
        text += &wrapped("    -> ", "       ", &change.brings);
    }
    text
}

fn paper(question: &Question, rows: &[Beside]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = heading("The paper (Plonka, Gupta and Carder, LISA'07) beside this plan");
    text += &format!("  {:<50}{:>10}{:>17}\n", "", "paper", "here");
    for Beside { claim, here } in rows {
        text += &format!("  {:<50}{:>10}{here:>17}\n", claim.what, claim.paper);
    }
    let name = match question.reading() {
        Reading::Advised => "with advice",
        Reading::Ahead(_) => "without advice",
    };
    text +=
        &format!("\n  {:<50}{:>10}{:>17}\n", "page-ins a second with so many pages a file", "formula", name);
    for row in paper_beside::by_pages(question) {
        text +=
            &format!("  {:<50}{:>10}{:>17}\n", row.pages, words::count(row.paper), words::count(row.here));
    }
    text += &wrapped(
        "  ",
        "  ",
        "The formula is the paper's, with advice; it leaves out the pages that archives come to as they go on.",
    );
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::answer::tests::question;
    use super::super::named;
    use super::*;

    fn origins() -> Origins {
        Origins {
            layout: "mrtg".into(),
            memory: "of --memory".into(),
            system: "of the disk below /var/lib/a/very/long/directory/of/files".into(),
            readahead: "of --readahead".into(),
        }
    }

    fn told(question: &Question) -> String {
        text(question, &Answer::to(question).unwrap(), &origins())
    }

    #[test]
    fn everything_fits_a_terminal() {
        let small = question(1, 1 << 20);
        let large = question(1 << 40, 1 << 63).with(|other| {
            other.reads = Some(0.1);
            (other.is_in_step, other.is_advised) = (true, false);
        });
        let middle = question(300_000, 4 << 30).with(|other| other.reads = Some(1e7));
        let shape = Arc::new(named::shape("collectd").unwrap());
        let fast = middle.with(|other| {
            (other.shape, other.rhythm.interval, other.rhythm.write) = (shape, 10, 7200);
        });
        let rare = middle.with(|other| (other.rhythm.interval, other.rhythm.write) = (40_000, 900_000));
        for question in [small, large, middle, fast, rare] {
            let text = told(&question);
            assert_eq!(text.lines().find(|line| line.chars().count() > 80), None, "{text}");
            assert_eq!(text.lines().find(|line| line.ends_with(' ')), None, "{text}");
        }
    }

    #[test]
    fn the_verdict_comes_first() {
        assert!(
            told(&question(1000, 1 << 30)).starts_with("1,000 files fit, each of them whole (24.0 pages).")
        );
        assert!(told(&question(1000, 1 << 26)).starts_with("1,000 files fit: "));
        let text = told(&question(300_000, 6 << 30));
        assert!(text.starts_with("300,000 files fit partly: "), "{text}");
        let text = told(&question(300_000, 3 << 30).with(|other| other.reads = Some(100.0)));
        assert!(text.starts_with("300,000 files do not fit: "), "{text}");
        assert!(text.contains("does not keep up"), "{text}");
    }

    #[test]
    fn the_paper_stands_beside_its_own_layout_only() {
        assert!(told(&question(1000, 1 << 30)).contains("LISA'07"));
        let shape = Arc::new(named::shape("munin").unwrap());
        assert!(!told(&question(1000, 1 << 30).with(|other| other.shape = shape)).contains("LISA"));
    }
}
