//! The part of the walk for lists that are not owned as a whole.

use serde_json::{Map, Value};

use super::{Types, Walk, differs, not_owned, surplus};
use crate::diff::fields::{Marker, OnPath, has_keys, may_have_keys, same};

/// Compares a set, in which the order of the elements has no meaning.
pub(super) fn compare_set(
    path: OnPath<'_>,
    wanted: &[Value],
    owned: &Map<String, Value>,
    live: &[Value],
) -> Walk {
    let mut covered = 0;
    for text in owned.keys() {
        let element = match Marker::parse(text) {
            Marker::Element(element) => element,
            Marker::This => continue,
            _ => return Err(differs(path.marker(text))),
        };
        let is_element = |value: &Value| same(value, &element);
        if !wanted.iter().any(is_element) {
            return Err(surplus(path.marker(text)));
        }
        if !live.iter().any(is_element) {
            return Err(differs(path.marker(text)));
        }
        covered += 1;
    }
    if covered < wanted.len() {
        Err(not_owned(path))
    } else {
        Ok(())
    }
}

impl Types {
    /// Compares a keyed list: we own each wanted item, and the live list has it under its keys,
    /// after the preceding wanted items.
    pub(super) fn compare_keyed(
        self,
        path: OnPath<'_>,
        wanted: &[Value],
        owned: &Map<String, Value>,
        live: &[Value],
    ) -> Walk {
        let mut items = Vec::with_capacity(owned.len());
        for (text, node) in owned {
            match Marker::parse(text) {
                Marker::Item(keys) => items.push(Item {
                    text,
                    keys,
                    node,
                    wanted: false,
                }),
                Marker::This => {}
                _ => return Err(differs(path.marker(text))),
            }
        }
        let mut next = 0;
        for (index, value) in wanted.iter().enumerate() {
            let item = match owned_item(value, wanted, &mut items) {
                Ok(Some(item)) => item,
                Ok(None) => return Err(not_owned(path.index(index))),
                Err(Ambiguous) => return Err(differs(path.index(index))),
            };
            item.wanted = true;
            let below = path.marker(item.text);
            // In most cases the wanted item is the next live item.
            let position = live
                .iter()
                .skip(next)
                .position(|live| has_keys(live, &item.keys));
            let position = next + position.ok_or_else(|| differs(below))?;
            self.compare_node(below, value, item.node, live.get(position))?;
            next = position + 1;
        }
        match items.iter().find(|item| !item.wanted) {
            Some(item) => Err(surplus(path.marker(item.text))),
            None => Ok(()),
        }
    }
}

/// An item of a keyed list that we own.
struct Item<'a> {
    text: &'a str,
    keys: Map<String, Value>,
    node: &'a Value,
    wanted: bool,
}

/// The wanted item may be several owned items, or only one that another wanted item has taken
/// already.
struct Ambiguous;

/// Finds the owned item of a wanted item. If the wanted item leaves out a key and so fits several,
/// the items that other wanted items name in full are excluded.
fn owned_item<'a, 'b>(
    value: &Value,
    wanted: &[Value],
    items: &'a mut [Item<'b>],
) -> Result<Option<&'a mut Item<'b>>, Ambiguous> {
    let mut fitting = items
        .iter()
        .enumerate()
        .filter(|(_, item)| may_have_keys(value, &item.keys));
    let found = match (fitting.next(), fitting.next()) {
        (None, _) => return Ok(None),
        (Some((only, _)), None) => only,
        _ => {
            let named = |item: &Item<'_>| {
                wanted
                    .iter()
                    .any(|other| has_keys(other, &item.keys) && !has_keys(value, &item.keys))
            };
            let mut left = items
                .iter()
                .enumerate()
                .filter(|(_, item)| may_have_keys(value, &item.keys) && !named(item));
            match (left.next(), left.next()) {
                (Some((only, _)), None) => only,
                _ => return Err(Ambiguous),
            }
        }
    };
    items
        .get_mut(found)
        .filter(|item| !item.wanted)
        .map(Some)
        .ok_or(Ambiguous)
}

#[cfg(test)]
mod tests {
    use crate::diff::tests::check_spec;

