use serde_json::json;

use super::*;
use crate::cel::testing::{check, declared, hold, object, verdict};

#[test]
fn common_rules_evaluate() {
    hold(&[
        "self.status.replicas == self.spec.replicas",
        "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
        "!self.status.conditions.exists(c, c.type == 'Degraded' && c.status == 'True')",
        "has(self.status.phase) && self.status.phase in ['Running', 'Succeeded']",
        "!has(self.status.failures) || self.status.failures == 0",
        "self.metadata.labels['app.kubernetes.io/name'] == 'web'",
        "'tier' in self.metadata.labels && self.metadata.labels.tier == 'front'",
        "self.spec.paused ? self.status.replicas == 0 : self.status.replicas > 0",
        "self.spec.paused == false && self.spec.none == null",
        "self.spec.items.filter(i, has(i.value)).all(i, i.value > 0)",
        "self.spec.items.map(i, i.name) == ['a', 'b', 'c']",
        "self.spec.image.split('/')[1].startsWith('web:') && self.spec.image.contains(':5000')",
        "timestamp(self.metadata.creationTimestamp) < timestamp('2025-01-01T00:00:00Z')",
        "timestamp('2024-01-03T03:04:05Z') - timestamp(self.metadata.creationTimestamp) == duration('24h')",
        "string(self.spec.replicas) + ' replicas' == '3 replicas' && int('3') == self.spec.replicas",
        "size(self.spec.items) == 3 && self.spec.image.size() > 10 && size(self.metadata) == 4",
        "self.kind == 'Thing' && self.apiVersion == 'v1'",
        "// a comment\nself.kind == 'Thing'",
    ]);
    check(&[
        ("self.spec.replicas == 4", "false"),
        ("self.status.phase == 'Failed'", "false"),
    ]);
}

#[test]
fn numbers_compare_across_types() {
    hold(&[
        "self.spec.replicas == 3 && self.spec.replicas == 3.0 && self.spec.whole == 2",
        "self.spec.ratio > 1 && self.spec.ratio < self.spec.whole && self.spec.replicas > 2.5",
        "self.spec.replicas + 1 == 4 && self.spec.ratio * 2.0 == 3.0 && self.spec.replicas / 2 == 1",
        "self.spec.huge > 9223372036854775807 && type(self.spec.huge) == double",
        "type(self.spec.replicas) == int && type(self.spec.whole) == double",
    ]);
    check(&[
        // an int and a double cannot be added
        (
            "self.spec.ratio + 1 == 2",
            "error: no such overload: add(float, int)",
        ),
        (
            "self.spec.replicas * 1.0 == 3.0",
            "error: no such overload: mul(int, float)",
        ),
    ]);
}

#[test]
fn optional_fields_need_no_has() {
    hold(&[
        "self.?status.?phase.orValue('') == 'Running'",
        "self.status.?failures.orValue(0) == 0",
        "!self.?other.?field.hasValue() && self.?spec.?none.hasValue()",
        "self.metadata.labels[?'tier'].value() == 'front'",
        "self.?other.or(self.?status).phase.value() == 'Running'",
        "[?self.?other, ?self.?kind] == ['Thing']",
        "self.spec.items[?7].?name.orValue('none') == 'none'",
    ]);
}

#[test]
fn rules_must_yield_a_bool() {
    let dynamic = "refused: must evaluate to bool, but evaluates to dyn: compare the value, as in `... == true`";
    check(&[
        ("self", dynamic),
        ("self.spec.paused", dynamic),
        ("self.spec['paused']", dynamic),
        ("!!self.spec.paused", dynamic),
        ("dyn(true)", dynamic),
        ("true ? true : self.spec.paused", dynamic),
        ("self.?spec.?paused.orValue(false)", dynamic),
        ("1", "refused: must evaluate to bool, but evaluates to int"),
        (
            "'true'",
            "refused: must evaluate to bool, but evaluates to string",
        ),
        (
            "null",
            "refused: must evaluate to bool, but evaluates to null",
        ),
        (
            "bool",
            "refused: must evaluate to bool, but evaluates to type",
        ),
        (
            "[true]",
            "refused: must evaluate to bool, but evaluates to list(bool)",
        ),
        (
            "[]",
            "refused: must evaluate to bool, but evaluates to list(dyn)",
        ),
        (
            "self.?spec",
            "refused: must evaluate to bool, but evaluates to optional(dyn)",
        ),
        (
            "size(self.spec.items)",
            "refused: must evaluate to bool, but evaluates to int",
        ),
        ("self.spec.paused == true", "false"),
        ("bool('true')", "true"),
    ]);
}

