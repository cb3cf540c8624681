//! Renders pictures as trees of text: branches, aligned columns, and messages wrapped beside or
//! below their row.

use std::fmt::Display;

use baton_engine::texts::collapse_whitespace;
use baton_view::{
    chain::member::State,
    tree::{ChainPicture, Health, ObjectPicture, OwnerPicture, PhasePicture, RevisionPicture},
};

use crate::output::{
    Output, Paint,
    table::{Cell, Table},
};

const HEADINGS: [&str; 4] = ["NAME", "HEALTHY", "OWNER", "MESSAGE"];

/// The characters of the branches, which are drawn before the names.
struct Branches {
    fork: &'static str,
    corner: &'static str,
    /// Continues the branch of a fork beside the rows below it.
    line: &'static str,
    blank: &'static str,
}

const UNICODE: Branches = Branches {
    fork: "├─ ",
    corner: "└─ ",
    line: "│  ",
    blank: "   ",
};
const ASCII: Branches = Branches {
    fork: "|- ",
    corner: "`- ",
    line: "|  ",
    blank: "   ",
};

/// A node with the cells of its row.
pub struct Node {
    /// The name of the node.
    pub name: Cell,
    /// The cells between name and message, one per heading.
    pub cells: Vec<Cell>,
    /// The message beside or below the row.
    pub message: String,
    /// The nodes below it.
    pub children: Vec<Node>,
}

impl Branches {
    /// The branches in characters that the terminal can show.
    fn of(output: Output) -> &'static Self {
        if output.ascii { &ASCII } else { &UNICODE }
    }
}

/// The parts of chains to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// True if the namespace of each chain is shown, for chains of several namespaces.
    pub with_namespaces: bool,
    /// True if the objects of phases that are complete and healthy are left out, to save room.
    pub collapsed: bool,
}

/// Renders chains; every line ends with a newline. The text is empty without chains.
pub fn render(chains: &[ChainPicture], style: Style, output: Output) -> String {
    if chains.is_empty() {
        return String::new();
    }
    let roots = chains.iter().flat_map(|chain| roots(chain, style));
    draw(&HEADINGS, roots, output)
}

