//! The thread that gives the upstream its commands, and answers requests that wait. It never waits for the kernel: the thread
//! that pushes may wait there for a lookup that only this one can answer.

use std::sync::Arc;

use crate::effects::Command;
use crate::fuse::shared::Shared;
use crate::upstream::Upstream;

/// Runs until the mount is over.
pub(crate) fn run(shared: &Shared, upstream: &Arc<dyn Upstream>) {
    while let Some(mut errands) = shared.next_errands() {
        for command in errands.commands.drain(..) {
            match command {
                Command::Subscribe(subscription) => upstream.subscribe(subscription),
                Command::Unsubscribe(number) => upstream.unsubscribe(number),
                Command::ListNodes(wanted) => upstream.list_nodes(wanted),
                Command::SubscribeText(subscription) => upstream.subscribe_text(subscription),
                Command::ReadTextNow(number, request) => upstream.read_text_now(number, request),
                Command::UnsubscribeText(number) => upstream.unsubscribe_text(number),
                Command::ListChannels(wanted) => upstream.list_channels(wanted),
                Command::SubscribeChannel(subscription) => upstream.subscribe_channel(subscription),
                Command::UnsubscribeChannel(number) => upstream.unsubscribe_channel(number),
            }
        }
        shared.retry_lookups(&errands);
    }
}
