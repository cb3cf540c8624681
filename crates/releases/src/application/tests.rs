//! The rows of section 10.2 of the contract, and their neighbours.

mod cases;
mod failures;
mod fixtures;
mod leaving;
mod properties;
