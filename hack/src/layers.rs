//! The order of the crates, folders and files of the product, by which they may use each other.
//!
//! An import points down this order, and there are no circles between files, except between the file of a folder and
//! those in it. Tests may use everything.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{self, Error};

/// The layers. Each may use those above it in this list, and what is within the same entry; entries of one layer do not
/// use each other. A file belongs to the longest entry that it is in.
const LAYERS: &[&[&str]] = &[
    &["apis"],
    &["crates/probes", "crates/yaml"],
    &["crates/engine"],
    &["crates/releases", "crates/sites"],
    &["crates/view"],
    &["crates/kubernetes"],
    &["crates/terminal"],
    // The plugin.
    &["plugin/src/output"],
    &["plugin/src/screen", "plugin/src/wait/bars"],
    &["plugin/src/error"],
    &["plugin/src/served"],
    &["plugin/src/connect"],
    &["plugin/src/cluster"],
    &["plugin/src"],
    &["plugin/src/adopt", "plugin/src/rollback"],
    &["plugin/src/commands"],
    &["plugin/src/cli"],
    &["plugin/src/main"],
    // The manager and the agent.
    &["crates/charts", "crates/runtime"],
    &["crates/records", "crates/typed"],
    &["crates/fleet"],
    &["src/delivery"],
    &["src/controllers"],
    &["src/cli"],
    &["src/logs"],
    &["src/error"],
    &["src/run"],
    &["src/agent"],
    &["src/main"],
];

/// Imports that break the order or close a circle, and why they are still there. One that does neither any more has to
/// go from this list.
const KNOWN: &[(&str, &str, &str)] = &[];

/// An import: the file that has it, and the file or crate that it names.
type Import<'a> = (&'a str, &'a str);

/// Checks the imports of the product. The error has every broken rule.
pub(crate) fn check(workspace: &Path) -> Result<(), Error> {
    let mut sources = BTreeMap::new();
    for dir in ["apis", "crates", "plugin", "src"] {
        for (name, text) in tidy::sources(workspace, &workspace.join(dir))? {
            let is_product = name.contains("/src/") || name.starts_with("src/");
            if is_product && tidy::has_extension(Path::new(&name), "rs") {
                sources.insert(name, text);
            }
        }
    }
    match violations(&sources, LAYERS, KNOWN) {
        found if found.is_empty() => Ok(()),
        found => Err(Error::Untidy(found)),
    }
}

/// The broken rules of these files, by their paths in the workspace.
fn violations(
    sources: &BTreeMap<String, String>,
    layers: &[&[&str]],
    known: &[(&str, &str, &str)],
) -> Vec<String> {
    let imports = imports::all(sources);
    let imports: BTreeSet<Import<'_>> = imports.iter().map(|(a, b)| (&**a, &**b)).collect();
    let known: BTreeSet<Import<'_>> = known.iter().map(|(from, to, _)| (*from, *to)).collect();
    let mut found = Vec::new();
    for name in sources.keys().filter(|name| place(name, layers).is_none()) {
        found.push(format!("{name}: it is in no layer of hack/src/layers.rs"));
    }
    for import in &imports {
        if is_upward(*import, layers) && !known.contains(import) {
            let (from, to) = import;
            found.push(format!("{from}: it uses {to}, which is above it"));
        }
    }
    let allowed = Graph::of(imports.difference(&known));
    for import in imports.difference(&known) {
        if allowed.is_in_circle(*import) {
            let (from, to) = import;
            found.push(format!(
                "{from}: it uses {to}, and is used by it, perhaps through others"
            ));
        }
    }
    let all = Graph::of(&imports);
    for import in known {
        let breaks_rule = is_upward(import, layers) || all.is_in_circle(import);
        if !(imports.contains(&import) && breaks_rule) {
            let (from, to) = import;
            found.push(format!(
                "{from}: it may use {to}, take that out of hack/src/layers.rs"
            ));
        }
    }
    found
}

/// The layer and the entry that a file or a crate belongs to.
fn place(name: &str, layers: &[&[&str]]) -> Option<(usize, usize)> {
    let mut best = None;
    for (layer, entries) in layers.iter().enumerate() {
        for (index, entry) in entries.iter().enumerate() {
            let is_longer = best.is_none_or(|(length, _)| length < entry.len());
            if is_within(name, entry) && is_longer {
                best = Some((entry.len(), (layer, index)));
            }
        }
    }
    best.map(|(_, place)| place)
}

/// True if a path is that of a folder or file, given without `.rs`, or of something in it.
fn is_within(path: &str, entry: &str) -> bool {
    let rest = path.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

fn is_upward((from, to): Import<'_>, layers: &[&[&str]]) -> bool {
    match (place(from, layers), place(to, layers)) {
        (Some(from), Some(to)) => from != to && from.0 <= to.0,
        _ => false,
    }
}

/// The imports of each file, except those within its folder and the file of that folder.
struct Graph<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Graph<'a> {
    fn of<'i>(imports: impl IntoIterator<Item = &'i Import<'a>>) -> Self
    where
        'a: 'i,
    {
        let mut graph: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, to) in imports.into_iter().filter(|import| !is_of_folder(**import)) {
            graph.entry(from).or_default().push(to);
        }
        Self(graph)
    }

    /// True if the imports lead back from what is imported.
    fn is_in_circle(&self, (from, to): Import<'a>) -> bool {
        let mut reached = BTreeSet::from([to]);
        let mut next = vec![to];
        while let Some(file) = next.pop() {
            let used = self.0.get(file).into_iter().flatten().copied();
            next.extend(used.filter(|file| reached.insert(*file)));
        }
        !is_of_folder((from, to)) && reached.contains(from)
    }
}

/// True if one of the files is that of a folder, and the other is in the folder.
fn is_of_folder((from, to): Import<'_>) -> bool {
    let folder = |name: &str| match name
        .strip_suffix("/lib.rs")
        .or(name.strip_suffix("/main.rs"))
    {
        Some(root) => root.to_owned(),
        None => name.trim_end_matches(".rs").to_owned(),
    };
    is_within(from, &folder(to)) || is_within(to, &folder(from))
}

#[cfg(test)]
mod tests;
