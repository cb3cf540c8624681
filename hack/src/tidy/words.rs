//! Words that comments and pages do not use: they make a reader look for the noun that is meant.

use super::numbered;

/// Words that open no line of a comment. A noun takes their place: "True if", "Number of", "The reason".
const OPENERS: [&str; 6] = ["What", "Who", "Whose", "Whatever", "Whether", "How"];

/// Words that no comment and no page uses, with the words that take their place.
const REFUSED: [(&str, &str); 8] = [
    ("told", "reported"),
    ("tell", "report"),
    ("tells", "reports"),
    ("heard", "received"),
    ("hear", "receive"),
    ("hears", "receives"),
    ("kin", "siblings"),
    ("lineage", "chain"),
];

/// The refused words of a file of Rust (its comments) or Markdown (its prose), as file, line and reason.
pub(super) fn refused(name: &str, text: &str, is_prose: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line, is_code) in numbered(text) {
        let words = if is_prose {
            Some(line).filter(|_| !is_code)
        } else {
            line.trim_start().strip_prefix("//")
        };
        let Some(words) = words else { continue };
        let is_end = |char: char| !char.is_alphanumeric() && char != '_' && char != '`';
        let mut words = words.split(is_end).filter(|word| !word.is_empty());
        let opener = words.clone().next().filter(|word| OPENERS.contains(word));
        if let Some(opener) = opener.filter(|_| !is_prose) {
            let rule = "a line of a comment opens with a noun, a verb or a reason";
            found.push(format!("{name}:{number}: `{opener}`: {rule}"));
        }
        let refused = words.find_map(|word| {
            let is_it = |(refused, _): &&(&str, &str)| word.eq_ignore_ascii_case(refused);
            REFUSED.iter().find(is_it)
        });
        if let Some((refused, plain)) = refused {
            found.push(format!(
                "{name}:{number}: `{refused}`: say `{plain}` or the like"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_opens_with_a_refused_word_is_found() {
        let text = "//! Whether it is so.\n/// True if so,\n/// - How many.\nlet what = 1; // x\n// What\n";
        let found = refused("src/a.rs", text, false);
        let lines: Vec<&str> = found.iter().map(|it| &it[..10]).collect();
        assert_eq!(lines, ["src/a.rs:1", "src/a.rs:3", "src/a.rs:5"]);
        assert!(refused("docs/a.md", "What a chart must look like", true).is_empty());
    }

    #[test]
    fn refused_words_are_found_in_comments_and_prose() {
        for (word, plain) in REFUSED {
            let found = refused("src/a.rs", &format!("    // It is {word}."), false);
            assert_eq!(
                found,
                [format!("src/a.rs:1: `{word}`: say `{plain}` or the like")]
            );
        }
        assert!(refused("src/a.rs", "let told = kin; // told", false).is_empty());
        assert_eq!(
            refused("docs/a.md", "Told.\n```\ntold\n```\n", true).len(),
            1
        );
        assert!(refused("src/a.rs", "// A name such as `told`, or the skin.", false).is_empty());
    }
}
