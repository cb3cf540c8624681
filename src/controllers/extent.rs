//! Whether an object that is missing does not exist.

/// How much is known of which objects there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All were listed: one that is missing does not exist.
    All,
    /// The server has not answered yet.
    Awaited,
    /// They are not served, or cannot be listed; the text says of which kind, and why.
    Unknown(String),
}

impl Extent {
    /// How much is known of these and of others together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (known @ Self::Unknown(_), _) | (_, known @ Self::Unknown(_)) => known,
            (Self::Awaited, _) | (_, Self::Awaited) => Self::Awaited,
            (Self::All, Self::All) => Self::All,
        }
    }
}
