//! The paper's numbers beside those of this plan, for its own layout.

use super::answer::Room;
use super::model::Model;
use super::pages::Reading;
use super::paper::{self, Claim, Paper};
use super::question::Question;
use super::words;

/// Pages of the paper's comparison, and files and memory of its arithmetic.
const WHOLE_FILES: f64 = 300_000.0;
const HOT_FILES: f64 = 480_000.0;
const MACHINE: f64 = 16.0 * (1u64 << 30) as f64;
/// The paper's figure ends where nothing is read any more.
const PAGES: u64 = 9;

/// A number of the paper and ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The paper's.
    pub claim: Claim,
    /// Ours.
    pub here: String,
}

/// Page-ins a second of all files with a number of pages a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByPages {
    /// Pages of cache a file.
    pub pages: u64,
    /// By the paper's formula.
    pub paper: f64,
    /// By this plan's model.
    pub here: f64,
}

/// The paper's formula and this plan's model, from one page a file on; until all archives fit.
pub fn by_pages(question: &Question) -> Vec<ByPages> {
    let (paper, model) = (Paper::of(&question.shape, question.page), question.model());
    let files = question.files as f64;
    let at = |pages: u64| ByPages {
        pages,
        paper: files * paper.rate(pages),
        here: files * model.rate(&model.load(pages as f64)),
    };
    (1..=PAGES).map(at).collect()
}

/// The comparison; nothing for another layout.
pub fn beside(question: &Question) -> Vec<Beside> {
    if !question.shape.is_classic() {
        return vec![];
    }
    let of = |reading| Model::new(&question.shape, question.page, reading, question.rhythm);
    let (advised, ahead) = (of(Reading::Advised), of(Reading::Ahead(question.readahead / question.page)));
    let page = question.page as f64;
    let decimal = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
    let room = Room {
        memory: MACHINE,
        aside: question.system.a_file(question.shape.length, advised.hot(), question.page),
        page: question.system.a_page(question.page),
    };
    let rows = [
        (paper::SIZE, words::grouped(question.shape.length)),
        (
            paper::READ,
            format!("{} where {}", words::count(ahead.ordinary()), words::count(advised.ordinary())),
        ),
        (paper::CACHE, format!("{}, {}", words::count(ahead.hot()), words::count(advised.hot()))),
        (paper::FALL, words::count(ahead.hot())),
        (paper::NONE, format!("{} pages", words::count(advised.hot()))),
        (paper::WHOLE, decimal(WHOLE_FILES * ahead.hot() * page)),
        (paper::TOUCHED, decimal(WHOLE_FILES * advised.ordinary() * page)),
        (paper::HOT, decimal(HOT_FILES * advised.hot() * page)),
        (paper::MACHINE, words::count(room.files(advised.hot()))),
    ];
    rows.map(|(claim, here)| Beside { claim, here }).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::answer::tests::question;
    use super::super::named;
    use super::*;

    #[test]
    fn the_papers_numbers_stand_beside_ours() {
        let rows = beside(&question(300_000, 16 << 30));
        let here = |claim: Claim| rows.iter().find(|row| row.claim == claim).unwrap().here.clone();
        assert_eq!(here(paper::SIZE), "94,816");
        assert_eq!(here(paper::WHOLE), "29.5 GB");
        assert_eq!(here(paper::TOUCHED), "3.5 GB");
        assert_eq!(here(paper::READ), "24.0 where 2.88");
        let most: f64 = here(paper::MACHINE).replace(',', "").parse().unwrap();
        assert!(most > 320_000.0, "{most}");
    }

    #[test]
    fn another_layout_has_no_numbers_of_the_paper() {
        let shape = Arc::new(named::shape("munin").unwrap());
        assert_eq!(beside(&question(1, 1 << 30).with(|other| other.shape = shape)), []);
    }

    #[test]
    fn both_models_fall_with_each_page() {
        let rows = by_pages(&question(300_000, 16 << 30));
        assert_eq!(rows.len(), 9);
        assert!(
            rows.windows(2).all(|two| two[1].paper < two[0].paper && two[1].here < two[0].here),
            "{rows:?}"
        );
        assert_eq!((rows[0].paper.round(), rows[8].paper), (2424.0, 0.0));
    }
}