#[test]
fn syntax_errors_name_their_place() {
    let object = object();
    for (rule, start) in [
        ("", "refused: 1:1: Syntax error: mismatched input '<EOF>'"),
        (
            "1 +",
            "refused: 1:4: Syntax error: mismatched input '<EOF>'",
        ),
        (
            "self.a = 1",
            "refused: 1:8: Syntax error: token recognition error at: '= '",
        ),
        (
            "self.a == 'x",
            "refused: 1:11: Syntax error: token recognition error at: ''x'",
        ),
        ("self.a ==\n (1", "refused: 2:4: Syntax error: "),
        ("has(self)", "refused: 1:5: invalid argument to has() macro"),
        (
            "self.a.all(b.c, true)",
            "refused: 1:13: argument must be a simple name",
        ),
        ("self.`a-b` == 1", "refused: 1:5: unsupported syntax: '`'"),
        ("if == 1", "refused: "),
        ("self.a == 99999999999999999999", "refused: "),
        ("'\\q' == self.a", "refused: "),
        ("\0", "refused: 1:1: Syntax error: token recognition error"),
        ("self.ä == 1", "refused: "),
    ] {
        let found = verdict(rule, &object);
        assert!(found.starts_with(start), "{rule:?}: {found}");
        assert!(!found.contains("internal error"), "{rule:?}: {found}");
    }
    let junk = verdict(&"a b ".repeat(1_000), &object);
    assert!(junk.len() < 700, "{junk}");
}

#[test]
fn errors_name_missing_keys_and_overloads() {
    check(&[
        ("self.other == 1", "error: no such key: other"),
        ("self.status.other.more == 1", "error: no such key: other"),
        ("has(self.other.field)", "error: no such key: other"),
        ("self.metadata.labels['x'] == ''", "error: no such key: x"),
        (
            "self.spec.items[3].name == ''",
            "error: index out of bounds",
        ),
        (
            "self.spec.items[-1].name == ''",
            "error: index out of bounds",
        ),
        (
            "self.spec.replicas.x == 1",
            "error: no such overload: _._(int, string)",
        ),
        (
            "self.spec.none.x == 1",
            "error: no such overload: _._(null_type, string)",
        ),
        (
            "self.spec.items.name == ''",
            "error: no such overload: _._(list, string)",
        ),
        (
            "self.spec.items['a'] == 1",
            "error: no such overload: _[_](list, string)",
        ),
        ("self.spec.replicas / 0 == 1", "error: division by zero"),
        ("self.spec.replicas % 0 == 1", "error: modulus by zero"),
        (
            "self.spec.replicas + 9223372036854775807 > 0",
            "error: integer overflow",
        ),
        (
            "self.spec.image + 1 == 2",
            "error: no such overload: add(string, int)",
        ),
        (
            "self.spec.image - 1 == 2",
            "error: no such overload: sub(string, int)",
        ),
        (
            "self.spec.image < 1",
            "error: no such overload: _<_(string, int)",
        ),
        (
            "-self.spec.image == 1",
            "error: no such overload: -_(string)",
        ),
        ("!self.spec.image", "error: no such overload: !_(string)"),
        (
            "self.spec.image && true",
            "error: no such overload: _&&_(string, bool)",
        ),
        (
            "true && self.spec.image",
            "error: no such overload: _&&_(bool, string)",
        ),
        (
            "self.spec.image ? true : false",
            "error: no such overload: string is no bool",
        ),
        (
            "self.spec.words.all(w, w)",
            "error: no such overload: _&&_(bool, string)",
        ),
        (
            "self.spec.image.all(c, true)",
            "error: no such overload: string is no iterable",
        ),
        (
            "size(self.spec.replicas) == 1",
            "error: no such overload: size(int)",
        ),
        (
            "self.spec.replicas.size() == 1",
            "error: no such overload: int.size()",
        ),
        (
            "self.spec.replicas.startsWith('x')",
            "error: no such overload: int.startsWith(string)",
        ),
        (
            "timestamp(self.spec.image) == timestamp(0)",
            "error: type conversion error to timestamp",
        ),
        (
            "{self.spec.none: 1} == {}",
            "error: unsupported key type: null",
        ),
        (
            "self.?other.value() == 1",
            "error: optional.none() dereference",
        ),
    ]);
}

