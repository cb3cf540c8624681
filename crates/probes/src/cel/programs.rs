//! Compiled regular expressions: their size, the cost of a search, and a cache of those that were
//! used last.
//!
//! The reason against `regex::Regex`: it shows neither the number of states of a pattern, with
//! which the cost of a search grows, nor its memory, and it keeps the memory of searches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex_automata::Input;
use regex_automata::meta::{self, Cache};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::iter::Searcher;
use regex_syntax::Parser;
use regex_syntax::hir::Hir;

use crate::cel::error::RegexError;

/// Greatest size of all constant patterns of a rule, compiled, in bytes. Patterns for Kubernetes
/// names, versions and addresses are far smaller.
pub const SIZE_LIMIT: usize = 1 << 20;
/// Greatest length of a pattern. A constant one cannot be longer, because its rule cannot.
pub const MAX_PATTERN: usize = crate::cel::MAX_RULE;
/// Size of the cache of programs, for all rules together, in bytes. A program that was dropped is
/// compiled again when it is used.
const CACHE_BYTES: usize = 8 << 20;
/// Memory of a program besides that of its pattern.
const OVERHEAD: usize = 1 << 10;
/// Memory of a search for its states. It is freed after the evaluation.
const SEARCH_MEMORY: usize = 256 << 10;

/// A compiled pattern.
#[derive(Debug)]
pub struct Program {
    regex: meta::Regex,
    size: usize,
    states: u64,
    /// Greatest length of a match; `None` if there is no limit.
    longest: Option<usize>,
}

impl Program {
    /// Compiles a pattern into no more memory than `limit` bytes.
    pub fn compile(pattern: &str, limit: usize) -> Result<Self, RegexError> {
        let failed = |cause: String| RegexError {
            pattern: pattern.chars().take(100).collect(),
            cause,
        };
        let too_large = || {
            failed(format!(
                "larger than {SIZE_LIMIT} bytes when compiled, all patterns of a rule together"
            ))
        };
        if pattern.len() > MAX_PATTERN {
            return Err(failed(format!("longer than {MAX_PATTERN} bytes")));
        }
        let hir = Parser::new().parse(pattern).map_err(|error| {
            // The parser's error shows the pattern on several lines; the last line has the cause.
            let text = error.to_string();
            let cause = text.lines().last().unwrap_or_default();
            failed(cause.trim_start_matches("error: ").to_owned())
        })?;
        let built = Self::build(&hir, limit).ok_or_else(too_large)?;
        if built.size > limit {
            return Err(too_large());
        }
        Ok(built)
    }

    /// Returns `None` if the program would be larger than `limit`; a parsed pattern has no other
    /// error.
    fn build(hir: &Hir, limit: usize) -> Option<Self> {
        let config = meta::Config::new()
            .nfa_size_limit(Some(limit))
            .onepass_size_limit(Some(limit))
            .hybrid_cache_capacity(SEARCH_MEMORY)
            .which_captures(WhichCaptures::Implicit);
        let regex = meta::Builder::new()
            .configure(config)
            .build_from_hir(hir)
            .ok()?;
        let config = NFA::config()
            .nfa_size_limit(Some(limit))
            .which_captures(WhichCaptures::None);
        let nfa = NFA::compiler().configure(config).build_from_hir(hir);
        // This NFA is smaller than either of the two in the first regex, so it is within the limit.
        let states = nfa.map_or(usize::MAX, |nfa| nfa.states().len());
        Some(Self {
            size: regex.memory_usage() + OVERHEAD,
            regex,
            states: states as u64,
            longest: hir.properties().maximum_len(),
        })
    }

    /// Memory of the program, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Greatest cost of a search through `bytes` of text, in units of 100 ns (see
    /// [`Budget`](crate::budget::Budget)). Each byte may be compared with each state, which takes
    /// 10 ns.
    pub fn search_cost(&self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.states) / 10
    }

    /// Greatest cost of the text that a search may have read after the end of a match, with `rest`
    /// bytes after the end.
    pub fn look_ahead_cost(&self, rest: usize) -> u64 {
        self.search_cost(self.longest.map_or(rest, |longest| longest.min(rest)))
    }

    /// Creates the memory that searches with this program need.
    pub fn cache(&self) -> Cache {
        self.regex.create_cache()
    }

    pub fn is_match(&self, cache: &mut Cache, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        self.regex.search_half_with(cache, &input).is_some()
    }

    pub fn find<'t>(&self, cache: &mut Cache, text: &'t str) -> Option<&'t str> {
        let found = self.regex.search_with(cache, &Input::new(text))?;
        text.get(found.range())
    }

    /// Passes each match, and the length of the text after it, to `each`, until `each` fails.
    pub fn find_all<'t, E>(
        &self,
        cache: &mut Cache,
        text: &'t str,
        mut each: impl FnMut(&'t str, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut searcher = Searcher::new(Input::new(text));
        while let Some(found) = searcher.advance(|input| Ok(self.regex.search_with(cache, input))) {
            let part = text.get(found.range()).unwrap_or_default();
            each(part, text.len() - found.end())?;
        }
        Ok(())
    }
}

