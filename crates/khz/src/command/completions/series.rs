//! How a pattern or a list of nodes goes on. Steps end where there is a choice: `net.`, `net.rx_bytes[`, `node7:`.

use std::collections::BTreeSet;

use super::known::Known;

/// With more metrics than these, only the families are offered (`cpu.`, `net.`): nobody reads a longer list.
const METRICS_SHOWN_MAX: usize = 40;
/// Words that are offered at most.
pub const WORDS_MAX: usize = 500;

/// The patterns [NODES:]METRIC[INSTANCE] with which this word can go on.
pub fn patterns(known: &Known, word: &str) -> Vec<String> {
    let mut words = one_step(known, word);
    // A step without a choice is not one.
    if let [only] = words.as_slice()
        && is_open(only)
        && only != word
    {
        let further = one_step(known, only);
        words = if further.is_empty() { words } else { further };
    }
    words.truncate(WORDS_MAX);
    words
}

/// Something comes after it.
fn is_open(word: &str) -> bool {
    word.ends_with(['.', '[', ':'])
}

fn one_step(known: &Known, word: &str) -> Vec<String> {
    let (hosts, series) = word.split_at(after_hosts(word));
    let mut words = match series.split_once('[') {
        Some((metric, _)) => {
            let all = known.series(hosts, metric).into_iter();
            return all
                .map(|series| format!("{hosts}{series}"))
                .filter(|name| name.starts_with(word))
                .collect();
        }
        None => metrics(&known.metrics(), series),
    };
    words.iter_mut().for_each(|name| name.insert_str(0, hosts));
    if hosts.is_empty() {
        let nodes = known.nodes().iter().filter(|node| node.starts_with(word));
        words.extend(nodes.take(WORDS_MAX).map(|node| format!("{node}:")));
    }
    words
}

/// The metrics that begin like this, or their families where there are many.
fn metrics(all: &[(String, bool)], begin: &str) -> Vec<String> {
    let named: Vec<&(String, bool)> = all.iter().filter(|(name, _)| name.starts_with(begin)).collect();
    let whole = |(name, has_instances): &(String, bool)| {
        if *has_instances { format!("{name}[") } else { name.clone() }
    };
    if named.len() <= METRICS_SHOWN_MAX {
        return named.into_iter().map(whole).collect();
    }
    let family = |one: &(String, bool)| match one.0[begin.len()..].find('.') {
        Some(dot) => one.0[..=begin.len() + dot].to_owned(),
        None => whole(one),
    };
    named.into_iter().map(family).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Where the series begins: after the first colon that is not between brackets.
fn after_hosts(word: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in word.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    0
}

/// The lists of nodes with which this word can go on: its last node.
pub fn nodes(known: &Known, word: &str) -> Vec<String> {
    let begin = word.rfind(',').map_or(0, |comma| comma + 1);
    let (before, last) = word.split_at(begin);
    let nodes = known.nodes().iter().filter(|node| node.starts_with(last));
    nodes.take(WORDS_MAX).map(|node| format!("{before}{node}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_metrics_are_offered_as_families() {
        let few = [("mem.free".to_owned(), false), ("net.rx_bytes".to_owned(), true)];
        assert_eq!(metrics(&few, ""), ["mem.free", "net.rx_bytes["]);
        let mut many: Vec<(String, bool)> = (0..50).map(|n| (format!("cpu.x{n}.y"), false)).collect();
        many.extend(few);
        assert_eq!(metrics(&many, ""), ["cpu.", "mem.", "net."]);
        assert_eq!(metrics(&many, "cpu.").len(), 50);
        assert_eq!(metrics(&many, "cpu.")[0], "cpu.x0.");
        assert_eq!(metrics(&many, "mem.f"), ["mem.free"]);
        assert!(metrics(&many, "zebra").is_empty());
    }

    #[test]
    fn a_colon_between_brackets_ends_no_nodes() {
        for (word, hosts) in
            [("node7:mem.f", "node7:"), ("node[1-3]:net", "node[1-3]:"), ("fs.size[a:b", ""), ("mem", "")]
        {
            assert_eq!(&word[..after_hosts(word)], hosts);
        }
    }
}
