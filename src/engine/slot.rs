//! One wanted object during a pass: what is known of it, and what that makes the engine ask next.

use serde_json::Value;

use super::{
    Answer, Request,
    diff::{self, Difference, legacy},
    handover::{Lineage, Verdict, classify, collision_message, judge},
    object::{
        Identity, is_controller, is_terminating, metadata, metadata_mut, owner_references,
        precondition, text,
    },
    owners,
    revision::{Delivery, Desired, Revision},
};
use baton_apis::constants::{ANNOTATION_REVISION, FIELD_MANAGER};

/// What a cache or a server knows of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Live {
    /// Nothing reliable: it has to be read from the server.
    #[default]
    Unread,
    /// It is not in the cache. The cache sees labelled objects only, so a stranger may exist.
    Uncached,
    /// The server said that it does not exist.
    Gone,
    /// It exists.
    Present(Value),
}

/// Fingerprints of a wanted body and of the live fields with which the server answered it.
/// While both stay the same nothing differs, in whatever form the server keeps a value.
pub type Settled = (u64, u64);

/// How often a pass reads an object again because it changes under its hands.
const MAX_ROUNDS: u8 = 8;

/// A wanted object during one pass.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    pub desired: &'a Desired,
    pub live: Live,
    settled: Option<Settled>,
    progress: Progress,
    rounds: u8,
    /// The live state is the answer to our own write: nothing more is to be said about it.
    written: bool,
    /// What this pass found out that outlives it.
    pub learned: Option<Settled>,
    /// What this pass did.
    pub deed: Option<Deed>,
}

/// How far the present decision about an object has come.
#[derive(Clone, Debug, PartialEq)]
enum Progress {
    /// Nothing was tried.
    Fresh,
    /// A dry run accepted the write that the present live state asks for.
    Checked,
    /// The create met an object that had appeared in between; what it merged must be taken back.
    MergedIntoStranger,
    /// The server refused the content.
    Refused(String),
    /// A dry run was refused while legacy entries keep fields that the write would remove; whether
    /// the refusal is about these must be seen.
    RefusedUnmigrated,
    /// The server refused the real write although its dry run had passed.
    WriteRefused(String),
    /// A create's dry run was refused; whether it was because the object exists must be seen.
    RefusedOrTaken(String),
    /// The request failed.
    Failed(String),
    /// The kind is not served any more.
    KindNotServed,
}

/// A write that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Created.
    Created,
    /// Taken over, from the named revision if it was one.
    TookOver(Option<String>),
    /// Brought back to what it should be.
    Repaired,
}

/// What is to be done about an object now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Need {
    /// Nothing: it is as it should be, or belongs to a newer revision.
    Nothing,
    /// A request that changes nothing of what an object says, and must precede every write of the
    /// phase.
    Check(Request),
    /// As a check, to be asked for once there are no checks left, and nothing was refused.
    Prepare(Request),
    /// A write.
    Write(Request),
    /// It waits for something else, told in the text.
    Wait(String),
    /// It belongs to somebody else; the whole message.
    Collision(String),
    /// The server refuses the object.
    Violation(String),
    /// The server refused the write itself.
    WriteRefused(String),
    /// Trying again later may help.
    Failed(String),
}

impl<'a> Slot<'a> {
    pub fn new(desired: &'a Desired, live: Live, settled: Option<Settled>) -> Self {
        Self {
            desired,
            live,
            settled,
            progress: Progress::Fresh,
            rounds: 0,
            written: false,
            learned: None,
            deed: None,
        }
    }

    pub fn live(&self) -> Option<&Value> {
        match &self.live {
            Live::Present(live) => Some(live),
            Live::Unread | Live::Uncached | Live::Gone => None,
        }
    }

    /// Whether the live object is controlled by the revision.
    pub fn is_controlled_by(&self, identity: &Identity) -> bool {
        self.live().is_some_and(|live| {
            owner_references(live)
                .iter()
                .any(|r| is_controller(r) && identity.is(r))
        })
    }

