use proptest::prelude::*;

use super::*;

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    });
    pairs.collect()
}

#[test]
fn expressions_match_labels_as_selectors_of_kubernetes_do() {
    for (text, site, expected) in [
        ("system/type = edge", "system/type=edge", true),
        ("system/type = edge", "system/type=core", false),
        ("system/type = edge", "", false),
        ("system/type==edge", "system/type=edge", true),
        ("a != b", "a=b", false),
        ("a != b", "a=c", true),
        ("a != b", "", true),
        ("a in (b, c)", "a=c", true),
        ("a in (b,c)", "a=d", false),
        ("a in (b)", "", false),
        ("a notin (b, c)", "a=c", false),
        ("a notin (b, c)", "a=d", true),
        ("a notin (b, c)", "", true),
        ("a exists", "a=", true),
        ("a exists", "b=a", false),
        ("a = ''", "a=", true),
        ("a = \"\"", "", false),
        ("'a' = \"b\"", "a=b", true),
        ("a = 'in'", "a=in", true),
        ("'or' = 'and'", "or=and", true),
        // `or` binds weaker than `and` and the comma.
        ("a = 1 or b = 1 and c = 1", "a=1", true),
        ("a = 1 or b = 1 and c = 1", "b=1", false),
        ("a = 1 or b = 1, c = 1", "b=1 c=1", true),
        ("a = 1, b = 1 or c = 1", "c=1", true),
        ("(a = 1 or b = 1) and c = 1", "a=1", false),
        ("(a = 1 or b = 1), c = 1", "b=1 c=1", true),
        ("((a=1))", "a=1", true),
        ("\ta\n=\r\n1 ", "a=1", true),
    ] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(
            expression.matches(&labels(site)),
            expected,
            "{text} on {site}"
        );
    }
}

#[test]
fn a_syntax_error_has_a_place_and_the_expected_input() {
    for (text, position, expected, found) in [
        ("", 0, "a label key", "the end"),
        ("a", 1, "an operator (=, !=, in, notin, exists)", "the end"),
        ("a =", 3, "a label value", "the end"),
        ("a = b c", 6, "\"and\", \"or\" or the end", "\"c\""),
        ("a = b and", 9, "a label key", "the end"),
        ("a = b,, c exists", 6, "a label key", "\",\""),
        ("a in b", 5, "\"(\" and the values", "\"b\""),
        ("a in (b c)", 8, "\",\" or \")\"", "\"c\""),
        ("a in ()", 6, "a label value", "\")\""),
        ("(a = b", 6, "\"and\", \"or\" or \")\"", "the end"),
        ("a = b)", 5, "\"and\", \"or\" or the end", "\")\""),
        ("!a", 0, "a label key", "\"!\""),
        (
            "a ! b",
            2,
            "an operator (=, !=, in, notin, exists)",
            "\"!\"",
        ),
        ("a = 'b", 4, "a label value in closed quotes", "\"'b\""),
        (
            "exists a",
            0,
            "a label key (it is written \"key exists\")",
            "\"exists\"",
        ),
        (
            "a = b and ä = c",
            10,
            "a label key (letters, digits, \"-\", \"_\" and \".\", at most 63, a letter or digit at both ends)",
            "\"ä\"",
        ),
        (
            "Example.com/a = b",
            0,
            "a label key (the part before the slash must be a DNS name in lower case)",
            "\"Example.com/a\"",
        ),
        (
            "a = or",
            4,
            "a label value (to use a word of the language as text, put it in quotes)",
            "\"or\"",
        ),
    ] {
        let error = Expression::parse(text).unwrap_err();
        let reported = (
            error.position,
            error.expected.as_str(),
            error.found.as_str(),
        );
        assert_eq!(reported, (position, expected, found), "{text}");
    }
}

#[test]
fn the_message_points_at_the_place() {
    let error = Expression::parse("type = edge and\nregion on (eu)").unwrap_err();
    let expected = "expected an operator (=, !=, in, notin, exists), found \"on\" at byte 23, after: \
                    type = edge and region";
    assert_eq!(error.to_string(), expected);
    let error = Expression::parse("= b").unwrap_err().to_string();
    assert!(error.ends_with("found \"=\" at byte 0"), "{error}");
    let long = format!("{} = b c", vec!["a = b"; 1000].join(" and "));
    let error = Expression::parse(&long).unwrap_err();
    let error = error.to_string();
    assert!(error.len() < 400 && error.contains(", after: …"), "{error}");
}

#[test]
fn parentheses_have_a_bound_and_lists_have_none() {
    let nested = |depth: usize| format!("{}a = b{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(MAX_DEPTH)).is_ok());
    let error = Expression::parse(&nested(4096)).unwrap_err();
    assert_eq!(error.position, MAX_DEPTH);
    assert!(Expression::parse(&"(".repeat(4096)).is_err());
    let long = vec!["a = b"; 10_000].join(" or ");
    let expression = Expression::parse(&long).unwrap();
    assert_eq!(expression.to_string(), long);
    // Consecutive parentheses are not nested.
    assert!(Expression::parse(&vec!["(a = b)"; 1000].join(" and ")).is_ok());
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?",
        "[a-z0-9]{1,3}(\\.[a-z]{1,3})?/[a-zA-Z0-9]{1,4}",
        prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "([A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?)?",
        prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
    ]
}

fn test() -> impl Strategy<Value = Test> {
    let values = || prop::collection::vec(value(), 1..4);
    prop_oneof![
        value().prop_map(Test::Equal),
        value().prop_map(Test::NotEqual),
        values().prop_map(Test::In),
        values().prop_map(Test::NotIn),
        Just(Test::Exists),
    ]
}

/// Any expression; no list contains a list of its own type, as the parser produces them.
fn node() -> impl Strategy<Value = Node> {
    let leaf = (key(), test()).prop_map(|(key, test)| Node::Label { key, test });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (any::<bool>(), prop::collection::vec(inner, 2..4)).prop_map(|(is_all, parts)| {
            let mut flat = Vec::new();
            for part in parts {
                match part {
                    Node::All(inner) if is_all => flat.extend(inner),
                    Node::Any(inner) if !is_all => flat.extend(inner),
                    part => flat.push(part),
                }
            }
            if is_all {
                Node::All(flat)
            } else {
                Node::Any(flat)
            }
        })
    })
}

/// Pieces of the language in valid and invalid combinations.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b.c/d", "=", "==", "!=", "!", "in", "notin", "exists", "and", "or", "(", ")", ",",
        " ", "'", "\"", "''", "ä", "\n", "/", "-",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn expressions_survive_a_round_trip_through_text(node in node()) {
        let expression = Expression(node);
        prop_assert_eq!(Expression::parse(&expression.to_string()), Ok(expression));
    }

    #[test]
    fn any_text_is_parsed_or_refused_with_a_valid_position(text in prop_oneof![".*", pieces()]) {
        match Expression::parse(&text) {
            Ok(expression) => {
                prop_assert_eq!(Expression::parse(&expression.to_string()), Ok(expression));
            }
            Err(error) => {
                prop_assert!(text.is_char_boundary(error.position));
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }
}
