//! The files of pages: style sheet, script, icon.

use std::sync::LazyLock;

use crate::hex::short_hash;

/// A file that pages refer to.
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: &'static [u8],
}

/// The script is made of `web/*.ts` by `cargo dev generate`.
pub(crate) const ASSETS: [Asset; 3] = [
    Asset {
        name: "dashboard.css",
        media_type: "text/css; charset=utf-8",
        content: include_bytes!("../assets/dashboard.css"),
    },
    Asset {
        name: "dashboard.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_bytes!("../assets/dashboard.js"),
    },
    Asset {
        name: "icon.svg",
        media_type: "image/svg+xml",
        content: include_bytes!("../assets/icon.svg"),
    },
];

/// A name for the content of all files, so that browsers load new ones.
pub(crate) static VERSION: LazyLock<String> =
    LazyLock::new(|| short_hash(ASSETS.iter().map(|asset| asset.content)));
