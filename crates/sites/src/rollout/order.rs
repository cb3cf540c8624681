//! The order in which sites get a version: random, but always the same for a version of a
//! deployment.

use twox_hash::XxHash64;

/// The input of the order besides the sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new(uid: &str, version: &str) -> Self {
        Self(XxHash64::oneshot(
            XxHash64::oneshot(0, uid.as_bytes()),
            version.as_bytes(),
        ))
    }

    /// The sort key of a site; the name decides between equal numbers.
    pub(super) fn sort_key(self, site: &str) -> (u64, &str) {
        (XxHash64::oneshot(self.0, site.as_bytes()), site)
    }
}