/// Cost of compiling a pattern of this size: at most 30 ns per byte, as measured.
pub fn compile_cost(size: usize) -> u64 {
    const LEAST: u64 = 2_000;
    LEAST + size as u64 / 3
}

/// Returns a compiled constant pattern, from the cache if possible.
pub fn constant(pattern: &str, limit: usize) -> Result<Arc<Program>, RegexError> {
    static STORE: LazyLock<Mutex<Store>> = LazyLock::new(Mutex::default);
    let store = || STORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = store().get(pattern) {
        // The limit applies as if the pattern were compiled, so that the validity of a rule does
        // not depend on other rules.
        return if program.size <= limit {
            Ok(program)
        } else {
            Program::compile(pattern, limit).map(Arc::new)
        };
    }
    let program = Arc::new(Program::compile(pattern, limit)?);
    store().put(pattern, &program, CACHE_BYTES);
    Ok(program)
}

/// A cache of the programs that were used last.
#[derive(Debug, Default)]
struct Store {
    programs: HashMap<Arc<str>, (Arc<Program>, u64)>,
    /// By the time of their last use.
    uses: BTreeMap<u64, Arc<str>>,
    clock: u64,
    size: usize,
}

impl Store {
    fn get(&mut self, pattern: &str) -> Option<Arc<Program>> {
        let (program, used) = self.programs.get_mut(pattern)?;
        self.clock += 1;
        let before = std::mem::replace(used, self.clock);
        if let Some(name) = self.uses.remove(&before) {
            self.uses.insert(self.clock, name);
        }
        Some(Arc::clone(program))
    }

    /// Adds a program, and drops the oldest ones until all fit into `most` bytes.
    fn put(&mut self, pattern: &str, program: &Arc<Program>, most: usize) {
        if self.programs.contains_key(pattern) {
            return;
        }
        self.size += program.size;
        self.clock += 1;
        let name: Arc<str> = pattern.into();
        self.uses.insert(self.clock, Arc::clone(&name));
        self.programs
            .insert(name, (Arc::clone(program), self.clock));
        while self.size > most
            && let Some((_, oldest)) = self.uses.pop_first()
            && let Some((oldest, _)) = self.programs.remove(&oldest)
        {
            self.size -= oldest.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pattern: &str) -> Arc<Program> {
        Arc::new(Program::compile(pattern, SIZE_LIMIT).unwrap())
    }

    #[test]
    fn the_programs_used_last_are_kept() {
        let (a, b, c) = (program("a"), program("b"), program("c"));
        let most = a.size + b.size;
        let mut store = Store::default();
        store.put("a", &a, most);
        store.put("b", &b, most);
        assert!(store.get("a").is_some());
        store.put("c", &c, most);
        assert!(store.get("b").is_none());
        assert!(store.get("a").is_some() && store.get("c").is_some());
        store.put("a", &a, most);
        assert_eq!(store.size, a.size + c.size);
        assert_eq!(store.programs.len(), store.uses.len());
    }

    #[test]
    fn a_search_costs_states_times_text() {
        for (pattern, states) in [
            ("^a$", 3..8),
            ("a[ab]{3000}c", 3_000..3_100),
            (r"\w{20}xx", 3_000..10_000),
        ] {
            let program = Program::compile(pattern, 4 * SIZE_LIMIT).unwrap();
            let states = states.start / 10 * 1000..states.end / 10 * 1000 + 1000;
            let cost = program.search_cost(1000);
            assert!(states.contains(&cost), "{pattern}: {cost}");
        }
    }

    #[test]
    fn matches_are_found_as_by_the_regex_crate() {
        for (pattern, text) in [
            ("", "äb"),
            ("a*", "baaac"),
            ("[0-9]+", "1 23 x 456"),
            (r"\bfoo\b", "foo föö foo"),
            ("(a|b)(c)?", "abcab"),
            (".", "äöü"),
        ] {
            let (ours, theirs) = (program(pattern), regex::Regex::new(pattern).unwrap());
            let mut cache = ours.cache();
            let mut found = Vec::new();
            let each = |part, _| {
                found.push(part);
                Ok::<_, ()>(())
            };
            ours.find_all(&mut cache, text, each).unwrap();
            let expected: Vec<_> = theirs.find_iter(text).map(|found| found.as_str()).collect();
            assert_eq!(found, expected, "{pattern}");
            assert_eq!(ours.is_match(&mut cache, text), theirs.is_match(text));
            assert_eq!(
                ours.find(&mut cache, text),
                theirs.find(text).map(|found| found.as_str())
            );
        }
    }
}
