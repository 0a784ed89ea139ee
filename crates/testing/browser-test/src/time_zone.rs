//! The time zone of a browser, chosen so that it is a certain hour there: what a page writes about a time depends on whether it was
//! on the same day. It owns the choice, and refuses to change any clock.

use std::time::SystemTime;

/// The hour in browsers that do not choose one: far from midnight on both sides.
pub const NOON: u64 = 12;
/// An hour in which a past of a few hours began yesterday.
pub const AFTER_MIDNIGHT: u64 = 0;

/// The name of a zone in which it is between `hour` and the next one now.
pub fn where_it_is(hour: u64) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    name(since.as_secs() / 3_600 % 24, hour)
}

/// Signs of these names are those of POSIX: Etc/GMT-2 is two hours before Greenwich. There are 14 of them, and 12 with a plus.
fn name(hour_at_greenwich: u64, hour: u64) -> String {
    match (24 + hour - hour_at_greenwich) % 24 {
        0 => "Etc/GMT".to_owned(),
        ahead @ ..=12 => format!("Etc/GMT-{ahead}"),
        ahead => format!("Etc/GMT+{}", 24 - ahead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hour_has_a_zone_at_each_hour() {
        assert_eq!(name(12, NOON), "Etc/GMT");
        assert_eq!(name(10, NOON), "Etc/GMT-2");
        assert_eq!(name(23, NOON), "Etc/GMT+11");
        assert_eq!(name(0, NOON), "Etc/GMT-12");
        assert_eq!(name(1, AFTER_MIDNIGHT), "Etc/GMT+1");
        assert_eq!(name(13, AFTER_MIDNIGHT), "Etc/GMT-11");
    }
}
