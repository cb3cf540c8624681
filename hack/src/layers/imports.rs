//! Reads the imports from the text of files: `use`, and paths that begin with `crate`, `super` or
//! one of our crates.

use std::collections::{BTreeMap, BTreeSet};

/// The imports of all files: the importing file, and the imported file or, in another crate, the
/// crate.
pub(super) fn all(sources: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    let tests = test_modules(sources);
    let is_test = |name: &str| tests.iter().any(|test| super::is_within(name, test));
    let mut found = BTreeSet::new();
    for (name, text) in sources.iter().filter(|(name, _)| !is_test(name)) {
        for path in paths(&code(text)) {
            let used = resolve(name, &path, sources);
            found.extend(
                used.filter(|used| used != name)
                    .map(|used| (name.clone(), used)),
            );
        }
    }
    found
}

/// The modules that are compiled for tests only, as paths without `.rs`.
fn test_modules(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, text) in sources {
        let (dir, module) = module(name);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
            let declared = pair[1]
                .strip_suffix(';')
                .and_then(|line| line.split_once("mod "));
            if let Some((_, test)) = declared {
                found.insert([&[dir], &*module, &[test]].concat().join("/"));
            }
        }
    }
    found
}

/// The text without comments, up to its first inline test module.
fn code(text: &str) -> String {
    let lines = crate::tidy::before_tests(text);
    let code = lines
        .iter()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The source directory of a file's crate, and the module of the file.
fn module(name: &str) -> (&str, Vec<&str>) {
    let at = name.find("/src/").map_or(0, |at| at + 1);
    let (dir, rest) = name.split_at(at + "src".len());
    match rest.trim_start_matches('/').trim_end_matches(".rs") {
        "lib" | "main" => (dir, Vec::new()),
        module => (dir, module.split('/').collect()),
    }
}

/// All paths in a piece of code that may be imports. The tree of a `use` is expanded.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let mut statement = line.trim().to_owned();
        let word = statement.find("use ");
        let is_use = word.is_some_and(|at| at == 0 || statement[..at].starts_with("pub"));
        if !is_use {
            rest.push(line);
            continue;
        }
        while !statement.ends_with(';') {
            let Some(line) = lines.next() else { break };
            statement.push_str(line.trim());
        }
        let tree = &statement[word.unwrap_or_default() + "use ".len()..];
        expand("", tree.trim_end_matches(';'), &mut found);
    }
    let is_part = |letter: char| letter.is_alphanumeric() || ['_', ':', '$'].contains(&letter);
    let words = rest
        .iter()
        .flat_map(|line| line.split(|letter| !is_part(letter)));
    found.extend(words.filter(|word| word.contains("::")).map(str::to_owned));
    found
}

/// Expands the tree of a `use`: `a::{b, c::d}` becomes `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, found: &mut Vec<String>) {
    let Some((start, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        found.push(format!("{before}{path}"));
        return;
    };
    let before = format!("{before}{}", start.trim());
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &inner[from..at], found);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !inner[from..].trim().is_empty() {
        expand(&before, &inner[from..], found);
    }
}

/// The file or crate that a path in the file `name` refers to; `None` for a path that begins with a
/// module of the file itself, as it refers to the file's own folder.
fn resolve(name: &str, path: &str, sources: &BTreeMap<String, String>) -> Option<String> {
    let (dir, mut module) = module(name);
    let mut words = path.split("::").peekable();
    match words.next()? {
        "crate" => module.clear(),
        "super" => {
            module.pop();
            while words.next_if_eq(&"super").is_some() {
                module.pop();
            }
        }
        word => {
            let other = word.strip_prefix("baton_")?;
            return if other == "apis" {
                Some(other.to_owned())
            } else {
                Some(format!("crates/{other}"))
            };
        }
    }
    let file = |module: &[&str]| {
        let candidates = match module {
            [] => vec![format!("{dir}/lib.rs"), format!("{dir}/main.rs")],
            module => vec![format!("{dir}/{}.rs", module.join("/"))],
        };
        candidates
            .into_iter()
            .find(|candidate| sources.contains_key(candidate))
    };
    let mut found = file(&module)?;
    for word in words {
        module.push(word);
        match file(&module) {
            Some(deeper) => found = deeper,
            None => break,
        }
    }
    Some(found)
}
