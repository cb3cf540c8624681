//! Bounds of reported texts, so that a status with any texts of users, servers and other controllers
//! can be written.
//!
//! The texts of a status take at most 70 KiB: 32 KiB for the message of the condition that reports
//! the error, 28 KiB for `waitingFor`, and 10 KiB for mapped conditions. Nearly all of etcd's
//! 1.5 MiB are left for the spec.

use std::borrow::Cow;

use baton_apis::{WaitingForObject, conditions::MAX_MESSAGE_LENGTH};

use crate::mapping::MappedCondition;

/// Greatest number of objects in `status.waitingFor`.
pub(crate) const MAX_WAITING_FOR: usize = 16;
/// Greatest length of an object's message, in bytes.
const MAX_WAITING_MESSAGE: usize = 512;
/// Greatest length of the cause of an object's failed probes, in bytes.
pub(crate) const MAX_CAUSE: usize = 256;
/// Greatest length of any name in bytes, which is that of the API server.
const MAX_NAME: usize = 253;
/// Greatest length of the name of a kind, a namespace or a phase; those of kinds and namespaces
/// have at most 63 bytes.
const MAX_SHORT_NAME: usize = 128;
/// Greatest size of all mapped conditions of an object, in bytes.
const MAX_MAPPED: usize = 10 * 1024;
/// Size of a condition without its texts: status, time, generation.
const CONDITION: usize = 160;

/// Length of the longest mark for omitted bytes.
const MARK: usize = "… (18446744073709551615 bytes left out)".len();

/// Cuts a text to at most `most` bytes. The result gives the number of omitted bytes.
pub fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    cut_and_count(text, most, 0)
}

/// A text on one line: every run of blanks and line ends becomes one blank.
pub fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Like [`truncate`], in place.
pub fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        *text = truncate(text, most).into_owned();
    }
}

/// Like [`truncate`], for a text of which `missing` bytes are omitted already.
fn cut_and_count(text: &str, most: usize, missing: usize) -> Cow<'_, str> {
    if text.len() <= most && missing == 0 {
        return Cow::Borrowed(text);
    }
    let Some(kept) = most.checked_sub(MARK) else {
        return Cow::Borrowed(start(text, most));
    };
    let kept = start(text, kept);
    let left_out = text.len() - kept.len() + missing;
    Cow::Owned(format!("{kept}… ({left_out} bytes left out)"))
}

/// The first whole characters of a text, of at most `most` bytes.
fn start(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most))
        .unwrap_or_default()
}

/// Texts joined into the message of a condition. Texts that do not fit are only counted.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    text: String,
    left_out: usize,
}

impl Joined {
    /// The length at which a message is full. It leaves room for a prefix.
    const MAX_TEXT: usize = MAX_MESSAGE_LENGTH - 1024;

