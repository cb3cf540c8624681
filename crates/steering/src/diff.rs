//! Comparisons of revisions, and the effects of new ones by the answers of a server to dry runs.
//!
//! `baton_view::diff` defines the sections and makes all decisions that need no server.

mod cascading_deletion;
mod definitions;
pub mod forecast;
pub mod live;
pub mod losses;
pub mod phase_clusters;
pub mod refusals;
mod takeover;

use baton_cluster::{Cluster, lists};
use baton_text::{diff::gone, rollout::title};
use baton_view::{
    chain::{Chain, member::Revision},
    diff::{
        Section,
        revisions::{RevisionSide, compare},
    },
};

use crate::{error::Error, rollback::numbered};

/// The second revision of a comparison: by number; by default the current or the newest one.
///
/// # Errors
/// If there is no such revision.
pub fn second(chain: &Chain, number: Option<i64>) -> Result<&Revision, Error> {
    match number {
        Some(number) => numbered(chain, number),
        None => chain.subject().or(chain.newest()).ok_or_else(|| {
            let target = chain.target().map(|target| target.to_string());
            Error::Impossible(format!(
                "{} has no revisions yet",
                target.unwrap_or_default()
            ))
        }),
    }
}

/// The first revision of a comparison: by number; by default the one before `to`.
///
/// # Errors
/// If there is no such revision.
pub fn first<'a>(
    chain: &'a Chain,
    to: &Revision,
    number: Option<i64>,
) -> Result<&'a Revision, Error> {
    if let Some(number) = number {
        return numbered(chain, number);
    }
    let at = chain.revisions.iter().position(|one| one.uid() == to.uid());
    let before = at.and_then(|at| chain.revisions[..at].last());
    before.ok_or_else(|| {
        Error::Impossible(format!(
            "{} is the first one; choose two with --from and --to, or compare it with the cluster with --live",
            title(to)
        ))
    })
}

/// The differences of two revisions of a chain.
///
/// # Errors
/// If slices cannot be read, or do not exist any more.
pub async fn between(
    cluster: &Cluster,
    chain: &Chain,
    from: &Revision,
    to: &Revision,
) -> Result<Vec<Section>, Error> {
    let slices = lists::slices(cluster, [from, to]).await?;
    let side = |revision| {
        let side = RevisionSide::of_revision(revision, slices.content(revision));
        complete(side, || title(revision))
    };
    let (from, to) = (side(from)?, side(to)?);
    let mut sections = compare(&from, &to);
    let contents = (&from.content, &to.content);
    losses::add_to_comparison(cluster, chain, contents, &mut sections).await?;
    Ok(sections)
}

/// Returns an error for a side that names missing slices.
///
/// # Errors
/// If there are such slices.
pub fn complete(side: RevisionSide, title: impl FnOnce() -> String) -> Result<RevisionSide, Error> {
    match side.missing_slices().as_slice() {
        [] => Ok(side),
        missing => Err(Error::Impossible(format!(
            "{} cannot be compared: {}",
            title(),
            gone(missing)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(numbers: &[i64]) -> Chain {
        let revision = |number: &i64| {
            let text = format!(
                "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, metadata: {{name: web-{number}, uid: \
                     u{number}}}, spec: {{revision: {number}}}}}"
            );
            Revision::parse(serde_saphyr::from_str(&text).unwrap()).unwrap()
        };
        Chain {
            revisions: numbers.iter().map(revision).collect(),
            ..Chain::default()
        }
    }

    /// The numbers of the two revisions, or the error text.
    fn chosen(chain: &Chain, from: Option<i64>, to: Option<i64>) -> Result<(i64, i64), String> {
        let text = |error: Error| error.to_string();
        let to = second(chain, to).map_err(text)?;
        let from = first(chain, to, from).map_err(text)?;
        Ok((from.number().unwrap(), to.number().unwrap()))
    }

    #[test]
    fn which_revisions_are_compared() {
        let mut web = chain(&[1, 2, 5]);
        assert_eq!(chosen(&web, None, None), Ok((2, 5)));
        assert_eq!(chosen(&web, Some(1), None), Ok((1, 5)));
        assert_eq!(chosen(&web, None, Some(2)), Ok((1, 2)));
        assert_eq!(chosen(&web, Some(5), Some(1)), Ok((5, 1)));
        let unknown = chosen(&web, Some(3), None).unwrap_err();
        assert_eq!(
            unknown,
            "revision 3 does not exist; there are the revisions 1, 2, 5"
        );
        let lonely = chosen(&web, None, Some(1)).unwrap_err();
        assert!(
            lonely.starts_with("revision 1 (web-1) is the first one; "),
            "{lonely}"
        );
        web.named = Some("web-2".to_owned());
        assert_eq!(chosen(&web, None, None), Ok((1, 2)));
        let none = chosen(&chain(&[]), None, None).unwrap_err();
        assert!(none.ends_with("has no revisions yet"), "{none}");
    }
}