#[test]
fn errors_do_not_show_values() {
    let object = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg", "list": ["aHVudGVyMg"]}, "n": 1});
    for rule in [
        "self.data.password + 1 == 2",
        "self.data.password < 1",
        "self.n < self.data.list",
        "self.data.list + self.n == []",
        "self.n[self.data.password] == 1",
        "{self.data.list: 1} == {}",
        "[self.data.password][self.data.password] == ''",
        "self.data.list.all(x, x)",
        "self.data.password ? true : false",
        "timestamp(self.data.password) == timestamp(0)",
        "duration(self.data.password) == duration('1s')",
        "int(self.data.password) == 1",
        "bool(self.data.password)",
        "self.data.list.sum() == 1",
        "[self.data.list][0.5 < 1.0 ? 7 : 0] == []",
    ] {
        let found = verdict(rule, &object);
        assert!(found.starts_with("error: "), "{rule}: {found}");
        assert!(
            !found.contains("hunter") && !found.contains("aHVu"),
            "{rule}: {found}"
        );
    }
}

#[test]
fn logical_operators_forgive_errors_that_do_not_matter() {
    hold(&[
        "true || self.other == 1",
        "self.other == 1 || true",
        "!(false && self.other == 1) && !(self.other == 1 && false)",
        "self.spec.items.exists(i, i.value == 2)",
        "!self.spec.items.all(i, i.value == 2)",
        "self.spec.none == null || self.spec.none.x == 1",
    ]);
    check(&[
        ("self.other == 1 || false", "error: no such key: other"),
        ("self.other == 1 && true", "error: no such key: other"),
        (
            "self.spec.items.all(i, i.value > 0)",
            "error: no such key: value",
        ),
        (
            "self.spec.items.exists(i, i.value == 9)",
            "error: no such key: value",
        ),
        (
            "self.spec.items.exists_one(i, i.value == 1)",
            "error: no such key: value",
        ),
    ]);
}

#[test]
fn the_last_of_equal_keys_counts() {
    hold(&["{'a': 1, 'a': 2} == {'a': 2} && {'a': 1, 'a': 2}.size() == 1"]);
}

/// Calls every function with a value of each of its types, so that each declared function exists in
/// the evaluator.
#[test]
fn every_declared_function_exists() {
    let sample = |ty: &Ty| -> String {
        let text = ty.to_string().replace(['A', 'B'], "int");
        match text.as_str() {
            "bool" => "true",
            "int" => "1",
            "uint" => "1u",
            "double" => "1.5",
            "string" => "'1'",
            "bytes" => "b'1'",
            "duration" => "duration('1s')",
            "timestamp" => "timestamp('2024-01-01T00:00:00Z')",
            "kubernetes.URL" => "url('/')",
            "list(int)" => "[1]",
            "list(uint)" => "[1u]",
            "list(double)" => "[1.5]",
            "list(bool)" => "[true]",
            "list(string)" => "['1']",
            "list(bytes)" => "[b'1']",
            "list(duration)" => "[duration('1s')]",
            "list(timestamp)" => "[timestamp('2024-01-01T00:00:00Z')]",
            "map(int, int)" => "{1: 1}",
            "optional(int)" => "{'a': 1}.?a",
            other => panic!("no sample of {other}"),
        }
        .to_owned()
    };
    for (name, member, parameters, result) in declared() {
        let mut arguments: Vec<String> = parameters.iter().map(sample).collect();
        // Each conversion needs a string of its own form.
        if arguments == ["'1'"] {
            let text = match name {
                "bool" => "'true'",
                "timestamp" => "'2024-01-01T00:00:00Z'",
                "duration" => "'1s'",
                "url" => "'/'",
                _ => "'1'",
            };
            text.clone_into(&mut arguments[0]);
        }
        // The second string of a timestamp's getter is a time zone.
        if parameters.first() == Some(&Ty::Named("timestamp"))
            && parameters.get(1) == Some(&Ty::Named("string"))
        {
            arguments[1] = "'UTC'".to_owned();
        }
        // The list samples have one item.
        if name == "_[_]" && arguments == ["[1]", "1"] {
            arguments[1] = "0".to_owned();
        }
        let call = match (name, arguments.as_slice()) {
            ("@not_strictly_false", _) => continue,
            ("@in", [item, list]) => format!("({item} in {list})"),
            ("_[_]", [list, index]) => format!("{list}[{index}]"),
            ("_?_:_", [condition, yes, no]) => format!("({condition} ? {yes} : {no})"),
            (operator, [a, b]) if operator.starts_with('_') => {
                format!("({a} {} {b})", operator.trim_matches('_'))
            }
            (operator, [a]) if operator.ends_with('_') => {
                format!("({}{a})", operator.trim_matches('_'))
            }
            (name, [receiver, rest @ ..]) if member => {
                format!("{receiver}.{name}({})", rest.join(", "))
            }
            (name, all) => format!("{name}({})", all.join(", ")),
        };
        // The type of the result is the declared one.
        let expected = match result.to_string().replace('A', "int").as_str() {
            "bool" => "bool",
            "int" => "int",
            "uint" => "uint",
            "double" => "double",
            "string" => "string",
            "bytes" => "bytes",
            list if list.starts_with("list") => "list",
            map if map.starts_with("map") => "map",
            "duration" => "type(duration('1s'))",
            "timestamp" => "type(timestamp(0))",
            "kubernetes.URL" => "type(url('/'))",
            "type" => "type(int)",
            "optional(int)" => "type({}.?a)",
            _ => "int",
        };
        let rule = format!("type({call}) == {expected}");
        assert_eq!(verdict(&rule, &json!({})), "true", "{rule}");
    }
}

