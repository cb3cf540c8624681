//! Pictures of the book: outputs of the plugin as SVG.

use std::fs;

use anstyle_svg::Term;
use baton_hack::paths::Dirs;

/// The variable that is set to write the pictures. `cargo dev pictures` sets it.
const WRITE: &str = "BATON_WRITE_PICTURES";

/// Compares an output in colours with a picture in `docs/pictures`, or writes the picture if
/// `BATON_WRITE_PICTURES` is set. Values that differ per run must have been replaced.
pub fn assert_picture(name: &str, output: &str) {
    let lines: Vec<_> = output.lines().map(str::trim_end).collect();
    let svg = Term::new().render_svg(&lines.join("\n"));
    let workspace = Dirs::from_env().unwrap().workspace;
    let path = workspace
        .join("docs/pictures")
        .join(name)
        .with_extension("svg");
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, svg).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == svg,
        "{} is older than the code: `cargo dev pictures` writes it from\n{output}",
        path.display()
    );
}