/// Renders the trees of `roots` below headings; every line ends with a newline.
pub fn draw(
    headings: &[&'static str],
    roots: impl IntoIterator<Item = Node>,
    output: Output,
) -> String {
    let mut table = Table::new(headings);
    for root in roots {
        add_rows(root, "", "", Branches::of(output), &mut table);
    }
    table.render(output)
}

/// The root nodes of a chain: its deployment, or its revisions if it has no deployment.
fn roots(chain: &ChainPicture, style: Style) -> Vec<Node> {
    let namespace = chain.namespace.as_deref();
    let revisions = chain.revisions.iter();
    let namespaced = |name: Cell| match namespace.filter(|_| style.with_namespaces) {
        Some(namespace) => name.and(Paint::Dim, format!(" -n {namespace}")),
        None => name,
    };
    let Some(deployment) = &chain.deployment else {
        let roots = revisions.map(|drawn| {
            let root = revision(drawn, namespace, style);
            Node {
                name: namespaced(root.name),
                ..root
            }
        });
        return roots.collect();
    };
    let mut name = namespaced(Cell::painted(Paint::Strong, &deployment.target));
    for (is_so, word) in [
        (deployment.paused, " Paused"),
        (deployment.deleting, " Deleting"),
    ] {
        if is_so {
            name = name.and(Paint::Warn, word);
        }
    }
    vec![Node {
        name,
        cells: vec![health(deployment.available), Cell::default()],
        message: deployment.message.clone(),
        children: revisions.map(|r| revision(r, namespace, style)).collect(),
    }]
}

/// The meaning of the state of a revision.
pub fn state_paint(state: State) -> Paint {
    match state {
        State::Available => Paint::Good,
        State::NotReady | State::Pending => Paint::Warn,
        _ => Paint::Dim,
    }
}

/// The node of a revision, with its phases and objects below it.
pub fn revision(revision: &RevisionPicture, namespace: Option<&str>, style: Style) -> Node {
    let title = match revision.revision {
        Some(number) => format!("revision {number} "),
        None => "revision ".to_owned(),
    };
    let paint = state_paint(revision.state);
    let healthy = if revision.phases.is_some() {
        counts(revision.healthy, revision.objects)
    } else {
        Cell::default()
    };
    let mut name = Cell::from(title).and(Paint::Strong, &revision.name);
    if let Some(version) = &revision.version {
        name = name.and(Paint::Accent, format!(" (version {version})"));
    }
    Node {
        name: name.and(paint, format!(" {}", revision.state.as_str())),
        cells: vec![healthy, Cell::default()],
        message: revision.message.clone(),
        children: revision
            .phases
            .iter()
            .flatten()
            .map(|drawn| phase(drawn, namespace, style))
            .collect(),
    }
}

fn phase(phase: &PhasePicture, namespace: Option<&str>, style: Style) -> Node {
    let is_fine = phase.healthy == phase.total();
    let mut name = Cell::from(format!("phase {}", phase.name));
    if !phase.class.is_empty() {
        name = name.and(Paint::Dim, format!(" (class {})", phase.class));
    }
    Node {
        name,
        cells: vec![counts(phase.healthy, phase.total()), Cell::default()],
        message: phase.message.clone(),
        children: phase
            .objects
            .iter()
            .filter(|_| !(style.collapsed && is_fine))
            .map(|drawn| object(drawn, namespace))
            .collect(),
    }
}

fn object(object: &ObjectPicture, namespace: Option<&str>) -> Node {
    let mut name = Cell::from(format!("{}/{}", object.kind, object.name));
    if !object.namespace.is_empty() && namespace != Some(object.namespace.as_str()) {
        name = name.and(Paint::Dim, format!(" -n {}", object.namespace));
    }
    let owner = match &object.owner {
        OwnerPicture::ThisRevision { revision, name } => number(*revision, name).into(),
        OwnerPicture::OtherRevision { revision, name } => {
            Cell::painted(Paint::Accent, number(*revision, name))
        }
        OwnerPicture::Stranger { kind, name } => {
            Cell::painted(Paint::Bad, format!("{kind}/{name}"))
        }
        OwnerPicture::Nobody => Cell::painted(Paint::Warn, "none"),
        OwnerPicture::Missing => Cell::painted(Paint::Warn, "missing"),
        OwnerPicture::Ended => Cell::painted(Paint::Dim, "ended"),
        OwnerPicture::Delegated { class } => Cell::painted(Paint::Dim, format!("class {class}")),
        OwnerPicture::Unknown => Cell::painted(Paint::Warn, "unknown"),
    };
    let healthy = match object.owner {
        OwnerPicture::Missing => Cell::painted(Paint::Dim, "-"),
        _ => health(object.healthy),
    };
    Node {
        name,
        cells: vec![healthy, owner],
        message: object.message.clone(),
        children: Vec::new(),
    }
}

/// A revision as the owner of an object: `revision 3`; its name if it has no number yet.
pub fn number(number: Option<i64>, name: &str) -> String {
    number.map_or_else(|| name.to_owned(), |number| format!("revision {number}"))
}

fn health(health: Health) -> Cell {
    let paint = match health {
        Health::True => Paint::Good,
        Health::False => Paint::Bad,
        Health::Unknown => Paint::Warn,
    };
    Cell::painted(paint, health.as_str())
}

/// The cell for a number of healthy parts and the number of all: `2/3`.
pub fn counts<T: Copy + Display + PartialEq>(healthy: T, of: T) -> Cell {
    let paint = if healthy == of {
        Paint::Good
    } else {
        Paint::Warn
    };
    Cell::painted(paint, format!("{healthy}/{of}"))
}

/// Adds the rows of a node and its children to a table.
fn add_rows(node: Node, branch: &str, below: &str, style: &Branches, table: &mut Table) {
    let line = if node.children.is_empty() {
        style.blank
    } else {
        style.line
    };
    let message = collapse_whitespace(&node.message).into();
    let mut cells = vec![node.name.behind(branch)];
    cells.extend(node.cells);
    cells.push(message);
    table.branch(cells, below.to_owned() + line);
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.into_iter().enumerate() {
        let (branch, line) = if index == last {
            (style.corner, style.blank)
        } else {
            (style.fork, style.line)
        };
        let (branch, below) = (format!("{below}{branch}"), format!("{below}{line}"));
        add_rows(child, &branch, &below, style, table);
    }
}

#[cfg(test)]
mod unhealthy;

#[cfg(test)]
mod tests {
    use super::*;
    use baton_view::tree::DeploymentPicture;

    fn object(name: &str, healthy: Health, owner: OwnerPicture, message: &str) -> ObjectPicture {
        ObjectPicture {
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            healthy,
            owner,
            message: message.to_owned(),
            ..ObjectPicture::default()
        }
    }

    fn own() -> OwnerPicture {
        OwnerPicture::ThisRevision {
            revision: Some(2),
            name: "web-2".to_owned(),
        }
    }

    fn chain() -> ChainPicture {
        let objects = vec![
            object("a", Health::True, own(), ""),
            object(
                "b",
                Health::False,
                own(),
                "a long message of many words that does not fit",
            ),
        ];
        ChainPicture {
            deployment: Some(DeploymentPicture {
                available: Health::True,
                target: "od/web".to_owned(),
                message: "rolling out".to_owned(),
                ..DeploymentPicture::default()
            }),
            namespace: Some("shop".to_owned()),
            revisions: vec![
                RevisionPicture {
                    name: "web-2".to_owned(),
                    revision: Some(2),
                    state: State::NotReady,
                    healthy: 1,
                    objects: 2,
                    phases: Some(vec![PhasePicture {
                        name: "p".to_owned(),
                        healthy: 1,
                        objects,
                        ..PhasePicture::default()
                    }]),
                    ..RevisionPicture::default()
                },
                RevisionPicture {
                    name: "web-1".to_owned(),
                    revision: Some(1),
                    state: State::Archived,
                    ..RevisionPicture::default()
                },
            ],
        }
    }

    fn of_width(width: u16) -> Output {
        Output {
            width: Some(width),
            ..Output::plain()
        }
    }

    #[test]
    fn messages_are_wrapped_beside_their_rows() {
        assert_eq!(
            render(&[chain()], Style::default(), of_width(90)),
            "\
NAME                           HEALTHY   OWNER        MESSAGE
od/web                         True                   rolling out
├─ revision 2 web-2 NotReady   1/2
│  └─ phase p                  1/2
│     ├─ ConfigMap/a           True      revision 2
│     └─ ConfigMap/b           False     revision 2   a long message of many words that
│                                                     does not fit
└─ revision 1 web-1 Archived
"
        );
    }

    #[test]
    fn messages_are_below_their_rows_on_narrow_terminals() {
        assert_eq!(
            render(&[chain()], Style::default(), of_width(60)),
            "\
NAME                           HEALTHY   OWNER
od/web                         True
│  rolling out
├─ revision 2 web-2 NotReady   1/2
│  └─ phase p                  1/2
│     ├─ ConfigMap/a           True      revision 2
│     └─ ConfigMap/b           False     revision 2
│           a long message of many words that does not fit
└─ revision 1 web-1 Archived
"
        );
    }

    #[test]
    fn columns_move_below_their_rows_before_text_is_cut() {
        let mut chain = chain();
        let phases = chain.revisions[0].phases.as_mut().unwrap();
        phases[0].objects[0].owner = OwnerPicture::Nobody;
        assert_eq!(
            render(&[chain.clone()], Style::default(), of_width(48)),
            "\
NAME                         HEALTHY OWNER
od/web                       True
│  rolling out
├─ revision 2 web-2 NotReady 1/2
│  └─ phase p                1/2
│     ├─ ConfigMap/a         True    none
│     └─ ConfigMap/b         False   revision 2
│           a long message of many words that
│           does not fit
└─ revision 1 web-1 Archived
"
        );
        assert_eq!(
            render(&[chain], Style::default(), of_width(40)),
            "\
NAME                         HEALTHY
od/web                       True
│  rolling out
├─ revision 2 web-2 NotReady 1/2
│  └─ phase p                1/2
│     ├─ ConfigMap/a         True
│     │     owner: none
│     └─ ConfigMap/b         False
│           a long message of many words
│           that does not fit
└─ revision 1 web-1 Archived
"
        );
    }

    #[test]
    fn a_terminal_without_unicode_gets_ascii() {
        let ascii = Output {
            ascii: true,
            ..Output::plain()
        };
        let text = render(
            &[chain()],
            Style {
                with_namespaces: true,
                ..Style::default()
            },
            ascii,
        );
        assert!(text.is_ascii(), "{text}");
        assert!(text.contains("od/web -n shop "), "{text}");
        assert!(text.contains("|     `- ConfigMap/b "), "{text}");
    }

    #[test]
    fn every_owner_has_its_own_text() {
        let word = |owner: OwnerPicture| {
            let mut chain = chain();
            let phases = chain.revisions[0].phases.as_mut().unwrap();
            phases[0].objects = vec![object("x", Health::True, owner, "")];
            let text = render(&[chain], Style::default(), Output::plain());
            let row = text.lines().find(|line| line.contains("ConfigMap/x"));
            let (_, words) = row.unwrap().split_once("ConfigMap/x").unwrap();
            words.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let name = || "web-1".to_owned();
        for (owner, expected) in [
            (own(), "True revision 2"),
            (
                OwnerPicture::OtherRevision {
                    revision: Some(1),
                    name: name(),
                },
                "True revision 1",
            ),
            (
                OwnerPicture::OtherRevision {
                    revision: None,
                    name: name(),
                },
                "True web-1",
            ),
            (
                OwnerPicture::Stranger {
                    kind: "Helm".to_owned(),
                    name: "x".to_owned(),
                },
                "True Helm/x",
            ),
            (OwnerPicture::Nobody, "True none"),
            (OwnerPicture::Missing, "- missing"),
            (OwnerPicture::Ended, "True ended"),
            (OwnerPicture::Unknown, "True unknown"),
        ] {
            assert_eq!(word(owner), expected);
        }
    }

    #[test]
    fn healthy_objects_can_be_collapsed() {
        let mut chain = chain();
        let phases = chain.revisions[0].phases.as_mut().unwrap();
        phases.insert(
            0,
            PhasePicture {
                name: "fine".to_owned(),
                healthy: 1,
                objects: vec![object("x", Health::True, own(), "")],
                ..PhasePicture::default()
            },
        );
        phases.insert(
            1,
            PhasePicture {
                name: "taken".to_owned(),
                healthy: 0,
                objects: vec![object("y", Health::True, OwnerPicture::Nobody, "")],
                ..PhasePicture::default()
            },
        );
        let style = Style {
            collapsed: true,
            ..Style::default()
        };
        let text = render(&[chain], style, Output::plain());
        assert!(
            text.contains("├─ phase fine ") && !text.contains("ConfigMap/x"),
            "{text}"
        );
        assert!(
            text.contains("ConfigMap/y") && text.contains("ConfigMap/b"),
            "{text}"
        );
    }

    #[test]
    fn no_chains_are_an_empty_text() {
        assert_eq!(render(&[], Style::default(), Output::plain()), "");
    }
}
