//! The places of documents in their sources, and errors at these places.

use std::{fmt, sync::Arc};

/// The place where a document, or an object in it, begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    /// The file as the user named it, or another source.
    pub(crate) source: Arc<str>,
    /// Number of the document in the source, from 1.
    pub(crate) document: usize,
    /// Line in the source, from 1.
    pub(crate) line: usize,
    /// The file from which a generator made the document, if a comment names it.
    pub(crate) origin: Option<Arc<str>>,
}

/// Formats the place as `shop/app.yaml:14: document 2`, which editors and terminals turn into a
/// link.
impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            document,
            line,
            origin,
        } = self;
        // A source that was no text has no lines.
        if *document == 0 {
            return f.write_str(source);
        }
        write!(f, "{source}:{line}: document {document}")?;
        match origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// An error that keeps the input from being packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputError {
    /// The place or the file of the error; `None` if it is about the whole input.
    at: Option<String>,
    line: usize,
    message: String,
}

impl InputError {
    /// An error of one document or object.
    pub(crate) fn at(location: &SourceLocation, message: impl Into<String>) -> Self {
        Self {
            at: Some(location.to_string()),
            line: location.line,
            message: message.into(),
        }
    }

    /// An error of a whole file, directory or program.
    pub(crate) fn of(source: impl fmt::Display, message: impl Into<String>) -> Self {
        Self {
            at: Some(source.to_string()),
            line: 0,
            message: message.into(),
        }
    }

    /// An error of the input as a whole, or of a flag.
    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self {
            at: None,
            line: 0,
            message: message.into(),
        }
    }

    /// The line in the source; zero if the error is about more than a line.
    pub(crate) fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All errors of the input, so that the user can correct them at once.
#[derive(Debug, thiserror::Error)]
pub(crate) struct InputErrors(pub(crate) Vec<InputError>);

impl fmt::Display for InputErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [error] => error.fmt(f),
            errors => {
                write!(f, "nothing was packed, because of {} errors:", errors.len())?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(origin: Option<&str>) -> SourceLocation {
        SourceLocation {
            source: "shop/app.yaml".into(),
            document: 2,
            line: 14,
            origin: origin.map(Into::into),
        }
    }

    #[test]
    fn errors_name_their_place() {
        assert_eq!(
            InputError::at(&location(None), "kind is missing").to_string(),
            "shop/app.yaml:14: document 2: kind is missing"
        );
        assert_eq!(
            InputError::at(
                &location(Some("shop/templates/app.yaml")),
                "kind is missing"
            )
            .to_string(),
            "shop/app.yaml:14: document 2 (shop/templates/app.yaml): kind is missing"
        );
        let cluster = SourceLocation {
            source: "-l app=shop".into(),
            ..SourceLocation::default()
        };
        assert_eq!(
            InputError::at(&cluster, "kind is missing").to_string(),
            "-l app=shop: kind is missing"
        );
        assert_eq!(
            InputError::of("shop", "no such file").to_string(),
            "shop: no such file"
        );
    }

    #[test]
    fn all_errors_are_listed() {
        let errors = ["no name", "no objects"].map(InputError::general);
        assert_eq!(InputErrors(errors[..1].to_vec()).to_string(), "no name");
        assert_eq!(
            InputErrors(errors.to_vec()).to_string(),
            "nothing was packed, because of 2 errors:\n  no name\n  no objects"
        );
    }
}
