//! Pages about chains, Applications and sites, as HTML.
//!
//! A page is a [question](baton_view::lists::Question) and the form of its answer. Nothing here does I/O
//! or reads a clock: a server renders the pages for browsers, and a browser can render them by itself.
//!
//! Texts of the cluster are [escaped](html::Text), and the pages contain no script and no style.

pub mod action;
pub mod applications;
pub mod chain;
pub mod clusters;
mod events;
pub mod html;
pub mod overview;
pub mod page;
pub mod regions;
mod site;
pub mod sites;
pub mod subject;
