use std::os::unix::process::ExitStatusExt as _;

use super::*;

/// The format of libtest: two failed tests, one of which has written a text that looks like a list
/// of failed tests.
const OUTPUT: &str = "
running 3 tests
test a::passes ... ok
test a::fails ... FAILED
test b::fails ... FAILED

failures:

---- a::fails stdout ----
failures:
    c::quoted

test result: FAILED. 0 passed; 2 failed; 0 ignored
--- ConfigMap cm

---- b::fails stdout ----
thread 'b::fails' panicked


failures:
    a::fails
    b::fails

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s

";

const FAILED: [&str; 2] = ["a::fails", "b::fails"];

#[test]
fn failed_tests_are_read_from_the_last_list() {
    assert_eq!(failed(OUTPUT), FAILED);
    let passed = "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n\n";
    assert!(failed(passed).is_empty());
    let (ended, _) = OUTPUT.rsplit_once("    b::fails").unwrap();
    assert!(failed(ended).is_empty(), "the binary has ended by itself");
    let (ended, _) = OUTPUT.rsplit_once("\nfailures:").unwrap();
    assert!(
        failed(ended).is_empty(),
        "the list is one that a test has written"
    );
}

#[test]
fn the_output_of_a_test_ends_with_the_next_one_or_the_list() {
    let output = |name| output_of(OUTPUT, name, &FAILED);
    assert!(output("a::fails").starts_with("failures:\n    c::quoted"));
    assert!(output("a::fails").ends_with("--- ConfigMap cm"));
    assert_eq!(output("b::fails"), "thread 'b::fails' panicked");
    assert_eq!(output("c::unknown"), "");
}

#[test]
fn a_cause_is_the_first_panic() {
    let output = "creates a ConfigMap\nthread 'a' (7) panicked at suite/a.rs:1:2:\nnot equal\n left: 1\n\
                  stack backtrace:\n 0: main\nthread 'b' (8) panicked at suite/b.rs:1:2:\n";
    let expected = "thread 'a' (7) panicked at suite/a.rs:1:2:\nnot equal\n left: 1";
    assert_eq!(cause(output), expected);
    assert_eq!(cause("creates a ConfigMap"), "");
    let lines = format!("panicked at a\n{}", "x\n".repeat(100));
    assert_eq!(cause(&lines).lines().count(), MAX_CAUSE.0);
    let line = format!("panicked at {}", "ü".repeat(1000));
    assert_eq!(cause(&line).chars().count(), MAX_CAUSE.1);
}

#[test]
fn a_test_that_passes_in_the_second_run_is_flaky() {
    let check = |output: &str, code: i32, expected: &[&str]| {
        let second = Run {
            id: 1,
            status: ExitStatus::from_raw(code << 8),
            output: output.to_owned(),
        };
        assert_eq!(flaky(&FAILED, &second), expected, "{output}");
    };
    let list = |names: &str| {
        let count = names.lines().count();
        format!("\nfailures:\n{names}\n\ntest result: FAILED. 0 passed; {count} failed;\n")
    };
    check("\ntest result: ok. 2 passed\n", 0, &FAILED);
    check(&list("    b::fails"), 101, &["a::fails"]);
    check(&list("    a::fails\n    b::fails"), 101, &[]);
    check("\ntest a::fails ... ok\n", 134, &[]);
}

#[test]
fn a_stored_output_is_found_under_the_name_of_its_test() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept");
    assert_eq!(kept(&path), [], "there is no directory");
    for name in ["b::set", "a::b_c::set"] {
        store_output(&path, name, "the output").unwrap();
    }
    let names: Vec<String> = kept(&path).into_iter().map(|flaky| flaky.name).collect();
    assert_eq!(names, ["a::b_c::set", "b::set"]);
    let output = fs::read_to_string(&kept(&path)[0].output).unwrap();
    assert_eq!(output, "the output");
}

#[test]
fn a_second_run_contains_only_the_failed_tests() {
    let args = ["--exact", "--include-ignored", "--test-threads=1", "a", "b"];
    assert_eq!(alone(&["a", "b"]), args);
}
