//! Feeds: the present content of pages, shared by all that look at them.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use baton_cluster::{Cluster, follower::Follower};
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use crate::{failure::Failure, pages::Page, regions::Rendered};

/// The longest time until a page is rendered again without a change, for states that depend on the
/// time.
const TICK: Duration = Duration::from_secs(30);
/// The time for which a feed goes on after the last look at its page: the browser asks for events
/// after it has loaded the page.
const LINGER: Duration = Duration::from_secs(15);
/// The pause after a page was rendered, as a multiple of the time for it: other pages are rendered in
/// the same thread.
const PAUSES: u32 = 4;
/// The number of pages that are followed at a time for one viewer.
const MAX_FEEDS: usize = 64;

/// The feeds of all pages that are open.
#[derive(Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<HashMap<String, Weak<Feed>>>>);

/// The content of a page, as it changes. Its watches end with the last user.
pub(crate) struct Feed {
    contents: watch::Receiver<Content>,
    task: AbortHandle,
}

/// The content of a page.
#[derive(Clone, Debug, Default)]
pub(crate) enum Content {
    /// Nothing was read yet.
    #[default]
    Nothing,
    /// The last answer, and the reason if it is not up to date.
    Shown(Arc<Rendered>, Option<String>),
    /// There will be no further content.
    Ended(Failure),
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Feeds {
    /// The feed of a page. `base` is the path before those of all pages.
    ///
    /// # Errors
    /// If too many pages are open.
    pub(crate) fn of<P: Page>(
        &self,
        cluster: &Cluster,
        base: &str,
        page: P,
    ) -> Result<Arc<Feed>, Failure> {
        let key = page.key();
        let mut feeds = self.0.lock();
        if let Some(feed) = feeds.get(&key).and_then(Weak::upgrade)
            && !matches!(*feed.contents.borrow(), Content::Ended(_))
        {
            return Ok(feed);
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        if feeds.len() >= MAX_FEEDS {
            let message = format!("{MAX_FEEDS} pages are open; close some of them");
            return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let (sender, contents) = watch::channel(Content::Nothing);
        let task = tokio::spawn(follow(cluster.clone(), base.to_owned(), page, sender));
        let feed = Arc::new(Feed {
            contents,
            task: task.abort_handle(),
        });
        feeds.insert(key, Arc::downgrade(&feed));
        drop(feeds);
        Ok(feed)
    }
}

impl Feed {
    /// The contents from now on.
    pub(crate) fn contents(&self) -> watch::Receiver<Content> {
        self.contents.clone()
    }

    /// The first content. The feed goes on for a while after it.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub(crate) async fn first(self: Arc<Self>) -> Result<(Arc<Rendered>, Option<String>), Failure> {
        let mut contents = self.contents();
        let read = contents.wait_for(|content| !matches!(content, Content::Nothing));
        let content = read
            .await
            .map(|content| content.clone())
            .unwrap_or_default();
        match content {
            Content::Shown(rendered, trouble) => {
                tokio::spawn(async move {
                    sleep(LINGER).await;
                    drop(self);
                });
                Ok((rendered, trouble))
            }
            Content::Ended(failure) => Err(failure),
            // The task has panicked.
            Content::Nothing => Err(Failure::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the page cannot be drawn",
            )),
        }
    }
}

/// Follows a page until its object does not exist any more.
async fn follow<P: Page>(cluster: Cluster, base: String, page: P, sender: watch::Sender<Content>) {
    let notes = Arc::new(Mutex::new(Vec::<String>::new()));
    let sink = Arc::clone(&notes);
    let cluster = cluster.with_warnings(Arc::new(move |text: &str| {
        let mut notes = sink.lock();
        if !notes.iter().any(|note| note == text) {
            notes.push(text.to_owned());
        }
    }));
    let mut follower = match Follower::start(&cluster, page.clone()).await {
        Ok(follower) => follower,
        Err(error) => return end(&sender, error.into()),
    };
    let mut remarks = mem::take(&mut *notes.lock());
    loop {
        let start = Instant::now();
        let rendered = page.render(follower.last(), &base, &remarks, Timestamp::now());
        let trouble = follower.trouble().map(str::to_owned);
        sender.send_replace(Content::Shown(Arc::new(rendered), trouble));
        sleep(start.elapsed() * PAUSES).await;
        match timeout(TICK, follower.next()).await {
            Ok(true) => remarks = mem::take(&mut *notes.lock()),
            // The answer is the same, and so are the notes about it.
            Err(_) => {}
            Ok(false) => {
                let message = format!("{} has been deleted", page.name());
                return end(&sender, Failure::new(StatusCode::GONE, message));
            }
        }
    }
}

fn end(sender: &watch::Sender<Content>, failure: Failure) {
    sender.send_replace(Content::Ended(failure));
}
