//! Every answer of a server, in every order.

use super::*;

const ANSWERS: [&str; 10] = [
    "ours", "shared", "foreign", "leaving", "absent", "unserved", "conflict", "created", "refused",
    "failed",
];

#[test]
fn every_answer_to_every_request() {
    let revision = revision();
    let phases = phases(&revision, &[&["a"]]);
    for (observed, request, row) in [
        //                                             ours    leaving   conflict
        //                                             | shared| absent  | created
        //                                             | | foreign unserved| refused, failed
        (Live::Uncached, 'g', "x r . w . F g g F F"),
        (Live::Unread, 'g', "x r . w . F g g F F"),
        (Live::Present(live("2", "me*")), 'x', "w r . w . F g g F F"),
        (
            Live::Present(live("3", "newer* me")),
            'r',
            "x r . w . F g g F F",
        ),
    ] {
        for (name, expected) in ANSWERS.into_iter().zip(row.split_whitespace()) {
            let kinds = kinds();
            let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| observed.clone());
            let (at, first) = next(&mut teardown).unwrap();
            assert_eq!(letter(&first), request);
            teardown.answer(at, &first, answer(name));
            let next = next_letter(teardown).to_string();
            assert_eq!(next, expected, "{observed:?}, {name}");
        }
    }
}

/// All lists of up to three owners, in every order, with each of them or none as the controller.
fn owner_lists() -> Vec<String> {
    const OWNERS: [&str; 3] = ["me", "newer", "pod"];
    let mut lists: Vec<Vec<&str>> = vec![Vec::new()];
    let mut longest = lists.clone();
    for _ in OWNERS {
        longest = longest
            .iter()
            .flat_map(|list| {
                let others = OWNERS.into_iter().filter(|owner| !list.contains(owner));
                others.map(|owner| [list.clone(), vec![owner]].concat())
            })
            .collect();
        lists.extend(longest.iter().cloned());
    }
    lists
        .iter()
        .flat_map(|list| {
            let marked = |controller: usize| {
                let mark = |(index, owner): (usize, &&str)| {
                    let star = if index == controller { "*" } else { "" };
                    format!("{owner}{star}")
                };
                list.iter()
                    .enumerate()
                    .map(mark)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            (0..=list.len()).map(marked).collect::<Vec<_>>()
        })
        .collect()
}

/// The expected request about a live object, which depends only on our entry among the owners.
fn due(live: &Value) -> Option<Request> {
    let owners = owner_references(live);
    let index = owners.iter().position(|owner| owner["uid"] == "me")?;
    let mut precondition = precondition(live);
    if owners[index]["controller"] == true {
        return (!is_terminating(live)).then_some(Request::Delete(precondition));
    }
    precondition.owner_index = index;
    Some(Request::Release {
        owner_uid: "me".to_owned(),
        live: precondition,
        left: None,
    })
}

/// Our entry among the owners of a live object.
fn entry(live: &Value) -> Option<&Value> {
    owner_references(live)
        .iter()
        .find(|owner| owner["uid"] == "me")
}

/// Every list of up to three owners, with every order of answers.
///
/// Only our own object is deleted and only our own reference removed, in the state that was read
/// last. The preceding phase waits until no object is ours.
#[test]
fn every_order_of_answers_for_every_list_of_owners() {
    let revision = revision();
    let phases = phases(&revision, &[&["before"], &["a"]]);
    let kinds = kinds();
    let lists = owner_lists();
    assert_eq!(lists.len(), 1 + 3 * 2 + 6 * 3 + 6 * 4);
    // One answer for each effect; the table above shows which answers have the same effect.
    let effects = [
        "ours", "shared", "foreign", "leaving", "absent", "conflict", "refused",
    ];
    let orders = || {
        let triples = (0..7 * 7 * 7).map(|n| [n / 49, n / 7 % 7, n % 7]);
        triples.map(|triple| triple.map(|index| effects[index]))
    };
    for (owners, order) in lists
        .iter()
        .flat_map(|list| orders().map(move |order| (list, order)))
    {
        let case = format!("{owners:?} {order:?}");
        let observe = |at: Position| match at.phase {
            0 => Live::Unread,
            _ => Live::Present(live("2", owners)),
        };
        let mut teardown = Teardown::new(&revision, &phases, &kinds, observe);
        let mut observed = Some(live("2", owners));
        let mut is_cached = true;
        let mut is_deleted = false;
        let mut is_failed = false;
        for name in order {
            let expected = match &observed {
                // Only the server can show that the object is not ours.
                Some(live) if is_cached && entry(live).is_none() => Some(Request::Get),
                Some(live) => due(live).filter(|due| !(is_deleted && letter(due) == 'x')),
                None => Some(Request::Get),
            };
            let Some((at, request)) = next(&mut teardown) else {
                assert!(is_failed || expected.is_none(), "{case}");
                break;
            };
            if at.phase == 0 {
                assert_eq!((expected, is_failed), (None, false), "{case}");
                break;
            }
            assert!(!is_failed, "{case}");
            assert_eq!(Some(&request), expected.as_ref(), "{case}");
            is_failed = matches!(name, "refused" | "failed" | "unserved");
            is_cached &= is_failed;
            match answer(name) {
                Answer::Object(live) => {
                    is_deleted = letter(&request) == 'x';
                    observed = Some(live);
                }
                // An object without owners needs no request.
                Answer::NotFound => observed = Some(live("", "")),
                Answer::Conflict | Answer::Created(_) => observed = None,
                _ => {}
            }
            teardown.answer(at, &request, answer(name));
        }
    }
}
