//! The answer as JSON: counts and seconds, bytes, pages; what is not known is null.

use serde_json::{Value, json};

use super::answer::{Answer, Fit};
use super::change;
use super::model::Round;
use super::paper_beside;
use super::question::Question;
use super::request::Origins;

/// The whole answer.
pub fn value(question: &Question, answer: &Answer, origins: &Origins) -> Value {
    let changes = change::changes(question, answer);
    json!({
        "files": question.files,
        "fits": fit(answer.fit),
        "files_that_fit": answer.capacity(),
        "files_in_time": answer.in_time,
        "memory_wanted": answer.wanted,
        "question": asked(question, origins),
        "pages_a_file": {
            "there_are": answer.pages,
            "header": answer.model.header,
            "ordinary_write": answer.model.ordinary(),
            "hot": answer.model.hot(),
            "whole": answer.model.whole,
        },
        "bytes_a_file": { "aside": answer.room.aside, "page": answer.room.page },
        "classes": classes(question, answer),
        "limits": limits(answer),
        "page_ins": {
            "mean": answer.mean,
            "worst_round": round(answer.worst),
            "median_round": answer.median,
            "hours": hours(question, answer),
        },
        "changes": changes.iter().map(|change| json!({
            "what": change.what,
            "brings": change.brings,
            "mean": change.after.as_ref().map(|after| after.mean),
            "worst_round": change.after.as_ref().map(|after| after.worst.page_ins),
            "files_that_fit": change.after.as_ref().map(Answer::capacity),
        })).collect::<Vec<_>>(),
        "paper": paper(question),
    })
}

fn fit(fit: Fit) -> &'static str {
    match fit {
        Fit::Fits => "yes",
        Fit::Partly(_) => "partly",
        Fit::Not => "no",
    }
}

fn asked(question: &Question, origins: &Origins) -> Value {
    json!({
        "layout": origins.layout,
        "step": question.shape.step,
        "sources": question.shape.sources,
        "archives": question.shape.archives.len(),
        "bytes": question.shape.length,
        "page": question.page,
        "interval": question.rhythm.interval,
        "write": question.rhythm.write,
        "memory": question.memory,
        "readahead": question.readahead,
        "advice": question.is_advised,
        "in_step": question.is_in_step,
        "reads": question.reads,
        "file_system": {
            "name": question.system.name,
            "block": question.system.block,
            "inode": question.system.inode,
            "extents": question.system.map == super::system::Map::Extents,
        },
    })
}

fn classes(question: &Question, answer: &Answer) -> Vec<Value> {
    let other = question.with(|other| other.is_advised = !question.is_advised).model();
    let (with, without) = if question.is_advised { (&answer.model, &other) } else { (&other, &answer.model) };
    let classes = answer.model.classes.iter().enumerate();
    classes
        .map(|(index, class)| {
            json!({
                "seconds": class.seconds,
                "archives": class.archives,
                "new_pages_a_write": class.new,
                "pages_with_advice": with.up_to(index + 1),
                "pages_without_advice": without.up_to(index + 1),
                "page_ins_a_write": answer.load.classes[index],
            })
        })
        .collect()
}

fn limits(answer: &Answer) -> Vec<Value> {
    let seconds = |classes: usize| classes.checked_sub(1).map(|last| answer.model.classes[last].seconds);
    let limits = answer.limits.iter();
    limits
        .map(|limit| json!({ "files": limit.files, "rows_up_to_seconds": seconds(limit.classes) }))
        .collect()
}

fn round(round: Round) -> Value {
    json!({ "time": round.time, "page_ins": round.page_ins })
}

fn hours(question: &Question, answer: &Answer) -> Vec<Value> {
    let hours = answer.model.hours(&answer.load, question.files as f64);
    hours.iter().map(|hour| json!({ "mean": hour.mean, "worst_round": hour.worst.map(round) })).collect()
}

fn paper(question: &Question) -> Value {
    let rows = paper_beside::beside(question);
    if rows.is_empty() {
        return Value::Null;
    }
    let by_pages = paper_beside::by_pages(question);
    json!({
        "claims": rows.iter().map(|row| json!({ "what": row.claim.what, "paper": row.claim.paper, "here": row.here }))
            .collect::<Vec<_>>(),
        "by_pages": by_pages.iter().map(|row| json!({ "pages": row.pages, "formula": row.paper, "here": row.here }))
            .collect::<Vec<_>>(),
    })
}