    /// What is to be done, decided from everything known so far.
    pub fn need(&self, revision: &Revision, lineage: &dyn Lineage) -> Need {
        match &self.progress {
            Progress::MergedIntoStranger => return Need::Write(Request::TakeBack),
            Progress::Refused(text) => return Need::Violation(text.clone()),
            Progress::WriteRefused(text) => return Need::WriteRefused(text.clone()),
            Progress::RefusedOrTaken(_) => return Need::Check(Request::Get),
            Progress::Failed(text) => return Need::Failed(text.clone()),
            Progress::KindNotServed => {
                return Need::Violation(format!(
                    "{} not registered on the api server.",
                    self.desired.gvk
                ));
            }
            Progress::Fresh | Progress::Checked | Progress::RefusedUnmigrated => {}
        }
        match &self.live {
            Live::Unread => Need::Check(Request::Get),
            Live::Uncached | Live::Gone => self.need_when_absent(revision, lineage),
            Live::Present(live) => self.need_when_present(live, revision, lineage),
        }
    }

    fn need_when_absent(&self, revision: &Revision, lineage: &dyn Lineage) -> Need {
        if revision.is_paused() {
            return Need::Wait("not found".to_owned());
        }
        if let Some(newer) = lineage.taken_by_newer(&self.desired.key) {
            return Need::Wait(format!("not found, left to revision {newer}"));
        }
        let mut body = self.desired.manifest.clone();
        metadata_mut(&mut body).insert(
            "ownerReferences".to_owned(),
            vec![revision.identity.controller_reference()].into(),
        );
        match self.progress {
            Progress::Checked => Need::Write(Request::Create(body)),
            _ => Need::Check(Request::DryRunCreate(body)),
        }
    }

    fn need_when_present(&self, live: &Value, revision: &Revision, lineage: &dyn Lineage) -> Need {
        let situation = classify(revision, lineage, live);
        let verdict = judge(revision, self.desired, &situation, live);
        match verdict {
            Verdict::Leave(_) => Need::Nothing,
            _ if revision.is_paused() && revision.delivery == Delivery::InProcess => Need::Nothing,
            Verdict::Refuse(refusal) => Need::Collision(collision_message(self.desired, &refusal)),
            // Writing to an object that is on its way out changes nothing that lasts. It is made
            // anew when it is gone.
            _ if is_terminating(live) => Need::Wait("being deleted".to_owned()),
            // What a delegated phase would write keeps it from being available (contract 6.6).
            Verdict::Keep if revision.is_paused() => match self.need_when_ours(live, revision) {
                Need::Write(_) | Need::Prepare(_) => {
                    Need::Wait("paused, and not as it should be".to_owned())
                }
                need => need,
            },
            Verdict::Adopt(_) if revision.is_paused() => {
                Need::Wait("paused, and not taken over yet".to_owned())
            }
            Verdict::Keep => self.need_when_ours(live, revision),
            Verdict::Adopt(_) => {
                let body = self.body(live, revision, References::All);
                let is_checked =
                    self.progress == Progress::Checked || self.holds_content(live, revision);
                self.need_to_apply(body, live, is_checked)
            }
        }
    }

    fn need_when_ours(&self, live: &Value, revision: &Revision) -> Need {
        let body = self.body(live, revision, References::Owned);
        if self.written || diff::compare(&body, live) == Difference::None {
            return Need::Nothing;
        }
        let wanted = diff::wanted_fingerprint(&self.desired.manifest);
        let known = self.learned.or(self.settled);
        let known = known.filter(|(settled_wanted, _)| *settled_wanted == wanted);
        if known.is_some_and(|(_, print)| diff::live_fingerprint(live) == Some(print)) {
            return Need::Nothing;
        }
        // When nothing is remembered of this object, say after a restart, it may differ only in the
        // form in which the server keeps a value. A dry run tells, and writes nothing. With legacy
        // entries the fingerprint also covers what nobody wants.
        let differs = known.is_some() && !legacy::needs_migration(live);
        self.need_to_apply(body, live, differs || self.progress == Progress::Checked)
    }

