//! The name of a former lane: the hub itself wanted a channel, and the channel ran at the node in this lane while the hub was away.
//! The former lane needs its own name, because the lane that runs now has the name of the channel.

use khz_model::ChannelName;

/// Follows the channel's name in the name of a former lane.
const FORMER: &str = ".former";

/// The name of the former lane of a channel with this number. The first has the number 1.
pub fn name(channel: &ChannelName, number: usize) -> String {
    let first = format!("{}{FORMER}", channel.metric());
    if number > 1 { format!("{first}.{number}") } else { first }
}

/// The channel whose former lane has this name; `None`: it is the name of another lane.
pub fn channel_of(lane: &str) -> Option<&str> {
    let (channel, number) = lane.strip_prefix(ChannelName::PREFIX)?.split_once(FORMER)?;
    (number.is_empty() || number.starts_with('.')).then_some(channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_former_lanes_say_of_which_channel_they_are() {
        let hot = ChannelName::new("hot").expect("a good name");
        assert_eq!([name(&hot, 1), name(&hot, 2)], ["channel.hot.former", "channel.hot.former.2"]);
        assert_eq!([1, 2].map(|number| channel_of(&name(&hot, number)) == Some("hot")), [true; 2]);
        for other in ["base", "channel.hot", "channel.hot.2", "channel.former", "boost1"] {
            assert_eq!(channel_of(other), None, "{other}");
        }
    }
}
