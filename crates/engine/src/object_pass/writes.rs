//! The requests that change an existing object.

use serde_json::{Value, json};

use super::{NextAction, ObjectPass, Problem, Progress, references::References};
use crate::{
    Request,
    diff::leftovers::Leftovers,
    handover::{Situation, former_managers},
    heirs::handed_over,
    object::{controlled_reference, metadata, metadata_mut, precondition},
};
use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};

impl ObjectPass<'_> {
    /// The next step towards an apply to an existing object.
    ///
    /// A dry run goes first: it shows if there is any difference, and stops invalid content before
    /// the object is changed. It is not final if legacy entries own fields. Fields to be removed
    /// still exist then (a volume can change from one source to another, but not have two), and
    /// fields that the body lacks are not missing yet. So another dry run follows the migration.
    /// The same holds for leftovers.
    pub(super) fn need_to_apply(
        &self,
        body: Value,
        (live, situation): (&Value, &Situation),
        is_checked: bool,
    ) -> NextAction {
        let migrate_with = |leftovers: &Leftovers| Request::Migrate {
            live: precondition(live),
            former: former_managers(situation, self.desired, live),
            leftovers: leftovers.clone(),
        };
        let migrate = || migrate_with(&Leftovers::default());
        if let Progress::RefusedWithLeftovers(leftovers, ..) = &self.progress {
            let patch = leftovers.merge_patch(body, live);
            NextAction::Check(Request::DryRunMerge(versioned(patch, live)))
        } else if let Progress::CheckedWithoutLeftovers(leftovers) = &self.progress {
            NextAction::Prepare(migrate_with(leftovers))
        } else if self.progress == Progress::RefusedUnmigrated {
            NextAction::Check(migrate())
        } else if !is_checked {
            NextAction::Check(Request::DryRunApply(versioned(body, live)))
        } else if self.needs_migration(live, situation) {
            NextAction::Prepare(migrate())
        } else {
            NextAction::Write(Request::Apply(versioned(body, live)))
        }
    }

    /// The next step towards an object that is deleted and created again.
    ///
    /// The object is taken over first, and the status reports this to the older revisions: once the
    /// object is gone, they leave it to this revision.
    pub(super) fn need_to_recreate(&self, live: &Value) -> NextAction {
        let revision = self.revision;
        match self.classify(live) {
            Situation::Ours if revision.ran.contains(&self.desired.key) => NextAction::Nothing,
            Situation::Ours
                if revision
                    .reported
                    .contains(&controlled_reference(&self.desired.key)) =>
            {
                NextAction::Write(Request::DeleteForRecreation(precondition(live)))
            }
            Situation::Ours => {
                let text = "taken over, to be deleted and created again".to_owned();
                NextAction::Blocked(Problem::Failed, text)
            }
            _ => {
                let owners = References::All.list(live, revision);
                let mut body = handed_over(live, &owners, revision.number);
                body["metadata"]["labels"] = json!({ LABEL_CACHE: LABEL_CACHE_VALUE });
                NextAction::Write(Request::HandOver(body))
            }
        }
    }
}

/// The body with uid and `resourceVersion` of the object that the decision is based on. The server
/// refuses it if another client wrote in between.
fn versioned(mut body: Value, live: &Value) -> Value {
    let fields = metadata_mut(&mut body);
    for field in ["uid", "resourceVersion"] {
        fields.insert(field.to_owned(), metadata(live, field).into());
    }
    body
}
