//! Feeds: the present answer to a question, and the pages that are rendered from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use baton_cluster::{Cluster, follower::Follower};
use baton_pages::{
    page::{Frame, Page},
    regions::Rendered,
};
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::{AbortHandle, yield_now},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    credentials::Credentials,
    failure::Failure,
    hex::short_hash,
    rights::{Access, required},
    viewer::Viewer,
};

/// The longest time until a page is rendered again without a change, for states that depend on the
/// time.
const TICK: Duration = Duration::from_secs(30);
/// The pause after pages were rendered, as a multiple of the time for it: other pages are rendered in
/// the same threads.
const PAUSES: u32 = 4;

/// The answer to a question, as it changes, with the pages that show it. Its watches end with the last
/// viewer.
pub(crate) struct Feed<P: Page> {
    views: Arc<Views<P>>,
    state: watch::Receiver<State>,
    credentials: Option<Arc<Credentials>>,
    task: AbortHandle,
}

/// The state of a feed.
#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing was read yet.
    #[default]
    Opening,
    /// The rights that the answer requires; `None` if it is for the viewer who has opened the feed.
    Open(Option<Arc<BTreeSet<Access>>>),
    /// There will be no further answer.
    Ended,
}

/// Ends the pages of a feed, also if rendering one of them has panicked.
struct End<P: Page> {
    views: Arc<Views<P>>,
    state: watch::Sender<State>,
    failure: Failure,
}

impl<P: Page> Drop for End<P> {
    fn drop(&mut self) {
        self.state.send_replace(State::Ended);
        self.views.end(&self.failure);
    }
}

/// The pages of a feed.
struct Views<P> {
    state: Mutex<OpenViews<P>>,
    added: Notify,
}

/// The pages of a feed that are open, by their keys.
struct OpenViews<P> {
    open: BTreeMap<String, (P, Weak<View>)>,
    /// The reason that there will be no further answer.
    ended: Option<Failure>,
}

/// A page of a feed, with the filters of its viewers.
#[derive(Debug)]
pub(crate) struct View(watch::Sender<Content>);

/// The content of a page.
#[derive(Clone, Debug, Default)]
pub(crate) enum Content {
    /// Nothing was read yet.
    #[default]
    Nothing,
    /// The last answer.
    Shown(Shown),
    /// There will be no further content.
    Ended(Failure),
}

/// A rendered answer.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) rendered: Arc<Rendered>,
    /// A name for the content, without its ages.
    pub(crate) version: Arc<str>,
    /// The reason that it is not up to date.
    pub(crate) trouble: Option<String>,
    /// The rights that it requires; `None` if it is for the viewer who has opened the feed.
    pub(crate) required: Option<Arc<BTreeSet<Access>>>,
}

impl<P: Page> Drop for Feed<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<P: Page> Feed<P> {
    /// Starts to follow the question of a page with the rights of a viewer.
    pub(crate) fn start(viewer: &Viewer, frame: &Frame, page: &P) -> Self {
        let credentials = viewer.token().cloned().map(Credentials::new);
        let views = Arc::new(Views {
            state: Mutex::new(OpenViews {
                open: BTreeMap::new(),
                ended: None,
            }),
            added: Notify::new(),
        });
        let (sender, state) = watch::channel(State::Opening);
        let cluster = viewer.open(credentials.as_ref());
        let follow = follow(
            cluster,
            frame.clone(),
            page.clone(),
            Arc::clone(&views),
            sender,
        );
        Self {
            views,
            state,
            credentials,
            task: tokio::spawn(follow).abort_handle(),
        }
    }

    /// The tokens of the requests; `None` if there is only one viewer.
    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.credentials.as_ref()
    }

    /// True if the feed goes on, and a viewer may see its answers. The feed of another viewer that is being
    /// opened is waited for until `end`.
    ///
    /// # Errors
    /// If the token of the viewer is not valid any more.
    pub(crate) async fn is_for(&self, viewer: &Viewer, end: Instant) -> Result<bool, Failure> {
        let mut state = self.state.clone();
        if let (Some(credentials), Some(token)) = (&self.credentials, viewer.token()) {
            if credentials.is_refused(token) {
                return Ok(false);
            }
            if !credentials.is_only(token) {
                return self.may_be_seen(state, viewer, end).await;
            }
        }
        let has_ended = matches!(*state.borrow_and_update(), State::Ended);
        Ok(!has_ended)
    }

    /// True if a viewer has the rights to the answer.
    async fn may_be_seen(
        &self,
        mut state: watch::Receiver<State>,
        viewer: &Viewer,
        end: Instant,
    ) -> Result<bool, Failure> {
        let read = state.wait_for(|state| !matches!(state, State::Opening));
        let read = timeout_at(end, read).await;
        let read = read.ok().and_then(Result::ok);
        match read.map(|state| state.clone()).unwrap_or_default() {
            State::Open(Some(required)) => viewer.may(&required).await,
            State::Opening | State::Open(None) | State::Ended => Ok(false),
        }
    }

    /// The page that shows the answers.
    pub(crate) fn view(&self, page: P) -> Arc<View> {
        let mut state = self.views.state.lock();
        let OpenViews { open, ended } = &mut *state;
        open.retain(|_, (_, view)| view.strong_count() > 0);
        let key = page.key();
        if let Some(view) = open.get(&key).and_then(|(_, view)| view.upgrade()) {
            return view;
        }
        let first = ended.clone().map_or(Content::Nothing, Content::Ended);
        let view = Arc::new(View(watch::Sender::new(first)));
        open.insert(key, (page, Arc::downgrade(&view)));
        self.views.added.notify_one();
        view
    }
}