    /// The next step on the way to an apply to an existing object.
    ///
    /// A dry run comes first: it tells whether anything differs at all, and stops what is invalid
    /// before the object is touched. But it is no last word where legacy entries keep fields that
    /// are to go (a volume can change from one source to another, but not have two), and it does not
    /// miss a field that they hold and the body lacks. So after the migration there is another one.
    fn need_to_apply(&self, body: Value, live: &Value, is_checked: bool) -> Need {
        let migrate = || Request::Migrate(precondition(live));
        if self.progress == Progress::RefusedUnmigrated {
            Need::Check(migrate())
        } else if !is_checked {
            Need::Check(Request::DryRunApply(versioned(body, live)))
        } else if legacy::needs_migration(live) {
            Need::Prepare(migrate())
        } else {
            Need::Write(Request::Apply(versioned(body, live)))
        }
    }

    /// Whether the server holds the wanted content already, so that only owner and revision
    /// number change and no dry run is needed.
    fn holds_content(&self, live: &Value, revision: &Revision) -> bool {
        let mut body = self.body(live, revision, References::AsLive);
        let number = live
            .pointer("/metadata/annotations")
            .map_or("", |annotations| text(annotations, ANNOTATION_REVISION));
        body["metadata"]["annotations"][ANNOTATION_REVISION] = number.into();
        diff::compare(&body, live) == Difference::None
    }

    /// What to apply to an existing object.
    fn body(&self, live: &Value, revision: &Revision, references: References) -> Value {
        let mut body = self.desired.manifest.clone();
        diff::with_create_only(&mut body, live, &self.desired.create_only);
        let list = references.list(live, &revision.identity);
        if !list.is_empty() {
            metadata_mut(&mut body).insert("ownerReferences".to_owned(), list.into());
        }
        body
    }

    /// Takes the answer to the request that [`Slot::need`] asked for.
    pub fn answer(
        &mut self,
        request: &Request,
        answer: Answer,
        revision: &Revision,
        lineage: &dyn Lineage,
    ) {
        match (request, answer) {
            (_, Answer::KindNotServed) => self.progress = Progress::KindNotServed,
            (_, Answer::Failed(text)) => self.progress = Progress::Failed(text),
            (Request::Get, Answer::Object(live)) => {
                self.live = Live::Present(live);
                self.written = false;
                self.progress = Progress::Fresh;
            }
            (Request::Get, Answer::NotFound) => {
                self.live = Live::Gone;
                self.progress = match std::mem::replace(&mut self.progress, Progress::Fresh) {
                    // The object is not there, so the refusal was about the content.
                    Progress::RefusedOrTaken(text) => Progress::Refused(text),
                    _ => Progress::Fresh,
                };
            }
            (Request::Get | Request::Migrate(_), Answer::Refused(text)) => {
                self.progress = Progress::Refused(text);
            }
            (Request::DryRunCreate(_), Answer::Created(_)) => self.progress = Progress::Checked,
            (Request::DryRunCreate(_), Answer::Refused(text)) => {
                // An existing object with a foreign controller is refused as well, because it
                // would have two of them.
                self.progress = if self.live == Live::Gone {
                    Progress::Refused(text)
                } else {
                    Progress::RefusedOrTaken(text)
                };
            }
            (Request::DryRunApply(body), Answer::Object(answered)) => {
                self.settle_dry_run(body, &answered, revision, lineage);
            }
            (Request::DryRunApply(_), Answer::Refused(text)) => {
                self.progress = if self.live().is_some_and(legacy::needs_migration) {
                    Progress::RefusedUnmigrated
                } else {
                    Progress::Refused(text)
                };
            }
            (Request::Migrate(_), Answer::Object(live)) => {
                self.begin_round();
                self.live = Live::Present(live);
                // What was settled was so while other entries held fields as well.
                (self.settled, self.learned) = (None, None);
            }
            (Request::Create(_), Answer::Created(live)) => self.wrote(live, Deed::Created),
            (Request::Create(_), Answer::Merged(live)) if is_own_creation(&live) => {
                self.wrote(live, Deed::Created);
            }
            (Request::Create(_), Answer::Merged(_)) => {
                self.progress = Progress::MergedIntoStranger;
            }
            (Request::Apply(_), Answer::Object(live)) => {
                let deed = match self.live() {
                    Some(before) => match classify(revision, lineage, before) {
                        super::handover::Situation::Ours => Deed::Repaired,
                        super::handover::Situation::Previous(kin)
                        | super::handover::Situation::Unrelated(kin) => {
                            Deed::TookOver(Some(kin.name))
                        }
                        _ => Deed::TookOver(None),
                    },
                    None => Deed::Created,
                };
                self.wrote(live, deed);
            }
            (Request::Create(_) | Request::Apply(_), Answer::Refused(text)) => {
                self.progress = Progress::WriteRefused(text);
            }
            // Every other answer means that the object is not what it was taken for.
            (_, _) => self.read_again(),
        }
    }