#[test]
fn long_and_deep_rules_are_refused_and_never_overflow_the_stack() {
    let object = object();
    let too_deep = "refused: nested too deeply";
    for (rule, expected) in [
        (
            format!("true{}", " ".repeat(MAX_RULE)),
            "refused: longer than 8192 bytes",
        ),
        (format!("true{}", " ".repeat(MAX_RULE - 4)), "true"),
        (format!("{}1 == 1", "1+".repeat(4_000)), too_deep),
        (format!("{}1 == 201", "1+".repeat(200)), "true"),
        (
            format!("{}1{} == 1", "(".repeat(4_000), ")".repeat(4_000)),
            too_deep,
        ),
        (
            format!("{}1{} == 1", "(".repeat(80), ")".repeat(80)),
            "true",
        ),
        ("(".repeat(8_000), too_deep),
        (
            format!("{}1{} == []", "[".repeat(4_000), "]".repeat(4_000)),
            too_deep,
        ),
        (format!("self{} == 1", ".a".repeat(4_000)), too_deep),
        (
            format!("self{} == 1", ".a".repeat(200)),
            "error: no such key: a",
        ),
        (format!("{}true", "!".repeat(8_000)), "true"),
        (
            format!("{}true{}", "!(".repeat(2_500), ")".repeat(2_500)),
            too_deep,
        ),
        (format!("{}true{}", "!(".repeat(80), ")".repeat(80)), "true"),
        (format!("{}true", "true==".repeat(1_300)), too_deep),
        (format!("{}true", "true&&".repeat(1_300)), "true"),
        (format!("{}true", "true?true:".repeat(700)), too_deep),
        (format!("{}true", "true?true:".repeat(80)), "true"),
        (
            format!("{}true{}", "[1].all(x,".repeat(740), ")".repeat(740)),
            too_deep,
        ),
        (
            format!("{}true{}", "[1].all(x,".repeat(60), ")".repeat(60)),
            "true",
        ),
        (
            format!("[1]{}.size() == 1", ".map(x,x)".repeat(880)),
            too_deep,
        ),
        (format!("[1]{}.size() == 1", ".map(x,x)".repeat(90)), "true"),
        (format!("[{}1].size() == 4001", "1,".repeat(4_000)), "true"),
    ] {
        let found = verdict(&rule, &object);
        let shown: String = rule.chars().take(40).collect();
        assert_eq!(found, expected, "{shown}");
    }
}

