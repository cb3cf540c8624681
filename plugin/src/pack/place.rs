//! Where something was read, and what is wrong there.

use std::{fmt, sync::Arc};

/// Where a document, or an object in it, begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it, or what else was read.
    pub source: Arc<str>,
    /// Number of the document in the source, from 1.
    pub document: usize,
    /// Line in the source, from 1.
    pub line: usize,
    /// The file that a generator made the document from, if it says so.
    pub origin: Option<Arc<str>>,
}

/// Prints `shop/app.yaml:14: document 2`, which editors and terminals turn into a link.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            document,
            line,
            origin,
        } = self;
        write!(f, "{source}:{line}: document {document}")?;
        match origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// Something that keeps the input from being packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: a place, a file, or nothing if it is about the input as a whole.
    at: Option<String>,
    line: usize,
    message: String,
}

impl Fault {
    /// A fault of one document or object.
    pub fn at(place: &Place, message: impl Into<String>) -> Self {
        Self {
            at: Some(place.to_string()),
            line: place.line,
            message: message.into(),
        }
    }

    /// A fault of a whole file, directory or program.
    pub fn of(source: impl fmt::Display, message: impl Into<String>) -> Self {
        Self {
            at: Some(source.to_string()),
            line: 0,
            message: message.into(),
        }
    }

    /// A fault of the input as a whole, or of a flag.
    pub fn general(message: impl Into<String>) -> Self {
        Self {
            at: None,
            line: 0,
            message: message.into(),
        }
    }

    /// Line in its source; zero if it is about more than a line.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All faults of the input, so that they can be corrected at once.
#[derive(Debug, thiserror::Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [fault] => fault.fmt(f),
            faults => {
                write!(f, "nothing was packed, there are {} faults:", faults.len())?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(origin: Option<&str>) -> Place {
        Place {
            source: "shop/app.yaml".into(),
            document: 2,
            line: 14,
            origin: origin.map(Into::into),
        }
    }

    #[test]
    fn faults_say_where_they_are() {
        assert_eq!(
            Fault::at(&place(None), "kind is missing").to_string(),
            "shop/app.yaml:14: document 2: kind is missing"
        );
        assert_eq!(
            Fault::at(&place(Some("shop/templates/app.yaml")), "kind is missing").to_string(),
            "shop/app.yaml:14: document 2 (shop/templates/app.yaml): kind is missing"
        );
        assert_eq!(
            Fault::of("shop", "no such file").to_string(),
            "shop: no such file"
        );
    }

    #[test]
    fn all_faults_are_told() {
        let faults = ["no name", "no objects"].map(Fault::general);
        assert_eq!(Faults(faults[..1].to_vec()).to_string(), "no name");
        assert_eq!(
            Faults(faults.to_vec()).to_string(),
            "nothing was packed, there are 2 faults:\n  no name\n  no objects"
        );
    }
}
