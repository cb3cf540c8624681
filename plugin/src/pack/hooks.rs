//! Hooks of Helm: objects that Helm creates at certain moments, and not with the other objects.
//!
//! Hooks of an installation or an upgrade are packed into phases of their own, one per weight:
//! `pre-*` hooks before everything but namespaces and CRDs, `post-*` hooks after everything. Notes
//! report the settings of a hook that a revision ignores.

use std::collections::BTreeMap;

use baton_releases::chart::hooks::{self, HOOK};
pub(crate) use baton_releases::chart::hooks::{Hook, Moment};

const DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// The only deletion policy without a note: a revision never deletes an object because of its
/// outcome.
const BEFORE_CREATION: &str = "before-hook-creation";

/// The name of the phase for hooks of this moment and weight.
pub(crate) fn phase(Hook { moment, weight }: Hook) -> String {
    let moment = match moment {
        Moment::Before => "pre-install",
        Moment::After => "post-install",
    };
    match weight {
        0 => moment.to_owned(),
        1.. => format!("{moment}-{weight}"),
        _ => format!("{moment}-minus-{}", weight.unsigned_abs()),
    }
}

/// The hook in the annotations of an object, if there is one.
///
/// # Errors
/// The names of a hook that no revision has a place for.
pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Result<Option<Hook>, String> {
    hooks::of(|key| annotations.get(key).map(String::as_str)).map_err(str::to_owned)
}

/// A note about actions of Helm for a packed hook that a revision does not take; `None` for other
/// objects.
pub(crate) fn ignored(kind: &str, annotations: &BTreeMap<String, String>) -> Option<String> {
    let hook = of(annotations).ok()??;
    let list = |annotation: &str| {
        let words = annotations.get(annotation).map_or("", String::as_str);
        let words = words.split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    let names = list(HOOK);
    let [install, upgrade] = match hook.moment {
        Moment::Before => ["pre-install", "pre-upgrade"],
        Moment::After => ["post-install", "post-upgrade"],
    };
    let has = |name: &str| names.contains(&name);
    let mut said = Vec::new();
    if matches!(kind, "Job" | "Pod") {
        said.push(
            match (has(install), has(upgrade)) {
                (true, false) => "it runs again at an upgrade that changes it",
                (false, true) => {
                    "it runs at the installation too, and again at an upgrade that changes it"
                }
                _ => "it runs again at an upgrade that changes it, not at every one",
            }
            .to_owned(),
        );
    }
    let others: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| ![install, upgrade].contains(name))
        .collect();
    if !others.is_empty() {
        said.push(format!("it is not run at {}", others.join(", ")));
    }
    let policies = list(DELETE_POLICY);
    let unknown: Vec<&str> = policies
        .iter()
        .copied()
        .filter(|policy| *policy != BEFORE_CREATION)
        .collect();
    if !unknown.is_empty() {
        said.push(format!(
            "it is kept as long as the revision; {DELETE_POLICY} {} is ignored",
            unknown.join(", ")
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_from_the_behaviour_of_helm_hooks_are_noted() {
        let changed = "it runs again at an upgrade that changes it";
        for (kind, names, policy, expected) in [
            ("ConfigMap", "pre-install", "", None),
            ("ConfigMap", "crd-install", "hook-succeeded", None),
            ("ConfigMap", "test", "hook-succeeded", None),
            ("ConfigMap", "", "hook-succeeded", None),
            (
                "Job",
                "pre-install",
                "before-hook-creation",
                Some(changed.to_owned()),
            ),
            (
                "Job",
                "pre-install,pre-upgrade",
                "",
                Some(format!("{changed}, not at every one")),
            ),
            (
                "Job",
                "post-upgrade",
                "",
                Some(
                    "it runs at the installation too, and again at an upgrade that changes it"
                        .to_owned(),
                ),
            ),
            (
                "ConfigMap",
                "post-install, pre-delete,test",
                "",
                Some("it is not run at pre-delete, test".to_owned()),
            ),
            (
                "Secret",
                "post-install,pre-upgrade",
                "before-hook-creation, hook-succeeded,hook-failed",
                Some(
                    "it is not run at post-install; it is kept as long as the revision; helm.sh/hook-delete-policy \
                     hook-succeeded, hook-failed is ignored"
                        .to_owned(),
                ),
            ),
        ] {
            let mut annotations = BTreeMap::from([(DELETE_POLICY.to_owned(), policy.to_owned())]);
            if !names.is_empty() {
                annotations.insert(HOOK.to_owned(), names.to_owned());
            }
            assert_eq!(ignored(kind, &annotations), expected, "{kind} {names}");
        }
    }

    #[test]
    fn hooks_get_phases_or_are_left_out() {
        for (names, weight, expected) in [
            ("pre-install", "", Ok(Some("pre-install"))),
            (
                "pre-upgrade,pre-install",
                "-5",
                Ok(Some("pre-install-minus-5")),
            ),
            (
                "post-install, post-upgrade",
                "3",
                Ok(Some("post-install-3")),
            ),
            ("post-install,pre-upgrade", "x", Ok(Some("pre-install"))),
            ("crd-install", "", Ok(None)),
            ("test", "", Err("test")),
            ("test-success", "1", Err("test-success")),
            ("pre-delete,post-delete", "", Err("pre-delete,post-delete")),
            ("pre-rollback", "", Err("pre-rollback")),
            ("post-install,test", "", Ok(Some("post-install"))),
        ] {
            let annotations = [(HOOK, names), ("helm.sh/hook-weight", weight)];
            let annotations = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
            let hook = of(&annotations.into()).map(|hook| hook.map(phase));
            let expected = expected.map(|phase| phase.map(str::to_owned));
            assert_eq!(hook, expected.map_err(str::to_owned), "{names}");
        }
        assert_eq!(of(&BTreeMap::new()), Ok(None));
    }

    #[test]
    fn hooks_are_in_the_order_of_helm() {
        let hook = |moment, weight| Hook { moment, weight };
        let mut hooks = [
            hook(Moment::After, -1),
            hook(Moment::Before, 5),
            hook(Moment::Before, -3),
        ];
        hooks.sort();
        let phases = hooks.map(phase);
        assert_eq!(
            phases,
            [
                "pre-install-minus-3",
                "pre-install-5",
                "post-install-minus-1"
            ]
        );
    }
}
