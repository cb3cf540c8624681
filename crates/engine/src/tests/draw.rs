//! Choices made by the bytes of a fuzzer's input.

/// Makes choices; always the first one after all bytes are used.
pub struct Draw<'a>(pub &'a [u8]);

impl Draw<'_> {
    /// Returns a number below `sides`.
    pub fn below(&mut self, sides: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % sides
    }

    /// Returns true if the next byte is odd.
    pub fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Returns one of the choices.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
