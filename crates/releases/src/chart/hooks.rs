//! Hooks of Helm: objects that Helm creates at certain moments, and not with the other objects.
//!
//! Only hooks of an installation or an upgrade have a place in a revision or a Release. Tests, and
//! hooks of a deletion or a rollback, are left out.

/// Annotation of Helm that makes an object a hook: the moments, separated by commas.
pub const HOOK: &str = "helm.sh/hook";
const WEIGHT: &str = "helm.sh/hook-weight";

/// A hook of an installation or an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hook {
    /// The time of the hook, before or after the other objects.
    pub moment: Moment,
    /// The weight; lower ones come first.
    pub weight: i32,
}

/// The time of a hook, before or after the other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before the other objects.
    Before,
    /// After the other objects.
    After,
}

/// Reads the hook of an object from its annotations; `None` if the object is no hook.
///
/// # Errors
/// The names of the hook, if it has no place in an installation or an upgrade.
pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Hook>, &'a str> {
    let Some(names) = annotation(HOOK) else {
        return Ok(None);
    };
    let has = |wanted: &[&str]| names.split(',').any(|name| wanted.contains(&name.trim()));
    let moment = if has(&["pre-install", "pre-upgrade"]) {
        Moment::Before
    } else if has(&["post-install", "post-upgrade"]) {
        Moment::After
    } else if has(&["crd-install"]) {
        // Helm 2 needed a hook for CRDs. Their kind determines their order.
        return Ok(None);
    } else {
        return Err(names);
    };
    // As in Helm, a weight that is no number is zero.
    let weight = annotation(WEIGHT).and_then(|weight| weight.trim().parse().ok());
    Ok(Some(Hook {
        moment,
        weight: weight.unwrap_or(0),
    }))
}
