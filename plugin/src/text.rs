//! Sentences, colours and columns for people, made from the values of `baton-view`.

pub(crate) mod application;
pub(crate) mod diff;
pub(crate) mod fleet;
pub(crate) mod rollout;
pub(crate) mod status;
pub(crate) mod tree;
