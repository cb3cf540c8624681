//! Deployments to sites, their applications, and the sites.
//!
//! - [`target`]: references as users type them
//! - [`revision`]: a revision of a site; [`cluster`]: a site itself
//! - [`observed`]: a deployment with the revisions of its sites, and the lists that it is read from
//! - [`state`]: the state of one site; [`fleet`]: all sites by waves
//! - [`verdict`]: the progress of a rollout
//! - [`question`]: questions to lists about deployments and applications
//! - [`history`]: past rollouts; [`inventory`]: the sites with their workloads
//! - [`record`]: kept versions; [`overview`]: an application with its deployments and versions
//! - [`forecast`]: the effect of another spec of an application; [`compare`]: its differences besides content
//! - [`steer`]: the patches that steer a rollout

pub mod cluster;
pub mod compare;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod forecast;
pub mod history;
pub mod inventory;
pub mod observed;
pub mod overview;
pub mod question;
pub mod record;
pub mod revision;
pub mod state;
pub mod steer;
pub mod target;
pub mod verdict;
