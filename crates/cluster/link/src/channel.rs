//! The fields of the frame Channel that an Interest does not have: the channel's name and its handler. The link does not
//! read the handler.

use std::sync::Arc;

use khz_model::channel::CHANNEL_NAME_MAX;
use khz_model::name::NameError;
use khz_model::{ChannelName, ChannelTerms};

use crate::limits::HANDLER_BYTES_MAX;
use crate::wire::{Body, Misfit, put_text, put_varint};

/// A channel's name and handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFrame<'a> {
    /// Its name, not yet checked.
    pub name: &'a str,
    /// Its handler; only nodes read it.
    pub handler: &'a [u8],
}

impl<'a> ChannelFrame<'a> {
    /// The same, checked and owned.
    ///
    /// # Errors
    /// Returns what is wrong with the name.
    pub fn to_terms(&self) -> Result<Arc<ChannelTerms>, NameError> {
        Ok(Arc::new(ChannelTerms { name: ChannelName::new(self.name)?, handler: self.handler.into() }))
    }

    pub(crate) fn read(body: &mut Body<'a>) -> Result<Self, Misfit> {
        let name = body.text(CHANNEL_NAME_MAX)?;
        let at = body.at();
        let length = body.varint()?;
        if length > HANDLER_BYTES_MAX as u64 {
            return Err(Misfit { at, problem: "a handler larger than 32 KiB" });
        }
        Ok(ChannelFrame { name, handler: body.bytes(length as usize)? })
    }

    /// Appends it. A handler that is too long is cut, and then no node takes it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self.name, CHANNEL_NAME_MAX);
        let handler = &self.handler[..self.handler.len().min(HANDLER_BYTES_MAX)];
        put_varint(out, handler.len() as u64);
        out.extend_from_slice(handler);
    }
}

impl<'a> From<&'a ChannelTerms> for ChannelFrame<'a> {
    fn from(terms: &'a ChannelTerms) -> Self {
        ChannelFrame { name: terms.name.as_str(), handler: &terms.handler }
    }
}
