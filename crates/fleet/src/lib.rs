//! Other clusters: the inventory and the connection to each, assignments, mirrors for agents,
//! joining and removing.

pub mod assignments;
pub mod inventory;
pub mod membership;
pub mod mirror;
pub mod name;
pub mod url;
