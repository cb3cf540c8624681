//! Objects that another client makes before a version is rolled out.

use baton_apis::constants::LABEL_SITE_APPLICATION;
use baton_integration::fleet::{APPLICATION, spec, with_own};
use baton_integration::forged::{self, OWN_API, copied, highest};
use baton_integration::prelude::*;
use baton_sites::chain::revision_name;
use baton_sites::snapshot::record_name;

use super::scene::{SHOP, Scene, WEB};

#[derive(Clone, Copy)]
pub(crate) enum Forgery {
    /// Revisions in the chain of the deployment, with the highest number.
    OfDeployment,
    /// Revisions in the chains of the sites, with the highest number.
    OfSite,
    /// A version of the application, with the highest number.
    OfVersion,
    /// A slice under the name of that of the next version, with other content.
    Slice,
    /// The record of the next version, with other content.
    Record,
    /// A revision under the next name of each site.
    Name,
}

impl Forgery {
    /// Creates the objects, and returns them.
    pub(crate) async fn make(self, scene: &Scene) -> Vec<Value> {
        let next = scene.next_version();
        let content = || forged::derived(&scene.ns, &spec(next, &with_own(next)));
        let slice = |name: &str| scene.ns.reference(&forged::slice(name));
        let forged = match self {
            Self::OfDeployment => {
                let sets = scene.ns.existing(WEB).sets().await;
                highest("forged", &sets[0].json).to_vec()
            }
            Self::OfSite => {
                let mut forged = Vec::new();
                for site in &scene.sites {
                    let revisions = scene.fleet().revisions(SHOP, site).await;
                    let mut live = revisions[0].clone();
                    live["apiVersion"] = OWN_API.into();
                    live["kind"] = "ObjectSet".into();
                    forged.extend(highest(site.name(), &live));
                }
                forged
            }
            Self::OfVersion => {
                let records = scene.fleet().records(LABEL_SITE_APPLICATION).await;
                let forged = copied(&records[0], "forged", |copy| {
                    copy["revision"] = i64::MAX.into();
                    copy["data"]["version"] = "6.6.6".into();
                    copy["data"]["phases"][0]["slices"] = json!(["forged"]);
                });
                vec![slice("forged"), forged]
            }
            Self::Slice => content().slices.iter().map(|it| slice(&it.name)).collect(),
            Self::Record => {
                let mut snapshot = content().snapshot;
                let name = record_name(APPLICATION, &snapshot.version, &snapshot.edit);
                snapshot.phases[0].slices = vec!["forged".to_owned()];
                let record = object("apps/v1", "ControllerRevision", &name)
                    .label(LABEL_SITE_APPLICATION, APPLICATION)
                    .with("/data", json!(snapshot))
                    .with("/revision", json!(2));
                vec![slice("forged"), scene.ns.reference(&record)]
            }
            Self::Name => {
                let phases = json!([{ "name": "a", "objects": [] }]);
                let forged = scene.sites.iter().map(|site| {
                    let taken = object(OWN_API, "ObjectSet", &revision_name(SHOP, site.name(), 2));
                    let spec = json!({ "phases": phases, "revision": 2 });
                    scene.ns.reference(&taken.with("/spec", spec))
                });
                forged.collect()
            }
        };
        for object in &forged {
            scene.ns.cluster().create(object).await.unwrap();
        }
        forged
    }
}
