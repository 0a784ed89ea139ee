//! Memory of queries goes back to the system, also where the answer is short or refused. One test: the count is that of the process.

// clippy's `allow-unwrap-in-tests` does not cover helpers of tests.
#![allow(clippy::unwrap_used)]

mod fake;

use std::sync::Arc;

use fake::{FakeNode, Server};
use khz_door::heap::given_back;
use khz_model::ByteSize;

/// A thousand series with six hundred samples each: five megabytes.
const ALL: &str = "%7Bjob=%22node%22%7D";
const SPAN: &str = "start=1763690000&end=1763690600&step=1";

#[test]
fn the_memory_of_a_query_goes_back_when_it_ends_with_a_short_answer_or_none() {
    let server =
        Server::start_with(Arc::new(FakeNode::many(150)), |door| door.limits.answers = ByteSize(1 << 20));
    for (query, status) in [
        // Evaluated, and then there is no room for the answer.
        (format!("query={ALL}"), 503),
        // A short answer.
        (format!("query=count(label_replace({ALL},%22a%22,%22b%22,%22c%22,%22d%22))"), 200),
    ] {
        let before = given_back();
        let answer = server.get(&format!("/api/v1/query_range?{query}&{SPAN}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        server.wait(&format!("memory is returned after {query}"), |_| given_back() > before);
    }
}
