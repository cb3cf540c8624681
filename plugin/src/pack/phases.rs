//! Distributes objects over phases, and orders the phases.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    hooks::{self, Hook, Moment},
    kinds::{self, Stage},
    manifest::Manifest,
};

/// A phase: its name, and the indexes of its manifests.
pub(crate) type Phase = (String, Vec<usize>);

/// Distributes the objects over phases.
///
/// An object goes into the phase that its annotation names, else into that of its Helm hook, else
/// into that of its kind. Phases by kind are in the order of [`Stage`], with the hooks before
/// `rbac` and at the end. Phases that only annotations name follow those by kind, in the order of
/// their first object. `order` overrides this, see the function `reorder`.
///
/// # Guarantees
/// Within a phase the objects are in the order of the input. Phases without objects are left out.
pub(crate) fn arrange(
    manifests: &[Manifest],
    own_groups: &BTreeSet<String>,
    order: &[String],
) -> Vec<Phase> {
    let mut objects: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut hooks: BTreeSet<Hook> = BTreeSet::new();
    let mut from_annotations = Vec::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let name = match (&manifest.phase, manifest.hook) {
            (Some(name), _) => {
                if !from_annotations.contains(name) {
                    from_annotations.push(name.clone());
                }
                name.clone()
            }
            (None, Some(hook)) => {
                hooks.insert(hook);
                hooks::phase(hook)
            }
            (None, None) => {
                let (group, kind) = (&manifest.gvk.group, &manifest.gvk.kind);
                let stage = kinds::stage(group, kind, own_groups.contains(group));
                stage.name().to_owned()
            }
        };
        objects.entry(name).or_default().push(index);
    }

    let hooks = |moment| hooks.iter().filter(move |hook| hook.moment == moment);
    let mut names: Vec<String> = Vec::new();
    for stage in Stage::ALL {
        if stage == Stage::Rbac {
            names.extend(hooks(Moment::Before).map(|hook| hooks::phase(*hook)));
        }
        names.push(stage.name().to_owned());
    }
    let after: Vec<_> = hooks(Moment::After)
        .map(|hook| hooks::phase(*hook))
        .collect();
    for name in from_annotations {
        if !names.contains(&name) && !after.contains(&name) {
            names.push(name);
        }
    }
    names.extend(after);
    reorder(&mut names, order);
    let phase = |name: String| objects.remove(&name).map(|objects| (name, objects));
    names.into_iter().filter_map(phase).collect()
}

/// Brings phases into a wanted order, and moves as few phases by kind as possible.
///
/// The first phase by kind in `order` stays. A name before it moves right before it, and a name
/// after it moves right behind its predecessor, unless it is a phase by kind that comes later
/// anyway. So `config,migrate,workloads` puts `migrate` behind `config`, and all other phases stay.
/// Without a phase by kind, the first name stays.
fn reorder(names: &mut Vec<String>, order: &[String]) {
    let order: Vec<_> = order.iter().filter(|name| names.contains(name)).collect();
    let is_stage = |name: &str| Stage::ALL.iter().any(|stage| stage.name() == name);
    let fixed = order.iter().position(|name| is_stage(name)).unwrap_or(0);
    for pair in order.windows(2).take(fixed).rev() {
        let [name, next] = pair else { continue };
        names.retain(|other| other != *name);
        let position = names.iter().position(|other| other == *next);
        names.insert(position.unwrap_or(names.len()), (*name).clone());
    }
    for pair in order.windows(2).skip(fixed) {
        let [before, name] = pair else { continue };
        let mut passed = names.iter().skip_while(|other| other != before);
        if is_stage(name) && passed.any(|other| other == *name) {
            continue;
        }
        names.retain(|other| other != *name);
        let position = names.iter().position(|other| other == *before);
        names.insert(
            position.map_or(names.len(), |position| position + 1),
            (*name).clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(extra: &[&str], order: &[&str]) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut names = owned(&["crds", "config", "workloads", "traffic"]);
        names.extend(owned(extra));
        reorder(&mut names, &owned(order));
        names
    }

    #[test]
    fn phases_are_reordered_with_few_moves() {
        for (extra, order, expected) in [
            (&[][..], &[][..], "crds config workloads traffic"),
            (&["a"], &[], "crds config workloads traffic a"),
            (&["a"], &["config", "a"], "crds config a workloads traffic"),
            (
                &["a"],
                &["config", "a", "workloads"],
                "crds config a workloads traffic",
            ),
            (&["a"], &["a", "config"], "crds a config workloads traffic"),
            (
                &["a", "b"],
                &["b", "a"],
                "crds config workloads traffic b a",
            ),
            (
                &["a", "b"],
                &["b", "a", "config"],
                "crds b a config workloads traffic",
            ),
            (
                &["a", "b"],
                &["config", "b", "a"],
                "crds config b a workloads traffic",
            ),
            (
                &["a", "b"],
                &["crds", "b", "workloads", "a"],
                "crds b config workloads a traffic",
            ),
            (
                &[],
                &["workloads", "config"],
                "crds workloads config traffic",
            ),
            (&[], &["traffic", "crds"], "config workloads traffic crds"),
            (
                &["a"],
                &["unknown", "a", "workloads"],
                "crds config a workloads traffic",
            ),
        ] {
            assert_eq!(
                ordered(extra, order).join(" "),
                expected,
                "{extra:?} {order:?}"
            );
        }
    }
}
