//! Prints what the parser reads of texts, so that a parser in another language can be compared with it
//! (`java/khz-gather`, `TwinsFile.java`).
//!
//! Standard input has, for each text: the number of its file in the catalogue (a byte); 1 for a fresh parser, 0 for the
//! parser that read the file's previous text (a byte); the text's length (four bytes, lowest first); the text. The
//! output has a line for each text: the file's number, every series with its value or `!STATE`, sorted by name, and the
//! faults.

use std::io::{self, BufWriter, Read, Write};

use khz_model::Reading;
use khz_parse::{Parser, files};

fn main() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let mut out = BufWriter::new(io::stdout());
    let mut parsers: Vec<Parser> = files().iter().map(|&file| Parser::new(file)).collect();
    let mut rest = &input[..];
    while let Some((head, texts)) = rest.split_first_chunk::<6>() {
        let [file, is_fresh, length @ ..] = *head;
        let length = u32::from_le_bytes(length) as usize;
        let (Some(text), Some(parser)) = (texts.get(..length), parsers.get_mut(usize::from(file))) else {
            return Err(io::Error::other("a text is cut off, or of a file that is not in the catalogue"));
        };
        if is_fresh == 1 {
            *parser = Parser::new(parser.file());
        }
        parser.advance_with(text);
        writeln!(out, "{file} {}", line(parser))?;
        rest = &texts[length..];
    }
    out.flush()
}

/// Readings and faults in one line.
fn line(parser: &Parser) -> String {
    let series = parser.schema().series().iter().enumerate();
    let mut readings: Vec<String> = series
        .filter_map(|(slot, series)| match parser.reading(slot)? {
            Reading::Present(value) => Some(format!("{series}={value}")),
            other => Some(format!("{series}=!{}", other.state())),
        })
        .collect();
    readings.sort();
    let faults: Vec<String> = parser.faults().iter().map(ToString::to_string).collect();
    format!("{} | {}", readings.join(" "), faults.join(" ; "))
}