impl View {
    /// The contents from now on.
    pub(crate) fn contents(&self) -> watch::Receiver<Content> {
        self.0.subscribe()
    }
}

impl<P: Page> Views<P> {
    /// All pages, or those that have no content yet.
    fn to_render(&self, only_new: bool) -> Vec<(P, Arc<View>)> {
        let state = self.state.lock();
        let open = state.open.values();
        let open = open.filter_map(|(page, view)| Some((page, view.upgrade()?)));
        let is_wanted = |view: &View| !only_new || matches!(*view.0.borrow(), Content::Nothing);
        open.filter(|(_, view)| is_wanted(view))
            .map(|(page, view)| (page.clone(), view))
            .collect()
    }

    /// Ends all pages, also those that are opened later.
    fn end(&self, failure: &Failure) {
        let mut state = self.state.lock();
        state.ended = Some(failure.clone());
        for view in state.open.values().filter_map(|(_, view)| view.upgrade()) {
            view.0.send_replace(Content::Ended(failure.clone()));
        }
    }
}

/// A hash of a content without its ages, the same on all replicas.
fn version(rendered: &Rendered) -> String {
    short_hash(rendered.timeless().map(str::as_bytes))
}

/// Follows a question until its object does not exist any more.
async fn follow<P: Page>(
    cluster: Cluster,
    frame: Frame,
    page: P,
    views: Arc<Views<P>>,
    state: watch::Sender<State>,
) {
    let mut end = End {
        views,
        state,
        failure: Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the page cannot be drawn",
        ),
    };
    end.failure = match read(cluster, &frame, &page, &end.views, &end.state).await {
        Ok(()) => {
            let message = format!("{} has been deleted", page.name());
            Failure::new(StatusCode::GONE, message)
        }
        Err(failure) => failure,
    };
}

/// Renders the answers as long as the object of the question exists.
async fn read<P: Page>(
    cluster: Cluster,
    frame: &Frame,
    page: &P,
    views: &Views<P>,
    state: &watch::Sender<State>,
) -> Result<(), Failure> {
    let notes = Arc::new(Mutex::new(Vec::<String>::new()));
    let sink = Arc::clone(&notes);
    let cluster = cluster.with_warnings(Arc::new(move |text: &str| {
        let mut notes = sink.lock();
        if !notes.iter().any(|note| note == text) {
            notes.push(text.to_owned());
        }
    }));
    let mut follower = Follower::start(&cluster, page.clone()).await?;
    let mut remarks = mem::take(&mut *notes.lock());
    let mut only_new = false;
    loop {
        let start = Instant::now();
        // Another viewer may have the right that is missing now.
        let is_shared = !follower.is_forbidden();
        let required = is_shared.then(|| required(follower.lists())).flatten();
        state.send_replace(State::Open(required.clone()));
        for (page, view) in views.to_render(only_new) {
            let rendered = page.render(follower.last(), frame, &remarks, Timestamp::now());
            view.0.send_replace(Content::Shown(Shown {
                version: version(&rendered).into(),
                rendered: Arc::new(rendered),
                trouble: follower.trouble().map(str::to_owned),
                required: required.clone(),
            }));
            // Other tasks have their turn.
            yield_now().await;
        }
        sleep(start.elapsed() * PAUSES).await;
        only_new = false;
        tokio::select! {
            next = timeout(TICK, follower.next()) => match next {
                Ok(true) => remarks = mem::take(&mut *notes.lock()),
                // The answer is the same, and so are the notes about it.
                Err(_) => {}
                Ok(false) => return Ok(()),
            },
            () = views.added.notified() => only_new = true,
        }
    }
}
