//! Foreign text in a status with limited size.

use baton_engine::{texts, workload::cause_in};

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

/// Shortest part of a message in front of its cause that is worth its place, in bytes.
const SHORTEST_START: usize = 40;
/// The mark for the text that is left out in front of a cause.
const LEFT_OUT: &str = "… ";

/// The message about a failure, as [`line`]. A message that is too long keeps its cause, such as that
/// of a pod: it says more than the text of the probe in front of it.
pub fn failure(message: &str, most: usize) -> String {
    let cause = cause_in(message).filter(|_| message.len() > most);
    let Some(cause) = cause else {
        return line(message, most);
    };
    let tail = format!("{LEFT_OUT}({cause})");
    match most.checked_sub(tail.len()) {
        Some(room) if room >= SHORTEST_START => {
            let start = &message[..message.floor_char_boundary(room)];
            line(&format!("{start}{tail}"), most)
        }
        _ => line(cause, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_its_cause() {
        let probe = "not all replicas are of the newest template, or old ones are left, ".repeat(3);
        let start = format!("Phase \"workloads\" failed: apps Deployment shop/web: {probe}");
        let pod = "pod web-1: container app: ImagePullBackOff";
        let long = format!("pod web-1: container app: {}", "x".repeat(200));
        let other = "another, apps StatefulSet shop/db: no";
        for (message, most, expected) in [
            (
                format!("{start}({pod}), {other}"),
                160,
                format!("{}… ({pod})", &start[..112]),
            ),
            (format!("{start}({long})"), 160, line(&long, 160)),
            (format!("{start}({pod})"), 60, pod.to_owned()),
            (format!("short ({pod})"), 160, format!("short ({pod})")),
            (start.clone(), 160, line(&start, 160)),
        ] {
            let text = failure(&message, most);
            assert_eq!(text, expected);
            assert!(text.len() <= most, "{text}");
        }
    }
}
