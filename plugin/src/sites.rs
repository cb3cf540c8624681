//! Deployments to sites and their applications, as a server has them.

pub(crate) mod compare;
pub(crate) mod forecast;
pub(crate) mod read;
