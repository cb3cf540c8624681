//! The request that unites the legacy entries of an object's `managedFields` with ours.

use serde_json::{Value, json};

use super::{Call, Child, JSON_PATCH};
use crate::{answer::Operation, target::Target};
use baton_engine::{Answer, Precondition, diff::legacy::migrated, object::precondition};

impl Target {
    /// Reads the object, because the store does not keep the entries of other managers, and
    /// replaces its `managedFields` if it is in the state that was decided upon.
    pub(super) async fn migrate(
        &self,
        child: &Child<'_>,
        decided: &Precondition,
        former: &[String],
    ) -> Answer {
        let (answer, _) = self.execute(child, &child.get()).await;
        let Answer::Object(live) = answer else {
            return answer;
        };
        match migrated(&live, former).filter(|_| precondition(&live) == *decided) {
            Some(entries) => {
                self.execute(child, &child.replace_entries(&entries, decided))
                    .await
                    .0
            }
            None => Answer::Object(live),
        }
    }
}

impl Child<'_> {
    fn replace_entries(&self, entries: &[Value], live: &Precondition) -> Call {
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": live.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        ]);
        self.patch(Operation::Patch, JSON_PATCH, &patch)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{
        super::tests::{check_call, with_child},
        *,
    };

    #[test]
    fn the_patch_is_bound_to_the_state_that_was_read() {
        let live = Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            owner_index: 0,
        };
        let call = with_child(|child| child.replace_entries(&[json!({"manager": "m"})], &live));
        check_call(
            &call,
            &Method::PATCH,
            "?fieldManager=package-operator&fieldValidation=Ignore",
            Some(JSON_PATCH),
            concat!(
                r#"[{"op":"test","path":"/metadata/uid","value":"u"},"#,
                r#"{"op":"test","path":"/metadata/resourceVersion","value":"7"},"#,
                r#"{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"m"}]}]"#
            ),
        );
        assert!(call.is_write());
    }
}
