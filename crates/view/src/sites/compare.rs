//! The differences of an application for sites, without the content of its versions.

use baton_apis::{SiteApplication, SiteApplicationSpec, SiteUpgrade};
use serde_json::{Value, json};

use crate::diff::{Section, Topic};

/// The section about the upgrade method, with the fields that are part of a version; `None` if these
/// are equal, or if `from` is `None`.
pub fn upgrade(from: Option<Value>, to: Value) -> Option<Section> {
    // A field that a record omits has its default.
    let whole = |value: Value| {
        let upgrade: SiteUpgrade = serde_json::from_value(value).unwrap_or_default();
        json!({ "method": upgrade.method, "services": upgrade.services })
    };
    Section::of_change(Topic::Upgrade, whole(from?), whole(to))
}

/// The section about the terms of upgrades; `None` if these are equal. They are no part of a
/// version: the present terms apply to all versions.
pub fn terms(before: Option<&SiteApplication>, after: &SiteApplication) -> Option<Section> {
    let of = |application: &SiteApplication| {
        let SiteApplicationSpec {
            upgrade_windows,
            upgrade,
            ..
        } = &application.spec;
        json!({
            "upgradeWindows": upgrade_windows,
            "skipPatchVersions": upgrade.skip_patch_versions,
            "windowsApplyToEdits": upgrade.windows_apply_to_edits,
        })
    };
    Section::of_change(Topic::Terms, of(before?), of(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_upgrade_that_a_record_omits_have_their_defaults() {
        let default = json!({ "method": "PerService" });
        assert_eq!(upgrade(Some(Value::Null), default.clone()), None);
        assert_eq!(upgrade(None, default.clone()), None);
        let other = json!({ "method": "StopAndRestart" });
        assert!(upgrade(Some(default), other).unwrap().differs());
    }

    /// The present terms apply to every version.
    #[test]
    fn fields_outside_of_a_version_are_no_difference_of_versions() {
        let kept = json!({ "method": "PerService" });
        let asked = json!({ "skipPatchVersions": true, "windowsApplyToEdits": true });
        assert!(upgrade(Some(kept.clone()), asked).is_none());
        let stopped = json!({ "method": "StopAndRestart" });
        assert!(upgrade(Some(kept), stopped).is_some());
    }
}
