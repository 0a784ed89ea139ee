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
