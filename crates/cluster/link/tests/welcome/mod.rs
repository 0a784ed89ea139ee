//! What a hub sends first: version 1, and no abilities.

use khz_link::limits::VERSION;
use khz_link::{Greeting, Welcome};
use khz_model::Nanos;

pub fn welcome(out: &mut Vec<u8>) {
    Greeting { lowest: 1, highest: VERSION, nonce: [1; 32], identity: [2; 16], name: "hub", sources: &[] }
        .put(out);
    Welcome { version: VERSION, silence: Nanos::SECOND, abilities: 0 }.put(out);
}
