//! Deployments to sites and their applications, read from a server.

pub(crate) mod compare;
pub(crate) mod forecast;
pub(crate) mod read;
