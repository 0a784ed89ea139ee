//! The name of a lane that is over: a channel that the hub itself wanted ran at the node in it, while the hub was away. It has a name
//! of its own, because the lane that runs now has the channel's.

use khz_model::ChannelName;

/// After the name of the channel's lane.
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
