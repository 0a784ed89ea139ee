//! What directories list.

use super::*;

/// A row of these readings for the subscription to everything.
fn readings(lab: &mut Lab, node: &str, values: &[(&str, Reading)]) {
    let subscription = lab.subscription(&format!("{node}:*"));
    let columns: Vec<Series> = values.iter().map(|(metric, _)| series(metric, None)).collect();
    let lane = lane(subscription, node);
    lab.tree.columns(lane, subscription, &name(node), &Arc::new(columns));
    let stamp = Stamp { boot: Nanos(lab.tree.cluster.rows() + 1), real_offset: 0 };
    lab.tree.row(lane, stamp, &mut values.iter().map(|&(_, reading)| reading).enumerate());
}

#[test]
fn a_series_without_a_value_is_not_listed() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/net"), Answer::Wait);
    let gone = Reading::Absent(khz_model::Absence::InstanceGone);
    let failed = Reading::Failed(khz_model::Fault::Unreadable);
    let there = Reading::Present(7);
    readings(&mut lab, "n1", &[("net.a", there), ("net.b", gone), ("job.x", gone), ("job.y", failed)]);
    let (metrics, net, job) = (lab.at("n1/metrics"), lab.at("n1/metrics/net"), lab.at("n1/metrics/job"));
    let listed = |lab: &mut Lab, inode| match lab.list(inode) {
        Answer::Ready(names) => names.join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(&mut lab, metrics), "net");
    assert_eq!(listed(&mut lab, net), "a");
    assert_eq!(listed(&mut lab, job), "");
    let file = lab.at("n1/metrics/net/b");
    assert_eq!(lab.cat(file, false), Answer::Fail(libc::ENODATA), "an open says why there is no value");
    readings(&mut lab, "n1", &[("net.a", there), ("net.b", there), ("job.x", there), ("job.y", gone)]);
    assert_eq!(listed(&mut lab, metrics), "net job");
    assert_eq!(listed(&mut lab, net), "a b");
}

/// `stat`, open, `fstat`, read: what an archiver does.
#[test]
fn a_value_whose_length_was_told_is_read_although_its_instance_goes_meanwhile() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/net"), Answer::Wait);
    let subscription = lab.subscription("n1:*");
    let lane = lane(subscription, "n1");
    let columns = ["net.a", "net.b", "net.c"].map(|metric| series(metric, None)).to_vec();
    lab.tree.columns(lane, subscription, &name("n1"), &Arc::new(columns));
    let row = |lab: &mut Lab, second: u64, reading: Reading| {
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        lab.tree.row(lane, stamp, &mut [Reading::Present(1), reading, reading].into_iter().enumerate());
    };
    let size = |lab: &mut Lab, file| lab.tree.attributes(file, lab.now).unwrap().size;
    row(&mut lab, 10, Reading::Present(4_711));
    let [b, c] = ["b", "c"].map(|metric| lab.at(&format!("n1/metrics/net/{metric}")));
    assert_eq!(size(&mut lab, b), 5);
    row(&mut lab, 11, Reading::Absent(khz_model::Absence::InstanceGone));
    let Answer::Ready(open) = lab.tree.open(b, false, READER, lab.now, false) else { panic!("b") };
    assert_eq!(size(&mut lab, b), 5);
    lab.pass(crate::limits::LENGTH_HOLD / 2);
    assert_eq!(lab.read(open.handle), text("4711\n"));
    assert_eq!(size(&mut lab, b), 5);
    lab.tree.release(open.handle, lab.now);
    assert_eq!((size(&mut lab, c), lab.cat(c, false)), (0, text("")), "nobody knew its length");
    lab.pass(crate::limits::LENGTH_HOLD);
    assert_eq!((size(&mut lab, b), lab.cat(b, false)), (0, text("")), "that was long ago");
}

/// The same when the file is open already.
#[test]
fn a_value_that_goes_between_open_and_read_is_read_as_it_was() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/net"), Answer::Wait);
    let subscription = lab.subscription("n1:*");
    let lane = lane(subscription, "n1");
    lab.tree.columns(lane, subscription, &name("n1"), &Arc::new(vec![series("net.a", None)]));
    let row = |lab: &mut Lab, second: u64, reading: Reading| {
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        lab.tree.row(lane, stamp, &mut [reading].into_iter().enumerate());
    };
    row(&mut lab, 10, Reading::Present(4_711));
    let a = lab.at("n1/metrics/net/a");
    let Answer::Ready(open) = lab.tree.open(a, false, READER, lab.now, false) else { panic!("a") };
    row(&mut lab, 11, Reading::Absent(khz_model::Absence::InstanceGone));
    lab.work();
    assert_eq!(lab.tree.attributes(a, lab.now).unwrap().size, 5);
    assert_eq!(lab.read(open.handle), text("4711\n"));
}

#[test]
fn an_instance_that_has_just_gone_is_listed_for_a_while_and_its_file_is_empty() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/net"), Answer::Wait);
    let (gone, there) = (Reading::Absent(khz_model::Absence::InstanceGone), Reading::Present(7));
    let failed = Reading::Failed(khz_model::Fault::Unreadable);
    let subscription = lab.subscription("n1:*");
    let lane = lane(subscription, "n1");
    let columns = ["net.a", "net.b", "net.c", "net.d"].map(|metric| series(metric, None)).to_vec();
    lab.tree.columns(lane, subscription, &name("n1"), &Arc::new(columns));
    // One row a second.
    let mut second = 10;
    let mut rows = |lab: &mut Lab, readings: [Reading; 4], seconds: u64| {
        for _ in 0..seconds {
            let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
            lab.tree.row(lane, stamp, &mut readings.into_iter().enumerate());
            second += 1;
        }
    };
    let listed = |lab: &mut Lab| match lab.find("n1/metrics/net").map(|net| lab.list(net)) {
        Answer::Ready(Answer::Ready(names)) => names.join(" "),
        other => panic!("{other:?}"),
    };
    rows(&mut lab, [there, there, gone, there], 1);
    assert_eq!(listed(&mut lab), "a b d", "c was never there");
    let [b, c, d] = ["b", "c", "d"].map(|metric| lab.at(&format!("n1/metrics/net/{metric}")));
    rows(&mut lab, [there, gone, gone, failed], 9);
    assert_eq!(listed(&mut lab), "a b", "a value that could not be read is not listed");
    assert_eq!(lab.cat(b, false), text(""), "a program that walks the tree can read every file");
    assert_eq!(lab.tree.attributes(b, lab.now).unwrap().size, 0);
    assert_eq!(lab.cat(c, false), Answer::Fail(libc::ENODATA));
    assert_eq!(lab.cat(d, false), Answer::Fail(libc::EIO));
    let Answer::Ready(open) = lab.tree.open(b, false, READER, lab.now, false) else { panic!("b") };
    rows(&mut lab, [there, gone, gone, failed], 2);
    assert_eq!(listed(&mut lab), "a");
    assert_eq!(lab.cat(b, false), Answer::Fail(libc::ENODATA));
    assert_eq!(lab.read(open.handle), Answer::Fail(libc::ENODATA), "also for a file that was opened in time");
    rows(&mut lab, [there, there, gone, failed], 1);
    assert_eq!(listed(&mut lab), "a b");
    assert_eq!(lab.read(open.handle), text("7\n"));
}