    #[test]
    fn keyed_lists() {
        let ab = r#"{'k:{"n":"a"}': {".": {}, "f:n": {}}, 'k:{"n":"b"}': {".": {}, "f:n": {}, "f:v": {}}}"#;
        for (wanted, live, expected) in [
            ("[{n: a}, {n: b, v: 1}]", "[{n: a}, {n: b, v: 1}]", "none"),
            (
                "[{n: a}, {n: b, v: 1}]",
                "[{n: x}, {n: a, w: 2}, {n: y}, {n: b, v: 1, w: 3}, {n: z}]",
                "none",
            ),
            (
                "[{n: a}, {n: b, v: 1}]",
                "[{n: b, v: 1}, {n: a}]",
                r#"fields .spec[{"n":"b"}]"#,
            ),
            ("[{n: b, v: 1}, {n: a}]", "[{n: b, v: 1}, {n: a}]", "none"),
            (
                "[{n: a}, {n: b, v: 1}]",
                "[{n: a}, {n: b, v: 2}]",
                r#"fields .spec[{"n":"b"}].v"#,
            ),
            (
                "[{n: a}, {n: b, v: 1}]",
                "[{n: a}, {n: b}]",
                r#"fields .spec[{"n":"b"}].v"#,
            ),
            (
                "[{n: a}, {n: b, v: 1}]",
                "[{n: a}]",
                r#"fields .spec[{"n":"b"}]"#,
            ),
            (
                "[{n: a}, {n: b, v: 1}]",
                "null",
                r#"fields .spec[{"n":"a"}]"#,
            ),
            (
                "[{n: a}, {n: b}]",
                "[{n: a}, {n: b, v: 1}]",
                r#"surplus .spec[{"n":"b"}].v"#,
            ),
            (
                "[{n: a, v: 0}, {n: b, v: 1}]",
                "[{n: a, v: 0}, {n: b, v: 1}]",
                r#"not owned .spec[{"n":"a"}].v"#,
            ),
            (
                "[{n: a}]",
                "[{n: a}, {n: b, v: 1}]",
                r#"surplus .spec[{"n":"b"}]"#,
            ),
            (
                "[{n: b, v: 1}]",
                "[{n: a}, {n: b, v: 1}]",
                r#"surplus .spec[{"n":"a"}]"#,
            ),
            (
                "[]",
                "[{n: a}, {n: b, v: 1}]",
                r#"surplus .spec[{"n":"a"}]"#,
            ),
            (
                "[{n: a}, {n: b, v: 1}, {n: c}]",
                "[{n: a}, {n: b, v: 1}, {n: c}]",
                "not owned .spec[2]",
            ),
            // The server refuses the duplicate, so a request has to be sent in any case.
            (
                "[{n: a}, {n: b, v: 1}, {n: a}]",
                "[{n: a}, {n: b, v: 1}]",
                "fields .spec[2]",
            ),
            ("[a, b]", "[{n: a}, {n: b, v: 1}]", "not owned .spec[0]"),
            (
                "{n: a}",
                "[{n: a}, {n: b, v: 1}]",
                r#"fields .spec[{"n":"a"}]"#,
            ),
            ("a", "[{n: a}, {n: b, v: 1}]", "fields .spec"),
            ("null", "[{n: a}, {n: b, v: 1}]", "fields .spec"),
        ] {
            check_spec(wanted, ab, live, expected);
        }
    }

