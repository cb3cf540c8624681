//! The layers of the product's crates, folders and files, which determine their imports.
//!
//! A file imports only from lower layers, and there are no cycles between files, except between the
//! file of a folder and the files in it. Tests may import everything.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{self, Error};

/// The layers, the lowest first. An entry may import from itself and from earlier layers of this
/// list, but not from other entries of its own layer. A file belongs to the longest entry that
/// contains it.
const LAYERS: &[&[&str]] = &[
    &["apis"],
    &["crates/probes", "crates/yaml"],
    &["crates/engine"],
    &["crates/releases", "crates/sites"],
    &["crates/view"],
    &["crates/text/src/printable", "crates/text/src/time"],
    &["crates/text/src/output"],
    &["crates/text"],
    &["crates/pages"],
    &["crates/headlamp"],
    &["crates/kubernetes"],
    &["crates/charts", "crates/terminal"],
    &["crates/cluster"],
    &["crates/steering"],
    &["crates/dashboard"],
    // The plugin.
    &["plugin/src/screen", "plugin/src/wait/bars"],
    &["plugin/src/error"],
    &["plugin/src"],
    &["plugin/src/adopt", "plugin/src/backup"],
    &["plugin/src/commands"],
    &["plugin/src/cli"],
    &["plugin/src/main"],
    // The manager and the agent.
    &["crates/runtime"],
    &["crates/records", "crates/typed"],
    &["crates/fleet"],
    &["src/delivery"],
    &["src/controllers"],
    &["src/webhook"],
    &["src/cli"],
    &["src/logs"],
    &["src/error"],
    &["src/run"],
    &["src/agent", "src/dashboard"],
    &["src/main"],
];

/// Imports that break the order or close a cycle, each with the reason. An import that does neither
/// any more has to be removed from this list.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// An import: the importing file, and the imported file or crate.
type Import<'a> = (&'a str, &'a str);

/// Checks the imports of the product. The error lists every broken rule.
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
    match violations(&sources, LAYERS, EXCEPTIONS) {
        found if found.is_empty() => Ok(()),
        found => Err(Error::Untidy(found)),
    }
}

/// The broken rules of these files, by their paths in the workspace.
fn violations(
    sources: &BTreeMap<String, String>,
    layers: &[&[&str]],
    exceptions: &[(&str, &str, &str)],
) -> Vec<String> {
    let imports = imports::all(sources);
    let imports: BTreeSet<Import<'_>> = imports.iter().map(|(a, b)| (&**a, &**b)).collect();
    let exceptions: BTreeSet<Import<'_>> = exceptions
        .iter()
        .map(|(from, to, _)| (*from, *to))
        .collect();
    let mut found = Vec::new();
    for name in sources
        .keys()
        .filter(|name| layer_of(name, layers).is_none())
    {
        found.push(format!("{name}: it is in no layer of hack/src/layers.rs"));
    }
    for import in &imports {
        if is_upward(*import, layers) && !exceptions.contains(import) {
            let (from, to) = import;
            found.push(format!("{from}: it uses {to}, which is above it"));
        }
    }
    let allowed = Graph::of(imports.difference(&exceptions));
    for import in imports.difference(&exceptions) {
        if allowed.is_in_circle(*import) {
            let (from, to) = import;
            found.push(format!(
                "{from}: it uses {to}, and is used by it, perhaps through others"
            ));
        }
    }
    let all = Graph::of(&imports);
    for import in exceptions {
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

/// The layer and the entry of a file or a crate.
fn layer_of(name: &str, layers: &[&[&str]]) -> Option<(usize, usize)> {
    let mut best = None;
    for (layer, entries) in layers.iter().enumerate() {
        for (index, entry) in entries.iter().enumerate() {
            let is_longer = best.is_none_or(|(length, _)| length < entry.len());
            if is_within(name, entry) && is_longer {
                best = Some((entry.len(), (layer, index)));
            }
        }
    }
    best.map(|(_, layer)| layer)
}

/// True if a path is the folder or file `entry`, given without `.rs`, or is inside it.
fn is_within(path: &str, entry: &str) -> bool {
    let rest = path.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

fn is_upward((from, to): Import<'_>, layers: &[&[&str]]) -> bool {
    match (layer_of(from, layers), layer_of(to, layers)) {
        (Some(from), Some(to)) => from != to && from.0 <= to.0,
        _ => false,
    }
}

/// The imports of each file, without those between a folder's file and the files in the folder.
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

    /// True if the import is part of a cycle.
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

/// True if one of the files is the file of a folder, and the other is in the folder.
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
