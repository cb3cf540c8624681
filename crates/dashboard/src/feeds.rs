//! The feeds of all pages that are open.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use baton_pages::page::{Frame, Page};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    credentials::Credentials,
    failure::Failure,
    feed::{Content, Feed, Shown, View},
    viewer::Viewer,
};

/// The time for which a page is open after it was loaded: the browser asks for its events then.
const LINGER: Duration = Duration::from_secs(15);
/// The longest wait for feeds of other viewers that are being opened.
const OPENING: Duration = Duration::from_secs(20);
/// The longest time until a page is shown.
pub(crate) const FIRST: Duration = Duration::from_mins(1);
/// The number of pages that a user can have open.
const MAX_PAGES: usize = 32;
/// The number of feeds of all viewers.
const MAX_FEEDS: usize = 512;

/// A feed of a page of any kind.
type AnyFeed = dyn Any + Send + Sync;

/// The feeds of all pages that are open, by their questions. There are several for a question if viewers
/// have different rights.
#[derive(Default)]
pub(crate) struct Feeds {
    of_questions: Mutex<HashMap<String, Vec<Weak<AnyFeed>>>>,
    pages: Arc<AtomicUsize>,
}

/// A page that a viewer looks at. Its feed goes on as long as somebody has it.
pub(crate) struct OpenPage {
    viewer: Arc<Viewer>,
    credentials: Option<Arc<Credentials>>,
    view: Arc<View>,
    /// The number of pages of all viewers.
    pages: Arc<AtomicUsize>,
    _feed: Arc<AnyFeed>,
}

/// The decision about a content for a viewer.
pub(crate) enum Admission {
    /// The viewer may see it.
    Granted,
    /// The viewer has to open the page again, with a feed of its own.
    Elsewhere,
}

impl Feeds {
    /// Opens a page for a viewer, with a feed that exists if the viewer may see its answers.
    ///
    /// # Errors
    /// If too many pages are open, or the token of the viewer is not valid any more.
    pub(crate) async fn open<P: Page>(
        &self,
        viewer: &Arc<Viewer>,
        frame: &Frame,
        page: P,
    ) -> Result<OpenPage, Failure> {
        let question = page.question();
        // After the wait for feeds that were being opened, there may be others.
        for end in [Instant::now() + OPENING, Instant::now()] {
            for feed in self.of::<P>(&question) {
                if feed.is_for(viewer, end).await? {
                    return self.enter(viewer, feed, page);
                }
            }
        }
        let feed = {
            let mut feeds = self.of_questions.lock();
            feeds.retain(|_, feeds| {
                feeds.retain(|feed| feed.strong_count() > 0);
                !feeds.is_empty()
            });
            if feeds.values().map(Vec::len).sum::<usize>() >= MAX_FEEDS {
                let message = format!("{MAX_FEEDS} pages are open; try again later");
                return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, message));
            }
            let feed = Arc::new(Feed::start(viewer, frame, &page));
            let any: Arc<AnyFeed> = feed.clone();
            feeds
                .entry(question)
                .or_default()
                .push(Arc::downgrade(&any));
            feed
        };
        self.enter(viewer, feed, page)
    }

    /// The number of pages that are open, and of feeds.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let feeds = self.of_questions.lock();
        let feeds = feeds.values().flatten();
        let feeds = feeds.filter(|feed| feed.strong_count() > 0).count();
        (self.pages.load(Ordering::Acquire), feeds)
    }

    /// The feeds of a question.
    fn of<P: Page>(&self, question: &str) -> Vec<Arc<Feed<P>>> {
        let feeds = self.of_questions.lock();
        let feeds = feeds.get(question).into_iter().flatten();
        let feeds = feeds.filter_map(Weak::upgrade);
        feeds
            .filter_map(|feed| feed.downcast::<Feed<P>>().ok())
            .collect()
    }

    /// Opens a page of a feed for a viewer.
    fn enter<P: Page>(
        &self,
        viewer: &Arc<Viewer>,
        feed: Arc<Feed<P>>,
        page: P,
    ) -> Result<OpenPage, Failure> {
        if !viewer.enter(MAX_PAGES) {
            let message = format!("{MAX_PAGES} pages are open; close some of them");
            return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let credentials = feed.credentials().cloned();
        if let (Some(credentials), Some(token)) = (&credentials, viewer.token()) {
            credentials.join(token);
        }
        self.pages.fetch_add(1, Ordering::AcqRel);
        Ok(OpenPage {
            view: feed.view(page),
            viewer: Arc::clone(viewer),
            credentials,
            pages: Arc::clone(&self.pages),
            _feed: feed,
        })
    }
}

impl OpenPage {
    /// The contents from now on.
    pub(crate) fn contents(&self) -> watch::Receiver<Content> {
        self.view.contents()
    }

    /// Decides about a content: the viewer sees it only with the rights of its lists.
    ///
    /// # Errors
    /// If the rights cannot be reviewed.
    pub(crate) async fn admit(&self, shown: &Shown) -> Result<Admission, Failure> {
        let (Some(credentials), Some(token)) = (&self.credentials, self.viewer.token()) else {
            return Ok(Admission::Granted);
        };
        // A feed of its own shows if the server accepts the token again.
        if credentials.is_refused(token) {
            return Ok(Admission::Elsewhere);
        }
        if credentials.is_only(token) {
            return Ok(Admission::Granted);
        }
        let Some(required) = &shown.required else {
            return Ok(Admission::Elsewhere);
        };
        match self.viewer.may(required).await {
            Ok(true) => Ok(Admission::Granted),
            Ok(false) => Ok(Admission::Elsewhere),
            // The browser may have a newer token by now.
            Err(failure) if failure.status == StatusCode::UNAUTHORIZED => Ok(Admission::Elsewhere),
            Err(failure) => Err(failure),
        }
    }

    /// The first content. The page stays open for a while after it.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub(crate) async fn first(self) -> Result<Shown, Failure> {
        let mut contents = self.contents();
        let read = contents.wait_for(|content| !matches!(content, Content::Nothing));
        let content = read.await.map(|content| content.clone());
        let content = content.unwrap_or_default();
        match content {
            Content::Shown(shown) => match self.admit(&shown).await? {
                Admission::Granted => {
                    tokio::spawn(async move {
                        sleep(LINGER).await;
                        drop(self);
                    });
                    Ok(shown)
                }
                Admission::Elsewhere => Err(Failure::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the rights to this page have just changed; load it again",
                )),
            },
            Content::Ended(failure) => Err(failure),
            Content::Nothing => Err(Failure::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the page cannot be drawn",
            )),
        }
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.viewer.leave();
        self.pages.fetch_sub(1, Ordering::AcqRel);
        if let (Some(credentials), Some(token)) = (&self.credentials, self.viewer.token()) {
            credentials.leave(token);
        }
    }
}
