//! Finds the nodes that a freeze means. Only this module reads the text, so it also resolves other names for groups of nodes, such
//! as jobs.

use std::collections::BTreeSet;

use khz_http::FreezeRefusal;
use khz_job::Jobs;
use khz_model::hostlist::Hostlist;
use khz_model::{NodeName, fold};

use super::FREEZE_NODES_MAX;

/// The nodes that a text means: a hostlist with globs, matched against the nodes that the hub knows. Literal names count even if
/// the hub does not know them. The freeze then reports them as missing.
pub fn nodes(text: &str, known: &[NodeName], jobs: &Jobs) -> Result<BTreeSet<NodeName>, FreezeRefusal> {
    let text = text.trim();
    if let Some(job) = text.strip_prefix("job(").and_then(|rest| rest.strip_suffix(')')) {
        return at_most(text, of_job(job.trim(), jobs)?);
    }
    let list = Hostlist::new(text).map_err(|error| {
        FreezeRefusal::Wrong(format!("'{text}' is no list of nodes: at {}: {}", error.at + 1, error.problem))
    })?;
    let mut nodes: BTreeSet<NodeName> =
        known.iter().filter(|node| list.matches(node.as_str())).cloned().collect();
    for name in list.named() {
        let name = NodeName::new(&name).map_err(|error| FreezeRefusal::Wrong(error.to_string()))?;
        nodes.insert(name);
    }
    if nodes.is_empty() {
        return Err(FreezeRefusal::Nobody(format!(
            "no node is called '{text}'; the hub knows {}",
            names(known)
        )));
    }
    at_most(text, nodes)
}

fn at_most(text: &str, nodes: BTreeSet<NodeName>) -> Result<BTreeSet<NodeName>, FreezeRefusal> {
    if nodes.len() > FREEZE_NODES_MAX {
        let text =
            format!("'{text}' means {} nodes, and a freeze has at most {FREEZE_NODES_MAX}", nodes.len());
        return Err(FreezeRefusal::Wrong(text));
    }
    Ok(nodes)
}

/// The nodes of the last run of a job.
fn of_job(id: &str, jobs: &Jobs) -> Result<BTreeSet<NodeName>, FreezeRefusal> {
    let Some(job) = jobs.last(id) else {
        let text = format!("the hub knows no job {id}: `khz job list` shows all, or name the nodes");
        return Err(FreezeRefusal::Nobody(text));
    };
    let names = job.node_names().into_iter();
    names.map(|name| NodeName::new(&name).map_err(|error| FreezeRefusal::Wrong(error.to_string()))).collect()
}

fn names(known: &[NodeName]) -> String {
    match known.len() {
        0 => "no node".to_owned(),
        1..=64 => fold::fold(known.iter().map(NodeName::as_str)),
        many => format!("{many} nodes"),
    }
}

#[cfg(test)]
mod tests {
    use khz_job::Start;

    use super::*;

    fn meant(text: &str) -> Result<Vec<String>, FreezeRefusal> {
        let known: Vec<NodeName> =
            ["n1", "n2", "login1"].iter().map(|name| NodeName::new(name).expect("a good name")).collect();
        let jobs = Jobs::in_memory();
        let start = Start { id: "4711".into(), nodes: "n[2-3]".into(), ..Start::default() };
        jobs.start(start, 1_000).expect("a good job");
        nodes(text, &known, &jobs).map(|nodes| nodes.iter().map(|node| node.to_string()).collect())
    }

    #[test]
    fn a_hostlist_means_known_nodes_by_its_globs_and_others_by_their_names() {
        assert_eq!(meant("*").unwrap(), ["login1", "n1", "n2"]);
        assert_eq!(meant(" n* ").unwrap(), ["n1", "n2"]);
        assert_eq!(meant("n[2-3],login*").unwrap(), ["login1", "n2", "n3"]);
        assert!(matches!(meant("x*"), Err(FreezeRefusal::Nobody(text)) if text.contains("login1,n[1-2]")));
        assert!(matches!(meant("n[1-"), Err(FreezeRefusal::Wrong(_))));
        assert!(matches!(meant("n[1-9999]"), Err(FreezeRefusal::Wrong(text)) if text.contains("4096")));
    }

    #[test]
    fn a_job_means_its_nodes_and_one_that_nobody_knows_is_refused() {
        assert_eq!(meant("job(4711)").unwrap(), ["n2", "n3"]);
        assert!(matches!(meant("job(9)"), Err(FreezeRefusal::Nobody(text)) if text.contains("no job 9")));
    }
}