#[test]
fn a_panic_becomes_an_error_of_the_rule() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked: Result<(), Aborted> = on_large_stack(|| panic!("a bug"));
    std::panic::set_hook(quiet);
    assert_eq!(panicked.unwrap_err().to_string(), "internal error");
    assert!(matches!(on_large_stack(|| 7), Ok(7)));
}

#[test]
fn extreme_values_do_not_panic() {
    let object = json!({"big": i64::MAX, "small": i64::MIN, "huge": 1e308, "text": "x"});
    for rule in [
        "-self.small == 0",
        "self.small / -1 == 0",
        "self.small % -1 == 0",
        "self.small * self.small == 0",
        "int(self.huge) == 0",
        "uint(-1) == 0u",
        "uint(self.small) == 0u",
        "timestamp(self.big) == timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z') + duration('24h') == timestamp(0)",
        "timestamp('0001-01-01T00:00:00Z') - duration('24h') == timestamp(0)",
        "duration('9223372036s') + duration('9223372036s') == duration('0s')",
        "duration('-9223372036.854775808s') - duration('1s') == duration('0s')",
        "duration('99999999999999h') == duration('0s')",
        "self.text.substring(self.big) == ''",
        "self.text.charAt(self.small) == ''",
        "self.text.substring(self.small, self.big) == ''",
        "self.text.lastIndexOf('x', self.small) == 0",
        "[1][self.big] == 1",
        "[1][self.huge] == 1",
    ] {
        let found = verdict(rule, &object);
        assert!(found.starts_with("error: "), "{rule}: {found}");
        assert!(!found.contains("internal error"), "{rule}: {found}");
    }
    for rule in [
        "self.huge * 10.0 > self.huge",
        "self.text.split('', self.big).size() == 1",
        "self.text.replace('x', 'y', self.big) == 'y'",
        "self.text.findAll('x', self.small) == ['x']",
        "self.text.indexOf('x', self.big) == -1",
    ] {
        assert_eq!(verdict(rule, &object), "true", "{rule}");
    }
}

/// More people can read the conditions with the errors than the object.
#[test]
fn errors_never_quote_the_object() {
    let object = json!({
        "s": "hunter2", "n": 31_337, "f": 31_337.5, "l": ["hunter2"], "m": {"hunter2": "hunter2"},
        "neg": -31_337, "z": "99:hunter2",
    });
    let check = |rule: &str| {
        let found = verdict(rule, &object);
        let is_quoted = ["hunter2", "31337"]
            .iter()
            .any(|value| found.contains(value));
        assert!(!is_quoted, "{rule}: {found}");
        found.starts_with("error: ")
    };
    for rule in [
        "self.m[self.s + 'x'] == ''",
        "{'a': 1}[self.s] == 1",
        "[1][self.n] == 1",
        "'abc'.substring(3, 1 - self.n) == ''",
        "'abc'.substring(self.n, 1) == ''",
        "'abc'.charAt(self.n) == ''",
        "'abc'.indexOf('b', self.neg) == 0",
        "timestamp('2024-01-02T03:04:05Z').getHours(self.s) == 1",
        "timestamp('2024-01-02T03:04:05Z').getHours(self.z) == 1",
        "self.s.matches('(' + self.s)",
        "self.s.matches(self.s + '[')",
        "url('https://' + self.s + ':' + self.s).getHost() == ''",
    ] {
        assert!(check(rule), "{rule} has a result");
    }
    // Every function is called with every kind of value in every position.
    let mut failed = 0;
    for (name, is_member, parameters, _) in declared() {
        let arity = parameters.len();
        for of in [
            "self.s", "self.n", "self.f", "self.l", "self.m", "self.neg", "self.z",
        ] {
            let call = |arguments: &[&str]| {
                let mut arguments = arguments.to_vec();
                if is_member && !arguments.is_empty() {
                    let receiver = arguments.remove(0);
                    format!("{receiver}.{name}({})", arguments.join(", "))
                } else {
                    format!("{name}({})", arguments.join(", "))
                }
            };
            let mut calls = vec![call(&vec![of; arity])];
            for index in 0..arity {
                let mut arguments = vec!["self.s"; arity];
                arguments[index] = of;
                calls.push(call(&arguments));
            }
            for call in calls {
                failed += usize::from(check(&format!("dyn({call}) == 1")));
            }
        }
    }
    assert!(failed > 500, "only {failed} calls failed");
}
