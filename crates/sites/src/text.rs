//! Foreign text in a status with limited size.

use baton_engine::texts;

/// A text in one line of at most `most` bytes. It has no control characters, each of which JSON
/// would escape.
pub fn line(text: &str, most: usize) -> String {
    // The rest of the text cannot be part of the result, so it is not read.
    let start = &text[..text.floor_char_boundary(most.saturating_mul(4))];
    let printable: String = start
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    texts::truncate(&texts::collapse_whitespace(&printable), most).into_owned()
}