    /// Adds a text.
    pub(crate) fn push(&mut self, text: &str) {
        if self.text.len() > Self::MAX_TEXT {
            self.left_out += text.len();
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(text);
    }

    /// True if no text was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns all texts, or as many as fit.
    pub(crate) fn into_text(self) -> String {
        cut_and_count(&self.text, Self::MAX_TEXT, self.left_out).into_owned()
    }
}

/// A list of objects within the limits of `status.waitingFor`.
pub fn waiting_for(mut objects: Vec<WaitingForObject>) -> Vec<WaitingForObject> {
    objects.truncate(MAX_WAITING_FOR);
    for object in &mut objects {
        let WaitingForObject {
            phase,
            group,
            kind,
            name,
            namespace,
            reason,
            message,
            cause,
        } = object;
        let texts = [
            (Some(phase), MAX_SHORT_NAME),
            (Some(group), MAX_NAME),
            (Some(kind), MAX_SHORT_NAME),
            (Some(name), MAX_NAME),
            (namespace.as_mut(), MAX_SHORT_NAME),
            (Some(reason), MAX_SHORT_NAME),
            (Some(message), MAX_WAITING_MESSAGE),
            (cause.as_mut(), MAX_CAUSE),
        ];
        for (text, most) in texts {
            if let Some(text) = text {
                shorten(text, most);
            }
        }
    }
    objects
}

/// Mapped conditions that fit into a status. The message of the first one that does not fit is cut,
/// and those after it are left out.
pub(crate) fn mapped(conditions: Vec<MappedCondition>) -> impl Iterator<Item = MappedCondition> {
    let mut left = MAX_MAPPED;
    conditions.into_iter().map_while(move |mut condition| {
        let fixed = CONDITION + condition.type_.len() + condition.reason.len();
        left = left.checked_sub(fixed)?;
        condition.message = truncate(&condition.message, left).into_owned();
        left -= condition.message.len();
        Some(condition)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_shortened_text_states_how_many_bytes_are_left_out() {
        let long = "x".repeat(200);
        let wide = "ä".repeat(100);
        for (text, most, expected) in [
            ("short", 5, "short".to_owned()),
            ("", 0, String::new()),
            (&long, 200, long.clone()),
            (
                &long,
                100,
                format!("{}… (141 bytes left out)", "x".repeat(59)),
            ),
            // Characters are not split.
            (
                &wide,
                100,
                format!("{}… (142 bytes left out)", "ä".repeat(29)),
            ),
            // The mark does not fit.
            ("äöü", 3, "ä".to_owned()),
        ] {
            assert_eq!(truncate(text, most), expected, "{most}");
        }
    }

    #[test]
    fn joined_texts_take_no_more_than_a_message() {
        let join = |texts: &[&str]| {
            let mut joined = Joined::default();
            for text in texts {
                joined.push(text);
            }
            joined.into_text()
        };
        assert_eq!(join(&[]), "");
        assert_eq!(join(&["a", "b"]), "a, b");
        let long = "x".repeat(20_000);
        let joined = join(&[long.as_str(); 1_000]);
        assert!(joined.len() <= Joined::MAX_TEXT);
        // All bytes except the shown ones, including the separator.
        let kept = Joined::MAX_TEXT - MARK;
        let left_out = 20_000 * 1_000 + 2 - kept;
        assert!(
            joined.ends_with(&format!("x… ({left_out} bytes left out)")),
            "{}",
            &joined[kept..]
        );
    }

    fn condition(number: usize, message: usize) -> MappedCondition {
        MappedCondition {
            type_: format!("example.com/{number}"),
            status: "True".to_owned(),
            reason: "Because".to_owned(),
            message: "m".repeat(message),
        }
    }

    #[test]
    fn mapped_conditions_share_one_limit_of_bytes() {
        let sizes = |conditions: Vec<MappedCondition>| {
            let mapped = mapped(conditions).map(|condition| condition.message.len());
            mapped.collect::<Vec<_>>()
        };
        let few = (0..10).map(|i| condition(i, 500)).collect();
        assert_eq!(sizes(few), [500; 10]);
        let long = vec![condition(0, 4_000), condition(1, 90_000), condition(2, 5)];
        assert_eq!(sizes(long), [4_000, 5_865]);
        let many = (0..1_000).map(|i| condition(i, 0)).collect();
        assert!(sizes(many).len() < 60);
    }

    proptest! {
        /// Every text fits.
        #[test]
        fn texts_stay_within_their_bounds(text in ".*", times in 1_usize..200, most in 0_usize..2_000) {
            let text = text.repeat(times);
            let shorter = truncate(&text, most);
            prop_assert!(shorter.len() <= most);
            prop_assert!(text.len() > most || shorter == text);
            prop_assert_eq!(truncate(&shorter, most), &*shorter, "cutting twice is cutting once");
            let object = WaitingForObject {
                phase: text.clone(),
                group: text.clone(),
                kind: text.clone(),
                name: text.clone(),
                namespace: Some(text.clone()),
                reason: text.clone(),
                message: text.clone(),
                cause: Some(text.clone()),
            };
            let list = waiting_for(vec![object; 100]);
            let bytes = |object: &WaitingForObject| {
                let WaitingForObject { phase, group, kind, name, namespace, reason, message, cause } = object;
                [phase, group, kind, name, reason, message].map(String::len).iter().sum::<usize>()
                    + [namespace, cause].map(|text| text.as_ref().map_or(0, String::len)).iter().sum::<usize>()
            };
            prop_assert!(list.iter().map(bytes).sum::<usize>() <= 28 * 1024);
            let conditions = vec![condition(1, text.len()); 100];
            let bytes = |condition: MappedCondition| condition.type_.len() + condition.message.len();
            prop_assert!(mapped(conditions).map(bytes).sum::<usize>() <= MAX_MAPPED);
        }
    }
}
