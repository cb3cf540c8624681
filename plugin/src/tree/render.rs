//! From the picture to text: branches, aligned columns, messages wrapped beside or below their row.

use unicode_width::UnicodeWidthStr;

use super::{ChainPicture, Health, ObjectPicture, OwnerPicture, PhasePicture, RevisionPicture};
use crate::output::{Output, Paint, lines, one_line};

const HEADINGS: [&str; 4] = ["NAME", "HEALTHY", "OWNER", "MESSAGE"];
/// Blanks between columns.
const GAP: usize = 3;
/// A message that has fewer columns than this beside its row goes below it.
const NARROWEST: usize = 32;

/// A text with its meaning.
type Span = (Option<Paint>, String);

/// What is drawn in front of the names.
struct Branches {
    /// Another one follows below.
    fork: &'static str,
    /// The last one.
    corner: &'static str,
    /// Beside what is below a fork.
    line: &'static str,
    /// Below a corner.
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

/// A node with everything that is drawn in its row.
struct Node {
    name: Vec<Span>,
    healthy: Span,
    owner: Span,
    message: String,
    children: Vec<Node>,
}

/// A node in its place.
struct Row {
    /// In front of the name.
    branches: String,
    /// In front of what continues the row below it.
    below: String,
    name: Vec<Span>,
    healthy: Span,
    owner: Span,
    message: String,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Where each chain is, for chains of several namespaces.
    pub with_namespaces: bool,
    /// Without the objects of phases that have all of theirs, healthy: where there is little room.
    pub collapsed: bool,
}

/// The text of chains; every line ends with a newline. Nothing for no chains.
#[must_use]
pub fn render(chains: &[ChainPicture], style: Style, output: Output) -> String {
    if chains.is_empty() {
        return String::new();
    }
    let branches = if output.ascii { &ASCII } else { &UNICODE };
    let mut rows = Vec::new();
    for chain in chains {
        for root in roots(chain, style) {
            place(root, String::new(), "", branches, &mut rows);
        }
    }
    layout(&rows, output)
}

/// The deployment; or the revisions themselves, where there is none.
fn roots(chain: &ChainPicture, style: Style) -> Vec<Node> {
    let namespace = chain.namespace.as_deref();
    let revisions = chain.revisions.iter();
    let suffix = namespace.filter(|_| style.with_namespaces);
    let suffix = suffix.map(|namespace| (Some(Paint::Dim), format!(" -n {namespace}")));
    let Some(deployment) = &chain.deployment else {
        let mut roots: Vec<Node> = revisions.map(|r| revision(r, namespace, style)).collect();
        for root in &mut roots {
            root.name.extend(suffix.clone());
        }
        return roots;
    };
    let mut name = vec![(Some(Paint::Strong), deployment.target.clone())];
    name.extend(suffix);
    for (is_so, word) in [
        (deployment.paused, " Paused"),
        (deployment.deleting, " Deleting"),
    ] {
        if is_so {
            name.push((Some(Paint::Warn), word.to_owned()));
        }
    }
    vec![Node {
        name,
        healthy: health(deployment.available),
        owner: (None, String::new()),
        message: deployment.message.clone(),
        children: revisions.map(|r| revision(r, namespace, style)).collect(),
    }]
}

fn revision(revision: &RevisionPicture, namespace: Option<&str>, style: Style) -> Node {
    let title = match revision.revision {
        Some(number) => format!("revision {number} "),
        None => "revision ".to_owned(),
    };
    let paint = match revision.state {
        "Available" => Paint::Good,
        "NotReady" | "Pending" => Paint::Warn,
        _ => Paint::Dim,
    };
    let healthy = if revision.phases.is_some() {
        counts(revision.healthy, revision.objects)
    } else {
        (None, String::new())
    };
    Node {
        name: vec![
            (None, title),
            (Some(Paint::Strong), revision.name.clone()),
            (Some(paint), format!(" {}", revision.state)),
        ],
        healthy,
        owner: (None, String::new()),
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
    let is_own = |object: &ObjectPicture| {
        matches!(
            object.owner,
            OwnerPicture::ThisRevision { .. } | OwnerPicture::Delegated { .. }
        )
    };
    let is_fine = phase.healthy == phase.objects.len() && phase.objects.iter().all(is_own);
    let mut name = vec![(None, format!("phase {}", phase.name))];
    if !phase.class.is_empty() {
        name.push((Some(Paint::Dim), format!(" (class {})", phase.class)));
    }
    Node {
        name,
        healthy: counts(phase.healthy, phase.objects.len()),
        owner: (None, String::new()),
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
    let mut name = vec![(None, format!("{}/{}", object.kind, object.name))];
    if !object.namespace.is_empty() && namespace != Some(object.namespace.as_str()) {
        name.push((Some(Paint::Dim), format!(" -n {}", object.namespace)));
    }
    let (paint, owner) = match &object.owner {
        OwnerPicture::ThisRevision { revision, name } => (None, number(*revision, name)),
        OwnerPicture::OtherRevision { revision, name } => {
            (Some(Paint::Accent), number(*revision, name))
        }
        OwnerPicture::Stranger { kind, name } => (Some(Paint::Bad), format!("{kind}/{name}")),
        OwnerPicture::Nobody => (Some(Paint::Warn), "nobody".to_owned()),
        OwnerPicture::Missing => (Some(Paint::Warn), "missing".to_owned()),
        OwnerPicture::Delegated { class } => (Some(Paint::Dim), format!("class {class}")),
        OwnerPicture::Unknown => (Some(Paint::Warn), "unknown".to_owned()),
    };
    Node {
        name,
        healthy: match object.owner {
            OwnerPicture::Missing => (Some(Paint::Dim), "-".to_owned()),
            _ => health(object.healthy),
        },
        owner: (paint, owner),
        message: object.message.clone(),
        children: Vec::new(),
    }
}

fn number(number: Option<i64>, name: &str) -> String {
    number.map_or_else(|| name.to_owned(), |number| format!("revision {number}"))
}

fn health(health: Health) -> Span {
    let paint = match health {
        Health::True => Paint::Good,
        Health::False => Paint::Bad,
        Health::Unknown => Paint::Warn,
    };
    (Some(paint), health.word().to_owned())
}

fn counts(healthy: usize, of: usize) -> Span {
    let paint = if healthy == of {
        Paint::Good
    } else {
        Paint::Warn
    };
    (Some(paint), format!("{healthy}/{of}"))
}

/// Puts a node and what is below it into rows.
fn place(node: Node, branches: String, below: &str, style: &Branches, rows: &mut Vec<Row>) {
    let last = node.children.len().saturating_sub(1);
    let continued = if node.children.is_empty() {
        below.to_owned() + style.blank
    } else {
        below.to_owned() + style.line
    };
    rows.push(Row {
        branches,
        below: continued,
        name: node.name,
        healthy: node.healthy,
        owner: node.owner,
        message: node.message,
    });
    for (index, child) in node.children.into_iter().enumerate() {
        let (branch, line) = if index == last {
            (style.corner, style.blank)
        } else {
            (style.fork, style.line)
        };
        place(
            child,
            below.to_owned() + branch,
            &(below.to_owned() + line),
            style,
            rows,
        );
    }
}

fn layout(rows: &[Row], output: Output) -> String {
    let layout = Layout::of(rows, output.width.map(usize::from));
    let mut lines = Vec::new();
    let mut heading = String::new();
    for (title, width) in HEADINGS.iter().zip(layout.columns()) {
        heading.push_str(&pad(title, title.width(), width + layout.gap));
    }
    if !matches!(layout.messages, Messages::Below { .. }) {
        heading.push_str(HEADINGS[3]);
    }
    lines.push(heading);
    for row in rows {
        row.write(&layout, output, &mut lines);
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The width of the longest message.
fn widest(rows: &[Row]) -> usize {
    let widths = rows.iter().map(|row| row.message.width());
    widths.max().unwrap_or(0)
}

/// The widths of all columns but the last.
fn columns(rows: &[Row]) -> [usize; 3] {
    let mut widths = [HEADINGS[0], HEADINGS[1], HEADINGS[2]].map(UnicodeWidthStr::width);
    for row in rows {
        for (width, own) in widths.iter_mut().zip(row.widths()) {
            *width = own.max(*width);
        }
    }
    widths
}

/// Where everything goes.
struct Layout {
    /// Widths of the columns for names, health and owners.
    widths: [usize; 3],
    /// Blanks between columns.
    gap: usize,
    messages: Messages,
}

/// Where messages go.
#[derive(Clone, Copy)]
enum Messages {
    /// Beside their row, however long they are.
    Whole,
    /// Beside their row, in lines of this width.
    Beside(usize),
    /// Below their row, in a screen of this width.
    Below {
        width: usize,
        /// There is no room for owners either: those that surprise go below as well.
        with_owners: bool,
    },
}

impl Layout {
    /// The roomiest one that fits.
    fn of(rows: &[Row], width: Option<usize>) -> Self {
        let widths = columns(rows);
        let roomy = |messages| Self {
            widths,
            gap: GAP,
            messages,
        };
        let Some(width) = width else {
            return roomy(Messages::Whole);
        };
        let beside = roomy(Messages::Whole).beside();
        if width >= beside + widest(rows) {
            return roomy(Messages::Whole);
        }
        if width >= beside + NARROWEST {
            return roomy(Messages::Beside(width - beside));
        }
        let all: usize = widths.iter().sum();
        let gap = if all + 2 * GAP <= width { GAP } else { 1 };
        let with_owners = all + 2 * gap > width;
        Self {
            widths,
            gap,
            messages: Messages::Below { width, with_owners },
        }
    }

    /// Widths of the columns that there are.
    fn columns(&self) -> &[usize] {
        match self.messages {
            Messages::Below {
                with_owners: true, ..
            } => &self.widths[..2],
            _ => &self.widths,
        }
    }

    /// Where messages begin that are beside their row.
    fn beside(&self) -> usize {
        self.widths.iter().map(|width| width + self.gap).sum()
    }
}

impl Row {
    fn widths(&self) -> [usize; 3] {
        let name: usize = self.name.iter().map(|(_, text)| text.width()).sum();
        [
            self.branches.width() + name,
            self.healthy.1.width(),
            self.owner.1.width(),
        ]
    }

    fn write(&self, layout: &Layout, output: Output, text: &mut Vec<String>) {
        let message = one_line(&self.message);
        let cells = [
            self.branches.clone() + &spans(&self.name, output),
            span(&self.healthy, output),
            span(&self.owner, output),
        ];
        let mut line = String::new();
        for ((text, own), width) in cells.iter().zip(self.widths()).zip(layout.columns()) {
            line.push_str(&pad(text, own, width + layout.gap));
        }
        match layout.messages {
            Messages::Whole => text.push(line + &message),
            Messages::Beside(width) => {
                let mut parts = lines(&message, width).into_iter();
                text.push(line + &parts.next().unwrap_or_default());
                for part in parts {
                    text.push(pad(&self.below, self.below.width(), layout.beside()) + &part);
                }
            }
            Messages::Below { width, with_owners } => {
                text.push(line);
                let width = width.saturating_sub(self.below.width());
                // The owner that a revision's object should have has no colour.
                let owner = match &self.owner {
                    (Some(_), owner) if with_owners => format!("owner: {owner}"),
                    _ => String::new(),
                };
                let texts = [owner, message];
                for part in texts.iter().flat_map(|text| lines(text, width)) {
                    let part = output.paint(Paint::Dim, &part);
                    text.push(format!("{}{part}", self.below));
                }
            }
        }
    }
}

fn spans(parts: &[Span], output: Output) -> String {
    parts.iter().map(|part| span(part, output)).collect()
}

fn span((paint, text): &Span, output: Output) -> String {
    match paint {
        Some(paint) => output.paint(*paint, text),
        None => text.clone(),
    }
}

/// A text of a known width, filled up with blanks.
fn pad(text: &str, own: usize, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::DeploymentPicture;

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
                    state: "NotReady",
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
                    state: "Archived",
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
    fn messages_go_below_their_rows_where_there_is_no_room() {
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
    fn columns_come_closer_before_anything_is_lost() {
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
│     ├─ ConfigMap/a         True    nobody
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
│     │     owner: nobody
│     └─ ConfigMap/b         False
│           a long message of many words
│           that does not fit
└─ revision 1 web-1 Archived
"
        );
    }

    #[test]
    fn a_poor_terminal_gets_ascii() {
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
    fn every_owner_has_its_words() {
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
            (OwnerPicture::Nobody, "True nobody"),
            (OwnerPicture::Missing, "- missing"),
            (OwnerPicture::Unknown, "True unknown"),
        ] {
            assert_eq!(word(owner), expected);
        }
    }

    #[test]
    fn what_is_fine_can_be_left_out() {
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
                healthy: 1,
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
    fn nothing_is_nothing() {
        assert_eq!(render(&[], Style::default(), Output::plain()), "");
    }
}
