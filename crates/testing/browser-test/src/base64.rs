//! Base64, as browsers send pictures. It reads only: nothing is written.

/// The bytes. Signs that are none of base64 are left out.
pub fn decoded(base64: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for value in base64.bytes().filter_map(|byte| LETTERS.iter().position(|letter| *letter == byte)) {
        bits = (bits << 6 | value as u32) & 0x3fff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn base64_is_read_as_others_write_it() {
        assert_eq!(decoded("a2h6IQ=="), b"khz!");
        assert_eq!(decoded("AP8Q"), [0, 255, 16]);
    }
}
