//! The ways into a dashboard.

use std::sync::Arc;

use axum::{
    extract::Query,
    response::{Html, IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header::SET_COOKIE};
use serde::Deserialize;

use crate::{
    failure::Failure,
    guard::{Key, cookie, is_of_other_page, is_own_host},
    layout::entrance,
    login::{Login, Place},
    viewer::Viewer,
};

/// The way into a dashboard.
pub(crate) enum Entry {
    /// On this machine, for its user.
    Own(Own),
    /// In a cluster, for anybody with a token.
    Login(Box<Login>),
}

/// A dashboard on this machine. Any process and any web page can send requests to one of its ports.
pub(crate) struct Own {
    pub(crate) key: Key,
    pub(crate) port: u16,
    /// The address of the first page.
    pub(crate) start: String,
    pub(crate) viewer: Arc<Viewer>,
}

/// The decision about a request.
pub(crate) enum Entered {
    /// The viewer is let in.
    As {
        viewer: Arc<Viewer>,
        /// True if the browser keeps the login, so that it can end it.
        can_leave: bool,
    },
    /// The browser has to log in, for a reason if there is one.
    Login(Option<Failure>),
    /// The API server cannot be asked if it accepts the token.
    Failed(Failure),
    /// The response to a browser that is not let in. It has nothing of the cluster.
    Refused(Box<Response>),
}

/// The key in the first address.
#[derive(Deserialize)]
struct FirstVisit {
    key: Option<String>,
}

impl Entry {
    /// Decides about a request.
    pub(crate) async fn enter(&self, headers: &HeaderMap, uri: &Uri) -> Entered {
        if is_of_other_page(headers) {
            return refused(StatusCode::FORBIDDEN, "another page has sent this request");
        }
        match self {
            Self::Own(own) => own.enter(headers, uri),
            Self::Login(login) => login.enter(headers).await,
        }
    }
}

impl Own {
    /// Lets in browsers that have the key, under the names of this machine.
    fn enter(&self, headers: &HeaderMap, uri: &Uri) -> Entered {
        if !is_own_host(headers, self.port) {
            return refused(StatusCode::FORBIDDEN, "this dashboard is at localhost only");
        }
        // Cookies do not distinguish ports.
        let name = format!("baton-{}", self.port);
        let visit = Query::<FirstVisit>::try_from_uri(uri);
        let given = visit.ok().and_then(|Query(visit)| visit.key);
        if given.is_some_and(|given| self.key.is(&given)) {
            let cookie = format!(
                "{name}={}; Path=/; HttpOnly; SameSite=Strict",
                self.key.as_str()
            );
            // After a redirect, browsers would not send the cookie if another page led here.
            let mut response = Html(entrance(&self.start).into_string()).into_response();
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            return Entered::Refused(Box::new(response));
        }
        if cookie(headers, &name).is_some_and(|value| self.key.is(value)) {
            return Entered::As {
                viewer: Arc::clone(&self.viewer),
                can_leave: false,
            };
        }
        let message = "open the address that `kubectl baton dashboard` has printed";
        refused(StatusCode::UNAUTHORIZED, message)
    }
}

impl Login {
    /// Lets in browsers that have a token which the API server accepts.
    pub(crate) async fn enter(&self, headers: &HeaderMap) -> Entered {
        let Some((place, token)) = self.token(headers) else {
            return Entered::Login(None);
        };
        let viewer = match token {
            Ok(token) => self.viewer(token).await,
            Err(error) => Err(Failure::new(StatusCode::UNAUTHORIZED, error.to_string())),
        };
        match viewer {
            Ok(viewer) => Entered::As {
                viewer,
                can_leave: place == Place::Cookie,
            },
            Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
                Entered::Login(Some(failure))
            }
            Err(failure) => Entered::Failed(failure),
        }
    }
}

fn refused(status: StatusCode, message: &'static str) -> Entered {
    Entered::Refused(Box::new((status, message).into_response()))
}
