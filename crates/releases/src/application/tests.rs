//! Decisions about an Application: the ordinary cases, failures, and random sequences.

mod cases;
mod failures;
mod fixtures;
mod leaving;
mod properties;
