//! Jobs: the log of them, requests that start and end them, and patterns that name one. Refused or taken; what is taken is sound.

#![no_main]

use khz_job::{End, Jobs, Start, pattern, replayed};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for job in replayed(bytes) {
        assert!(khz_job::check_id(&job.id).is_ok() && !job.node_names().is_empty());
        assert!(job.end.is_none_or(|end| end >= job.begin));
    }
    let (jobs, id) = (Jobs::in_memory(), "7".to_owned());
    if let Ok(start) = Start::from_json(bytes)
        && let Ok(job) = jobs.start(Start { id: id.clone(), ..start }, 1_000)
    {
        assert!(job.begin <= 1_000 && !job.name.contains('\u{1b}'));
        assert_eq!(jobs.last(&id), Some(job));
    }
    if let Ok(end) = End::from_json(bytes) {
        let _ = jobs.end(End { id, ..end }, 2_000);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(Ok((id, series))) = pattern::named(text)
    {
        let _ = pattern::of_nodes(id, &["n1".to_owned(), "n2".to_owned()], series);
    }
});
