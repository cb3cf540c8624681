//! Reads deployments to sites and their applications from a server.

pub(crate) mod compare;
pub(crate) mod forecast;
pub(crate) mod read;
