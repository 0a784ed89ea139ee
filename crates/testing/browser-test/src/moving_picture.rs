//! A moving picture from still ones: WebP frames, as Chromium makes them, in the container of an animated WebP. It encodes no picture.
//! The format: <https://developers.google.com/speed/webp/docs/riff_container>.

use std::path::Path;
use std::time::Duration;

use crate::base64::decoded;

/// Flag of the extended header: there is an animation.
const ANIMATION: u8 = 2;
/// Flag of a frame: it replaces what was there.
const NO_BLENDING: u8 = 2;

/// Frames of one size.
pub struct MovingPicture {
    size: (u32, u32),
    /// The chunks of each frame, and how long it is shown.
    frames: Vec<(Vec<u8>, Duration)>,
}

impl MovingPicture {
    /// A picture without frames.
    pub fn new(width: u32, height: u32) -> Self {
        MovingPicture { size: (width, height), frames: Vec::new() }
    }

    /// Adds a still WebP picture, in base64. One that equals the last one is the last one for longer.
    pub fn push(&mut self, base64: &str, time: Duration) {
        let frame = image_chunks(&decoded(base64));
        match self.frames.last_mut() {
            Some((last, shown)) if *last == frame => *shown += time,
            _ => self.frames.push((frame, time)),
        }
    }

    /// Writes it to a file; it repeats for ever.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn bytes(&self) -> Vec<u8> {
        let (width, height) = self.size;
        let mut body = b"WEBP".to_vec();
        let mut extended = vec![ANIMATION, 0, 0, 0];
        extended.extend(u24(width - 1).into_iter().chain(u24(height - 1)));
        chunk(&mut body, b"VP8X", &extended);
        // No background, and no last repetition.
        chunk(&mut body, b"ANIM", &[0; 6]);
        for (frame, shown) in &self.frames {
            let mut data =
                [u24(0), u24(0), u24(width - 1), u24(height - 1), u24(shown.as_millis() as u32)].concat();
            data.push(NO_BLENDING);
            data.extend(frame);
            chunk(&mut body, b"ANMF", &data);
        }
        let mut whole = Vec::new();
        chunk(&mut whole, b"RIFF", &body);
        whole
    }
}

/// Appends a chunk, and a byte where its length is odd.
fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend(name);
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out.extend(std::iter::repeat_n(0, data.len() % 2));
}

fn u24(number: u32) -> [u8; 3] {
    let [a, b, c, _] = number.to_le_bytes();
    [a, b, c]
}

/// The chunks of a still picture that hold its pixels.
fn image_chunks(webp: &[u8]) -> Vec<u8> {
    assert!(webp.starts_with(b"RIFF") && webp.get(8..12) == Some(b"WEBP"), "no WebP picture");
    let (mut out, mut rest) = (Vec::new(), &webp[12..]);
    while let Some((head, after)) = rest.split_at_checked(8) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (data, behind) = after.split_at(length.min(after.len()));
        let name: [u8; 4] = [head[0], head[1], head[2], head[3]];
        if [b"VP8 ", b"VP8L", b"ALPH"].contains(&&name) {
            chunk(&mut out, &name, data);
        }
        rest = behind.get(length % 2..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_the_container_and_equal_ones_are_one() {
        let still = |pixels: &[u8]| {
            let mut body = b"WEBP".to_vec();
            chunk(&mut body, b"ICCP", b"profile");
            chunk(&mut body, b"VP8 ", pixels);
            let mut whole = Vec::new();
            chunk(&mut whole, b"RIFF", &body);
            image_chunks(&whole)
        };
        assert_eq!(still(b"abc"), b"VP8 \x03\0\0\0abc\0");
        let half = Duration::from_millis(500);
        let mut picture = MovingPicture::new(300, 2);
        // Base64 of a still picture with one empty chunk.
        picture.push("UklGRgwAAABXRUJQVlA4IAAAAAA=", half);
        picture.push("UklGRgwAAABXRUJQVlA4IAAAAAA=", half);
        assert_eq!(picture.frames.len(), 1);
        let bytes = picture.bytes();
        assert_eq!(bytes[..4], *b"RIFF");
        assert_eq!(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize, bytes.len() - 8);
        assert_eq!(bytes[24..30], [43, 1, 0, 1, 0, 0], "width and height, less one");
        assert!(bytes.ends_with(b"\xe8\x03\0\x02VP8 \0\0\0\0"), "shown for a second");
    }
}