    #[test]
    fn keys_with_defaults() {
        let tcp = r#"'k:{"p":53,"proto":"TCP"}'"#;
        let udp = r#"'k:{"p":53,"proto":"UDP"}'"#;
        let live = "[{p: 53, proto: TCP}, {p: 53, proto: UDP}]";
        let plain = r#"{".": {}, "f:p": {}}"#;
        let full = r#"{".": {}, "f:p": {}, "f:proto": {}}"#;
        for (wanted, owned, expected) in [
            ("[{p: 53}]", format!("{{{tcp}: {plain}}}"), "none"),
            (
                "[{p: 53, proto: TCP}]",
                format!("{{{tcp}: {full}}}"),
                "none",
            ),
            (
                "[{p: 53, proto: UDP}]",
                format!("{{{tcp}: {full}}}"),
                "not owned .spec[0]",
            ),
            (
                "[{p: 54}]",
                format!("{{{tcp}: {plain}}}"),
                "not owned .spec[0]",
            ),
            // The item with the default is the one that no other wanted item names.
            (
                "[{p: 53}, {p: 53, proto: UDP}]",
                format!("{{{tcp}: {plain}, {udp}: {full}}}"),
                "none",
            ),
            // The wanted item could be either of them, and the other would be surplus.
            (
                "[{p: 53}]",
                format!("{{{tcp}: {plain}, {udp}: {full}}}"),
                "fields .spec[0]",
            ),
            (
                "[{p: 53}, {p: 53}]",
                format!("{{{tcp}: {plain}, {udp}: {plain}}}"),
                "fields .spec[0]",
            ),
            (
                "[{p: 53}, {p: 53}]",
                format!("{{{tcp}: {plain}}}"),
                "fields .spec[1]",
            ),
            // The last apply had the key and this one leaves it out, or the reverse.
            (
                "[{p: 53}]",
                format!("{{{tcp}: {full}}}"),
                r#"surplus .spec[{"p":53,"proto":"TCP"}].proto"#,
            ),
            (
                "[{p: 53, proto: TCP}]",
                format!("{{{tcp}: {plain}}}"),
                r#"not owned .spec[{"p":53,"proto":"TCP"}].proto"#,
            ),
        ] {
            check_spec(wanted, &owned, live, expected);
        }
    }

    #[test]
    fn atomic_items_are_equal_or_not() {
        let owned = r#"{'k:{"uid":"1"}': {}}"#;
        for (wanted, live, expected) in [
            ("[{uid: '1', name: a}]", "[{uid: '1', name: a}]", "none"),
            (
                "[{uid: '1', name: a}]",
                "[{uid: '2', name: b}, {uid: '1', name: a}]",
                "none",
            ),
            (
                "[{uid: '1', name: a}]",
                "[{uid: '1', name: b}]",
                r#"fields .spec[{"uid":"1"}]"#,
            ),
            (
                "[{uid: '1', name: a}]",
                "[{uid: '1', name: a, more: b}]",
                r#"fields .spec[{"uid":"1"}]"#,
            ),
            (
                "[]",
                "[{uid: '1', name: a}]",
                r#"surplus .spec[{"uid":"1"}]"#,
            ),
        ] {
            check_spec(wanted, owned, live, expected);
        }
    }

    #[test]
    fn sets() {
        let ab = r#"{'v:"a"': {}, 'v:"b"': {}}"#;
        for (wanted, live, expected) in [
            ("[a, b]", "[a, b]", "none"),
            ("[b, a]", "[x, a, y, b]", "none"),
            ("[a, b]", "[a]", "fields .spec[…]"),
            ("[a, b]", "null", "fields .spec[…]"),
            ("[a]", "[a, b]", "surplus .spec[…]"),
            ("[]", "[a, b]", "surplus .spec[…]"),
            ("[a, b, c]", "[a, b, c]", "not owned .spec"),
            ("{a: b}", "[a, b]", "fields .spec[…]"),
            ("a", "[a, b]", "fields .spec"),
        ] {
            check_spec(wanted, ab, live, expected);
        }
        check_spec(
            "[1, true]",
            r#"{"v:1": {}, "v:true": {}, ".": {}}"#,
            "[true, 1.0]",
            "none",
        );
        check_spec("[1]", r#"{"v:\"1\"": {}}"#, "[1]", "surplus .spec[…]");
    }

    #[test]
    fn markers_that_do_not_belong_to_the_list_are_reported() {
        for owned in [
            r#"{'k:{"n":"a"}': {}, "f:x": {}}"#,
            r#"{'k:{"n":"a"}': {}, "i:0": {}}"#,
            r#"{'v:"a"': {}, "f:x": {}}"#,
            r#"{'v:"a"': {}, 'k:{"n":"a"}': {}}"#,
            r#"{"f:a": {}}"#,
            r#"{"i:0": {}}"#,
        ] {
            let value = if owned.contains("v:") {
                "[a]"
            } else {
                "[{n: a}]"
            };
            let difference = crate::diff::tests::difference(value, owned, value);
            assert!(
                difference.starts_with("fields .spec"),
                "{owned}: {difference}"
            );
        }
    }
}
