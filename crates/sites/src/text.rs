//! Texts of others in a status that has a bound.

use baton_engine::texts;

/// A text in one line of at most so many bytes, as JSON has it without a mark of its own for each character.
pub fn line(text: &str, most: usize) -> String {
    // What is beyond cannot be in it, and is not looked at.
    let start = &text[..text.floor_char_boundary(most.saturating_mul(4))];
    let printable: String = start
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    texts::cut(&texts::collapse_whitespace(&printable), most).into_owned()
}
