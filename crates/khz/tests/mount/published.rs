//! What jobs publish, as files.

use crate::lab::{Lab, until};

#[test]
fn published_numbers_below_zero_doubles_and_labels_are_files() {
    let lab = Lab::new("published");
    let words = ["publish", "queue[worker 3,rank=1]=-17", "queue[rank=2]=5", "loss=-2.5e-7 type=float"];
    assert!(lab.khz(&words).status().unwrap().success());
    let read = |below: &str| std::fs::read_to_string(lab.cluster().join(below)).unwrap_or_default();
    until("the numbers are there", || read("n1/metrics/job/loss") == "-2.5e-7\n");
    for (file, text) in [
        ("n1/metrics/job/queue/worker%203,rank=1", "-17\n"),
        ("n1/metrics/job/queue/rank=2", "5\n"),
        (".by/job.loss", "n1 -2.5e-7\n"),
    ] {
        until(&format!("{file} has {text}"), || read(file) == text);
    }
}
