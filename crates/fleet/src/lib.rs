//! Other clusters: which there are, the way to each, who may deliver there, what agents are handed, joining and
//! removing.

pub mod assignments;
pub mod inventory;
pub mod membership;
pub mod mirror;
pub mod name;
pub mod url;
