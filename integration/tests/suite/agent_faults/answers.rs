//! API servers that refuse, lose and cut the answers to an agent's requests.

use std::time::Instant;

use baton_integration::faults::{Answer, Faults, On, Status, Verb};
use baton_integration::sites::{PULL, Site};
use futures::future::join_all;

use super::{Side, pulled};
use crate::rollout::{Script, calm, is_done, watch_scripts, writes};

/// Rolls out over API servers with these faults, one concurrent rollout per fault.
async fn roll_out_with_each(side: Side, scripts: Vec<Script>) {
    calm().await;
    let cluster = &Site::get(PULL).await;
    join_all(scripts.into_iter().map(async |(text, on, answer, least)| {
        let text = format!("{text} of the {side:?}");
        let faults = Faults::start(&side.endpoint(cluster).await).await;
        // The fault precedes all requests of the agent.
        let injection = faults.inject(on, answer);
        let start = Instant::now();
        let (rollout, _agent) =
            pulled(cluster, |setup| side.at(setup, faults.endpoint()), true).await;
        println!("{}: {text}", rollout.ns.name());
        rollout.run(async |_| {}).await;
        println!(
            "{text}: {:.1} s, {} met",
            start.elapsed().as_secs_f32(),
            injection.count()
        );
        assert!(injection.count() >= least, "{text}: {}", injection.count());
        faults.heal();
        rollout.assert_calm(&text).await;
        if side == Side::Site {
            // A write that was carried out without an answer may be sent once more, without an
            // effect.
            let requests = faults.requests();
            let lost = requests
                .iter()
                .filter(|request| request.injected && is_done(request));
            let most = calm().await.1 + lost.count();
            assert!(
                writes(&requests) <= most,
                "{text}: {} writes",
                writes(&requests)
            );
        }
    }))
    .await;
}

/// Returns the paths that the agent watches at a side: the objects of the rollout, or the mirrors
/// of its phases.
fn followed(side: Side) -> &'static str {
    match side {
        Side::Hub => "/objectsetphases(/|$)",
        Side::Site => "/configmaps(/|$)",
    }
}

async fn watches_end(side: Side) {
    roll_out_with_each(side, watch_scripts(followed(side))).await;
}

#[tokio::test]
async fn a_rollout_is_completed_however_hub_watches_end() {
    watches_end(Side::Hub).await;
}

#[tokio::test]
async fn a_rollout_is_completed_however_site_watches_end() {
    watches_end(Side::Site).await;
}

#[tokio::test]
async fn a_rollout_is_completed_after_failed_requests_to_the_hub() {
    let status = || On::writes().path("/status$").after(1).times(4);
    let list = || On::verb(Verb::List).path(followed(Side::Hub)).times(2);
    let stored = Answer::Lost(Status::internal_error());
    let unheard = Answer::HangUp { carried_out: false };
    roll_out_with_each(
        Side::Hub,
        vec![
            ("409 to a status", status(), Answer::conflict(), 4),
            ("500 to a status", status(), Answer::internal_error(), 4),
            ("503 to a status", status(), Answer::unavailable(), 4),
            ("429 to a status", status(), Answer::too_many_requests(1), 4),
            ("500 for a status that is stored", status(), stored, 4),
            (
                "no answer to a status that is stored",
                status(),
                Answer::HangUp { carried_out: true },
                4,
            ),
            ("a status that does not arrive", status(), unheard, 4),
            (
                "half an answer to a status",
                status(),
                Answer::CutBody(100),
                4,
            ),
            (
                "429 to everything",
                On::any().times(8),
                Answer::too_many_requests(1),
                8,
            ),
            ("500 to a list", list(), Answer::internal_error(), 2),
            ("410 to a list", list(), Answer::gone(), 2),
            ("a list that is cut", list(), Answer::CutBody(20), 2),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_rollout_is_completed_after_failed_requests_to_the_site() {
    let apply = || On::verb(Verb::Apply).dry_run(false).times(4);
    let dry_run = || On::verb(Verb::Apply).dry_run(true).times(2);
    let list = || On::verb(Verb::List).path(followed(Side::Site)).times(2);
    let deletion = || On::verb(Verb::Delete).times(2);
    roll_out_with_each(
        Side::Site,
        vec![
            ("409 to an apply", apply(), Answer::conflict(), 4),
            ("500 to an apply", apply(), Answer::internal_error(), 4),
            (
                "429 to everything",
                On::any().times(8),
                Answer::too_many_requests(1),
                8,
            ),
            ("503 to a dry run", dry_run(), Answer::unavailable(), 2),
            ("500 to a list", list(), Answer::internal_error(), 2),
            ("410 to a list", list(), Answer::gone(), 2),
            (
                "500 to the deletion",
                deletion(),
                Answer::internal_error(),
                1,
            ),
            ("409 to the deletion", deletion(), Answer::conflict(), 1),
        ],
    )
    .await;
}

/// The server of the site has carried out the request, and the agent does not know.
#[tokio::test]
async fn a_rollout_is_completed_after_lost_answers_of_the_site() {
    let deletion = || On::verb(Verb::Delete).times(1);
    let writes = |skip| On::writes().after(skip).times(4);
    let hung_up = |carried_out| Answer::HangUp { carried_out };
    let lost = || Answer::Lost(Status::internal_error());
    roll_out_with_each(
        Side::Site,
        vec![
            ("500 for the first writes", writes(0), lost(), 4),
            ("no answer to the first writes", writes(0), hung_up(true), 4),
            ("no answer to later writes", writes(5), hung_up(true), 4),
            (
                "half an answer to writes",
                writes(2),
                Answer::CutBody(100),
                4,
            ),
            ("500 for the deletion", deletion(), lost(), 1),
            ("no answer to the deletion", deletion(), hung_up(true), 1),
            ("writes that do not arrive", writes(1), hung_up(false), 4),
        ],
    )
    .await;
}
