//! `diff` of two Releases of an Application.

use baton_text::{application::refusal::refused, diff::Labels};
use baton_view::applications::{observed::Observed, steer::of_generation, target::AppTarget};

use super::{DiffArgs, show};
use crate::{
    applications::compare::releases, args::GlobalArgs, commands::Exit, error::Error,
    wait::application::read,
};

pub(crate) async fn run(
    target: &AppTarget,
    args: &DiffArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.live {
        let text = "--live is for revisions; name one of those that `kubectl baton tree` shows";
        return Err(Error::Usage(text.to_owned()));
    }
    let cluster = global.connect().await?;
    let observed = read(&cluster, target).await?;
    let (from, to) = pair(&observed, args)?;
    let missing = |name: &str| Error::NotFound(format!("release {name} not found"));
    let before = observed.release(&from).ok_or_else(|| missing(&from))?;
    let after = observed.release(&to).ok_or_else(|| missing(&to))?;
    let sections = releases(&cluster, before, after).await;
    let labels = Labels::new(format!("release {from}"), format!("release {to}"));
    show(&sections, &labels, args, global).await
}

/// Names of the Releases to compare; by default the incumbent and the contender.
fn pair(observed: &Observed, args: &DiffArgs) -> Result<(String, String), Error> {
    let target = observed.target();
    let impossible = |text: String| Error::Impossible(format!("{target}: {text}"));
    let history = observed.known_history();
    let members = history.members();
    let named = |name: &str| match observed.release(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(impossible(format!("it has no release {name}"))),
    };
    if let [from, to] = &args.release[..] {
        return Ok((named(from)?, named(to)?));
    }
    let of = |number: i64| {
        let member = of_generation(members, number);
        let member = member.map_err(|refusal| Error::Impossible(refused(observed, &refusal)))?;
        Ok::<_, Error>(member.name().to_owned())
    };
    let chosen = args.release.first().or(observed.named.as_ref());
    let to = match (args.to, chosen) {
        (Some(number), _) => Some(of(number)?),
        (None, Some(name)) => Some(named(name)?),
        (None, None) => None,
    };
    let from = args.from.map(of).transpose()?;
    let newest = history.newest().map(|newest| newest.name().to_owned());
    let second = to.clone().or(newest);
    let second = second.ok_or_else(|| impossible("there is no release yet".to_owned()))?;
    if let Some(from) = from {
        return Ok((from, second));
    }
    let first = if to.is_none() {
        // The incumbent is not always the Release right before the contender.
        history.incumbent()
    } else {
        let at = members.iter().position(|member| member.name() == second);
        at.and_then(|at| members[..at].last())
    };
    let first = first.map(|first| first.name().to_owned()).ok_or_else(|| {
        impossible(format!(
            "there is no release that {second} replaces; choose two with --release"
        ))
    })?;
    Ok((first, second))
}