    fn read_again(&mut self) {
        self.begin_round();
        self.live = Live::Unread;
    }

    /// Decides anew, unless that was done too often already.
    fn begin_round(&mut self) {
        self.rounds += 1;
        self.progress = if self.rounds < MAX_ROUNDS {
            Progress::Fresh
        } else {
            Progress::Failed("the object keeps changing while it is written".to_owned())
        };
    }

    fn settle_dry_run(
        &mut self,
        body: &Value,
        answered: &Value,
        revision: &Revision,
        lineage: &dyn Lineage,
    ) {
        self.progress = Progress::Checked;
        let Some(live) = self.live() else { return };
        let ours = classify(revision, lineage, live) == super::handover::Situation::Ours;
        let print = diff::live_fingerprint(live);
        let unchanged = if legacy::needs_migration(live) {
            // The apply would own wanted fields twice, and nothing else would come of it.
            legacy::same_content(live, answered)
        } else {
            print == diff::live_fingerprint(answered)
        };
        let same = print.is_some() && unchanged && same_references(body, live);
        if let (true, true, Some(print)) = (ours, same, print) {
            self.learned = Some((diff::wanted_fingerprint(&self.desired.manifest), print));
        }
    }

    fn wrote(&mut self, live: Value, deed: Deed) {
        self.learned = diff::live_fingerprint(&live)
            .map(|print| (diff::wanted_fingerprint(&self.desired.manifest), print));
        self.live = Live::Present(live);
        self.written = true;
        self.progress = Progress::Fresh;
        self.deed = Some(deed);
    }
}

/// Which owner references an apply carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum References {
    /// Those that exist, none of them controlling any more, and ours as the controller (2.7).
    All,
    /// Those that our manager owns. Leaving out a reference that somebody else wrote keeps it.
    Owned,
    /// Those that exist, as they are.
    AsLive,
}

impl References {
    fn list(self, live: &Value, identity: &Identity) -> Vec<Value> {
        let existing = owner_references(live);
        if self == Self::AsLive {
            return existing.to_vec();
        }
        let owned = diff::owned_fields(live)
            .and_then(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
        let mut list = Vec::with_capacity(existing.len() + 1);
        let mut own = Some(identity.controller_reference());
        for reference in existing {
            if identity.is(reference) {
                list.extend(own.take());
            } else if identity.is_remote && !owners::is_remote(reference) {
                // Not ours to keep: an owner in the object's cluster that goes takes the object along.
                // What somebody else wrote stays when it is left out.
            } else if self == Self::All {
                let mut reference = reference.clone();
                if reference.get("controller").is_some() {
                    reference["controller"] = false.into();
                }
                list.push(reference);
            } else if owned.is_some_and(|owned| {
                owned
                    .get(format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid")))
                    .is_some()
            }) {
                list.push(reference.clone());
            }
        }
        list.extend(own);
        list
    }
}

fn same_references(body: &Value, live: &Value) -> bool {
    owner_references(body)
        .iter()
        .all(|wanted| owner_references(live).contains(wanted))
}

/// The body with uid and `resourceVersion` of the object it was decided upon: the server refuses
/// it if anybody wrote in between (improvement 4).
fn versioned(mut body: Value, live: &Value) -> Value {
    let fields = metadata_mut(&mut body);
    for field in ["uid", "resourceVersion"] {
        fields.insert(field.to_owned(), metadata(live, field).into());
    }
    body
}

/// Whether an object that a create merged into was made by ourselves, say by a write of a killed
/// manager that arrived late: then nobody else's apply or update is on record.
fn is_own_creation(live: &Value) -> bool {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .is_some_and(|entries| {
            entries.iter().all(|entry| {
                !text(entry, "subresource").is_empty()
                    || (text(entry, "manager") == FIELD_MANAGER
                        && text(entry, "operation") == "Apply")
            })
        })
}
