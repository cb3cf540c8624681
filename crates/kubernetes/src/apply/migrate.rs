//! The request that merges legacy entries of an object's `managedFields` into ours.

use baton_engine::{
    Answer, Precondition,
    diff::{leftovers::Leftovers, legacy::migrated_with},
    object::precondition,
    operations::replace,
};

use super::Child;
use crate::target::Target;

impl Target {
    /// Replaces the `managedFields` of an object if it is in the state that was decided upon. The
    /// object is read first, because the store has no entries of other managers.
    pub(super) async fn migrate(
        &self,
        child: &Child<'_>,
        decided: &Precondition,
        former: &[String],
        leftovers: &Leftovers,
    ) -> Answer {
        let (answer, _) = self.execute(child, &child.get()).await;
        let Answer::Object(live) = answer else {
            return answer;
        };
        match migrated_with(&live, former, leftovers).filter(|_| precondition(&live) == *decided) {
            Some(entries) => {
                let entries = replace(&["metadata", "managedFields"], entries);
                let call = child.change(decided, vec![entries]);
                self.execute(child, &call).await.0
            }
            None => Answer::Object(live),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::{
        super::tests::{check_call, with_child},
        *,
    };
    use crate::wire::MediaType;

    #[test]
    fn the_patch_is_bound_to_the_state_that_was_read() {
        let live = Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            owner_index: 0,
        };
        let entries = replace(
            &["metadata", "managedFields"],
            vec![json!({"manager": "m"})],
        );
        let call = with_child(|child| child.change(&live, vec![entries]));
        check_call(
            &call,
            &Method::PATCH,
            "?fieldManager=package-operator&fieldValidation=Ignore",
            Some(MediaType::JsonPatch),
            concat!(
                r#"[{"op":"test","path":"/metadata/uid","value":"u"},"#,
                r#"{"op":"test","path":"/metadata/resourceVersion","value":"7"},"#,
                r#"{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"m"}]}]"#
            ),
        );
        assert!(call.is_write());
    }
}
