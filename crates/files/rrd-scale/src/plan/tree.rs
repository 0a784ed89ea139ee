//! `khz rrd doctor` with what the plan says of the tree that it looks at.

use std::path::Path;
use std::sync::Arc;

use khz_rrd::doctor::{self, Facts, Finding, Weight};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

use super::answer::{Answer, Fit};
use super::change::{self, Change};
use super::model::Rhythm;
use super::question::Question;
use super::request;
use super::shape::Shape;
use super::{print, table, words};

/// The text of `--help`.
const USAGE: &str = "\
Usage: khz rrd doctor DIR

Which of the conditions that make many .rrd files slow hold for the files below
DIR: readahead, I/O scheduler, mount options and dir_index of their disk, their
layout, memory; and what khz rrd plan says of them. It changes nothing.

Example:
  khz rrd doctor /var/lib/munin
";

/// `doctor DIR`.
pub(super) fn examine(arguments: &[String]) -> Result<()> {
    let wants_help = arguments.is_empty() || arguments.iter().any(|word| word == "-h" || word == "--help");
    if wants_help {
        return print(USAGE);
    }
    let [directory] = arguments else { return refused("doctor takes one directory: doctor DIR") };
    let directory = text::path(directory);
    let facts = doctor::examine(&directory)?;
    let mut findings = doctor::advise(&facts);
    findings.extend(planned(&facts, &directory));
    print(&doctor::text(&findings))
}

/// What the plan says of a tree whose sample has at least one file.
fn planned(facts: &Facts, directory: &Path) -> Vec<Finding> {
    let most = facts.layouts.iter().max_by_key(|(_, files)| *files);
    let Some((definition, files)) = most else { return vec![] };
    let question = Shape::of(definition).and_then(|shape| question(facts, shape, directory));
    let answer = question.and_then(|question| Answer::to(&question).map(|answer| (question, answer)));
    let mut findings = vec![];
    if *files < facts.sampled {
        findings.push(Finding {
            weight: Weight::Note,
            fact: format!(
                "{files} of {} files have the commonest layout of {}; the plan takes all to have it",
                facts.sampled,
                facts.layouts.len()
            ),
            advice: "khz rrd plan FILE --files N plans for each layout".into(),
        });
    }
    match answer {
        Ok((question, answer)) => findings.extend(said(&question, &answer)),
        Err(error) => findings.push(Finding {
            weight: Weight::Note,
            fact: format!("the plan says nothing of these files: {error}"),
            advice: "khz rrd plan --help lists what can be given".into(),
        }),
    }
    findings
}

fn question(facts: &Facts, shape: Shape, directory: &Path) -> Result<Question> {
    let Some(memory) = facts.memory else {
        return Err(Error::Refused("the kernel does not say how much memory is available".into()));
    };
    Ok(Question {
        rhythm: Rhythm { interval: shape.step, write: shape.step },
        shape: Arc::new(shape),
        files: facts.files,
        memory,
        page: facts.page,
        readahead: request::readahead(facts.readahead_kib),
        is_advised: true,
        is_in_step: facts.in_step > facts.sampled / 2,
        system: request::system_of(directory)?,
        reads: None,
    })
}

fn said(question: &Question, answer: &Answer) -> [Finding; 2] {
    let weight = match answer.fit {
        Fit::Fits => Weight::Good,
        Fit::Partly(_) => Weight::Note,
        Fit::Not => Weight::Bad,
    };
    let first = change::changes(question, answer).into_iter().next();
    let advice = first.map_or(String::new(), |Change { what, brings, .. }| format!("{what} ({brings})"));
    let worst = answer.worst;
    [
        Finding { weight, fact: format!("plan: {}", table::sentence(question, answer)), advice },
        Finding {
            weight: Weight::Good,
            fact: format!(
                "plan: {} page-ins a second on average, {} in the worst round, at {}, with an update each {}",
                words::count(answer.mean),
                words::count(worst.page_ins),
                table::clock(worst.time),
                words::time(question.rhythm.interval)
            ),
            advice: String::new(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    fn facts(files: u64, memory: u64) -> Facts {
        let layout = |name| Arc::new(named::definition(name).unwrap());
        Facts {
            page: 4096,
            files,
            memory: Some(memory),
            sampled: 200,
            layouts: vec![(layout("munin"), 20), (layout("mrtg"), 180)],
            ..Facts::default()
        }
    }

    fn told(facts: &Facts) -> String {
        let text = doctor::text(&planned(facts, Path::new("/")));
        assert_eq!(text.lines().find(|line| line.chars().count() > 80), None, "{text}");
        text
    }

    #[test]
    fn the_plan_is_for_the_commonest_layout_and_all_files() {
        let mut given = super::super::answer::tests::question(1, 1);
        given.shape = Arc::new(Shape::of(&facts(1, 1).layouts[1].0).unwrap());
        let said = planned(&facts(1000, 1 << 30), Path::new("/"));
        assert!(said[0].fact.starts_with("180 of 200 files have the commonest layout of 2"), "{said:?}");
        let asked = question(&facts(1000, 1 << 30), (*given.shape).clone(), Path::new("/"));
        // The disk of this test may have a file system that the plan does not know.
        if let Ok(asked) = asked {
            assert!(asked.shape.is_classic() && asked.files == 1000);
            let text = told(&facts(1000, 1 << 30)).replace("\n     ", " ");
            assert!(text.contains("ok   plan: 1,000 files fit"), "{text}");
            let text = told(&facts(1_000_000, 3 << 30));
            assert!(
                text.contains("BAD  plan: 1,000,000 files do not fit") && text.contains("     -> "),
                "{text}"
            );
        }
    }

    #[test]
    fn a_tree_of_which_no_file_was_read_has_no_plan() {
        assert_eq!(planned(&Facts::default(), Path::new("/")), []);
    }

    #[test]
    fn what_the_plan_cannot_say_has_a_reason() {
        let unknown = Facts { memory: None, ..facts(10, 0) };
        let text = told(&unknown).replace("\n     ", " ");
        assert!(
            text.contains("the plan says nothing of these files: the kernel does not say how much"),
            "{text}"
        );
        let small = told(&facts(1_000_000, 1 << 20));
        assert!(small.contains("note the plan says nothing of these files"), "{small}");
    }
}
