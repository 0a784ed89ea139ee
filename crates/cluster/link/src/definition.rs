//! A channel that a hub keeps, as a frame: its name and its definition as JSON. The link does not read the definition.

use khz_model::channel::CHANNEL_NAME_MAX;

use crate::frame::kind;
use crate::limits::DEFINITION_BYTES_MAX;
use crate::put::open;
use crate::wire::{Body, Misfit, put_text, put_varint};

/// A channel and its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionFrame<'a> {
    /// The channel's name, not yet checked.
    pub name: &'a str,
    /// The definition: a JSON object, as docs/channels.md describes it.
    pub json: &'a str,
}

impl<'a> DefinitionFrame<'a> {
    /// Appends it. A definition that is too long is left out: half of an object is no JSON.
    pub fn put(&self, out: &mut Vec<u8>) {
        if self.json.len() > DEFINITION_BYTES_MAX {
            return;
        }
        let frame = open(out, kind::DEFINITION);
        put_text(out, self.name, CHANNEL_NAME_MAX);
        put_text(out, self.json, DEFINITION_BYTES_MAX);
        frame.close(out);
    }

    pub(crate) fn read(body: &mut Body<'a>) -> Result<Self, Misfit> {
        Ok(DefinitionFrame { name: body.text(CHANNEL_NAME_MAX)?, json: body.text(DEFINITION_BYTES_MAX)? })
    }
}

/// Appends a Channels: begins or ends the list of channels.
pub fn put_wanted(out: &mut Vec<u8>, wanted: bool) {
    let frame = open(out, kind::CHANNELS);
    out.push(u8::from(wanted));
    frame.close(out);
}

/// Appends a Definitions: the frames before it have named every channel.
pub fn put_end(out: &mut Vec<u8>, channels: usize) {
    let frame = open(out, kind::DEFINITIONS);
    put_varint(out, channels as u64);
    frame.close(out);
}
