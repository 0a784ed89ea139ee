//! A request as it is sent: packed, and how many samples it has. One that is too large for its receiver can be halved.

use crate::RemoteError;
use crate::wire::{Packer, halves, unpack};

/// The packed bytes of a request.
#[derive(Debug, Default)]
pub struct Parcel {
    /// What is sent.
    pub bytes: Vec<u8>,
    /// Samples in it, stale markers included.
    pub samples: usize,
}

impl Parcel {
    /// Two requests with half of the series each, in their order; `None`: there is one series.
    pub fn halves(&self) -> Result<Option<[Parcel; 2]>, RemoteError> {
        let whole = unpack(&self.bytes)?;
        let Some((at, samples)) = halves(&whole)? else { return Ok(None) };
        let (first, second) = whole.split_at(at);
        let (mut packer, mut one, mut two) = (Packer::default(), Parcel::default(), Parcel::default());
        packer.pack(first, &mut one.bytes)?;
        packer.pack(second, &mut two.bytes)?;
        (one.samples, two.samples) = (samples, self.samples.saturating_sub(samples));
        Ok(Some([one, two]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::WriteRequest;
    use crate::write::Request;

    #[test]
    fn halves_have_all_series_in_their_order_and_one_series_has_none() {
        let mut request = Request::default();
        for name in ["a", "b", "c", "d", "e"] {
            request.add([("__name__", name)], &[(1, 1.0), (2, 2.0)]);
        }
        let mut parcel = Parcel::default();
        request.pack_into(&mut Packer::default(), &mut parcel).unwrap();
        assert_eq!(parcel.samples, 10);
        let mut parts = vec![parcel];
        let mut single: Vec<String> = Vec::new();
        while let Some(part) = parts.pop() {
            match part.halves().unwrap() {
                Some([one, two]) => {
                    assert_eq!(one.samples + two.samples, part.samples);
                    parts.extend([two, one]);
                }
                None => {
                    let series = WriteRequest::unpack(&part.bytes).unwrap().timeseries;
                    assert_eq!((series.len(), part.samples), (1, 2));
                    single.push(series[0].labels[0].value.clone());
                }
            }
        }
        assert_eq!(single, ["a", "b", "c", "d", "e"]);
    }
}
