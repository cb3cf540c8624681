//! The body of an apply to an existing object.

use serde_json::Value;

use super::Desired;
use crate::{
    diff::{with_create_only, with_expanded, with_nulls_removed},
    stop::is_switched_on,
};

impl Desired {
    /// The body of an apply to the live object, without owner references. Fields that are left to
    /// others are left out, or have their live values while our manager owns them.
    pub fn body(&self, live: &Value) -> Value {
        let mut body = self.manifest.clone();
        let left = self.create_only.iter();
        let left: Vec<_> = left
            .filter(|path| !is_switched_on(live, path))
            .cloned()
            .collect();
        with_create_only(&mut body, live, &left);
        with_expanded(&mut body, live);
        with_nulls_removed(&mut body, live);
        body
    }
}
