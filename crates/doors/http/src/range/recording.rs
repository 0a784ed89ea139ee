//! The past as a recording, which `khz` reads as it reads a file: rows, with the whole descriptions of their series. It holds one
//! step of one node at a time.

use khz_block::trace::{PastTrace, Sealed, begin_sealed};
use khz_model::{Nanos, RangeAnswer};

use super::Past;
use crate::json;
use crate::limits::RECORDING_BYTES_AT_ONCE;
use crate::pages::Writer;
use crate::refusal::Refusal;

/// An answer that becomes a recording.
struct Recording {
    answer: Box<dyn RangeAnswer>,
    trace: PastTrace,
    /// Chunks that are not sent yet.
    chunks: Vec<u8>,
    /// How the answer ends, if it does.
    end: Option<Result<(), Refusal>>,
}

impl Recording {
    /// Reads until there are enough chunks.
    fn read(mut self) -> Self {
        while self.chunks.len() < RECORDING_BYTES_AT_ONCE && self.end.is_none() {
            self.end = self.part().transpose();
            for damage in self.answer.damage() {
                note("damage", &damage, &mut self.chunks);
            }
        }
        self
    }

    /// Takes the next part. At the end, or where the answer must stop, it says so.
    fn part(&mut self) -> Result<Option<()>, Refusal> {
        let cannot = |error: khz_block::BlockError| Refusal::bad_request(error.to_string());
        match self.answer.next()? {
            Some(part) => self.trace.part(part, &mut self.chunks).map(|()| None).map_err(cannot),
            None => self.trace.flush(&mut self.chunks).map(Some).map_err(cannot),
        }
    }
}

impl Past {
    /// Writes the answer as a recording. Its last note says that it is whole, or why it had to stop.
    pub(super) async fn record(
        self,
        mut writer: Writer,
        answer: Box<dyn RangeAnswer>,
        now: Nanos,
    ) -> Result<Writer, Refusal> {
        let (trace, mut begin) = (PastTrace::new(now.0), Vec::new());
        begin_sealed(concat!("{\"program\":\"khz ", env!("CARGO_PKG_VERSION"), "\"}"), &mut begin);
        let mut recording = Recording { answer, trace, chunks: Vec::new(), end: None };
        loop {
            recording = self.blocking(move || recording.read()).await?;
            let end = match recording.end.take() {
                // Before the first byte the status can still say it.
                Some(Err(refusal)) if !begin.is_empty() && recording.chunks.is_empty() => {
                    return Err(refusal);
                }
                end => end,
            };
            match &end {
                Some(Ok(())) => note("end", "whole", &mut recording.chunks),
                Some(Err(refusal)) => note("error", &refusal.error, &mut recording.chunks),
                None => {}
            }
            let mut chunks = std::mem::take(&mut begin);
            chunks.append(&mut recording.chunks);
            writer.hold((recording.trace.held() + chunks.capacity()) as u64)?;
            writer.send(chunks).await?;
            if end.is_some() {
                return Ok(writer);
            }
        }
    }
}

/// A note `{"KIND":"TEXT"}`.
fn note(kind: &str, text: &str, chunks: &mut Vec<u8>) {
    let mut note = format!("{{\"{kind}\":");
    json::text(&mut note, text);
    note.push('}');
    Sealed::Note(&note).put(chunks);
}
