//! The order in which sites get a version: at random, and always the same for one version of one deployment.

use twox_hash::XxHash64;

/// What the order of a version depends on besides the sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new(uid: &str, version: &str) -> Self {
        Self(XxHash64::oneshot(
            XxHash64::oneshot(0, uid.as_bytes()),
            version.as_bytes(),
        ))
    }

    /// The place of a site; names decide between equal ones.
    pub(super) fn place(self, site: &str) -> (u64, &str) {
        (XxHash64::oneshot(self.0, site.as_bytes()), site)
    }
}
