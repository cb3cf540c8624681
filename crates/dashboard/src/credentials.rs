//! The token of the requests of a feed that several viewers share.

use std::sync::Arc;

use baton_kubernetes::credentials::Sent;
use http::{Request, header::AUTHORIZATION};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tower::service_fn;

use crate::token::{Token, TokenId};

/// The token of all requests of a feed: that of the viewer who has opened the feed. If this viewer
/// leaves, or if the server does not accept the token any more, that of another viewer replaces it.
#[derive(Debug)]
pub(crate) struct Credentials(Mutex<State>);

#[derive(Debug)]
struct State {
    current: Token,
    /// True if all requests had the same token.
    is_first: bool,
    /// The viewers of the feed, one entry for each page that they look at.
    viewers: Vec<Token>,
    /// Tokens that the server did not accept.
    refused: Vec<TokenId>,
}

impl Credentials {
    pub(crate) fn new(token: Token) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            current: token,
            is_first: true,
            viewers: Vec::new(),
            refused: Vec::new(),
        })))
    }

    /// Adds a viewer.
    pub(crate) fn join(&self, token: &Token) {
        let mut state = self.0.lock();
        state.viewers.push(token.clone());
        // The one of the present token may have left.
        state.replace();
    }

    /// Removes a viewer.
    pub(crate) fn leave(&self, token: &Token) {
        let mut state = self.0.lock();
        let mut viewers = state.viewers.iter();
        if let Some(at) = viewers.position(|it| it.id() == token.id()) {
            state.viewers.swap_remove(at);
        }
        if state.current.id() == token.id() {
            state.replace();
        }
    }

    /// Notes that the server does not accept a token.
    fn refuse(&self, id: TokenId) {
        let mut state = self.0.lock();
        if !state.refused.contains(&id) {
            state.refused.push(id);
        }
        if state.current.id() == id {
            state.replace();
        }
    }

    /// True if the server did not accept this token.
    pub(crate) fn is_refused(&self, token: &Token) -> bool {
        self.0.lock().refused.contains(&token.id())
    }

    /// True if all requests had this token, so that everything in the answers is for its user.
    pub(crate) fn is_only(&self, token: &Token) -> bool {
        let state = self.0.lock();
        state.is_first && state.current.id() == token.id()
    }

    /// The client with the token of the time of each request.
    pub(crate) fn client(self: &Arc<Self>, client: Client) -> Client {
        let this = Arc::clone(self);
        let namespace = client.default_namespace().to_owned();
        let send = move |mut request: Request<Body>| {
            let (client, this) = (client.clone(), Arc::clone(&this));
            async move {
                let token = this.0.lock().current.clone();
                request.headers_mut().insert(AUTHORIZATION, token.header());
                let response = client.send(request).await?;
                if response.status() == http::StatusCode::UNAUTHORIZED {
                    this.refuse(token.id());
                }
                // Errors are shown to all viewers of a feed.
                let sent = Sent::token(token.secret());
                Ok::<_, kube::Error>(sent.removed_from(response))
            }
        };
        Client::new(service_fn(send), namespace)
    }
}

impl State {
    /// Uses the token of another viewer, if the present one has left or is not accepted any more.
    fn replace(&mut self) {
        let viewers = self.viewers.iter();
        let mut usable = viewers.filter(|it| !self.refused.contains(&it.id()));
        let is_same = |it: &Token| it.id() == self.current.id();
        if usable.clone().any(is_same) {
            return;
        }
        if let Some(other) = usable.next() {
            self.current = other.clone();
            self.is_first = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::parse(text).unwrap()
    }

    fn current(credentials: &Credentials) -> String {
        credentials.0.lock().current.secret().to_owned()
    }

    #[test]
    fn another_viewer_replaces_one_that_leaves() {
        let (a, b) = (token("a"), token("b"));
        let credentials = Credentials::new(a.clone());
        for token in [&a, &a, &b] {
            credentials.join(token);
        }
        credentials.leave(&a);
        assert_eq!(current(&credentials), "a", "it has another page open");
        assert!(credentials.is_only(&a));
        credentials.leave(&a);
        assert_eq!(current(&credentials), "b");
        assert!(
            !credentials.is_only(&b),
            "answers may be those to the first token"
        );
    }

    #[test]
    fn a_refused_token_is_not_used_again() {
        let (a, b) = (token("a"), token("b"));
        let credentials = Credentials::new(a.clone());
        credentials.join(&a);
        credentials.refuse(a.id());
        assert_eq!(current(&credentials), "a", "there is no other one");
        credentials.join(&b);
        credentials.refuse(a.id());
        assert_eq!(current(&credentials), "b");
        assert!(credentials.is_refused(&a) && !credentials.is_refused(&b));
        credentials.leave(&b);
        assert_eq!(current(&credentials), "b");
    }

    #[test]
    fn a_viewer_who_comes_later_replaces_one_that_has_left() {
        let (a, b) = (token("a"), token("b"));
        let credentials = Credentials::new(a.clone());
        credentials.join(&a);
        credentials.leave(&a);
        credentials.join(&b);
        assert_eq!(current(&credentials), "b");
    }
}
