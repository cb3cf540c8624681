//! The login page and its forms.

use axum::{
    Form,
    extract::{Query, State},
    response::{IntoResponse as _, Redirect, Response},
};
use baton_apis::url::escape;
use http::{HeaderMap, StatusCode, header::SET_COOKIE};
use serde::Deserialize;

use super::App;
use crate::{
    entry::{Entered, Entry},
    failure::Failure,
    login::Login,
    token::Token,
};

/// The address of the login page.
#[derive(Deserialize)]
pub(super) struct LoginPage {
    next: Option<String>,
    /// Present after a login.
    done: Option<String>,
}

/// The login page. After a login, the page that was wanted.
pub(super) async fn login_page(
    State(this): App,
    headers: HeaderMap,
    Query(asked): Query<LoginPage>,
) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let next = login.next(asked.next.as_deref());
    match login.enter(&headers).await {
        Entered::As { .. } => Redirect::to(&next).into_response(),
        Entered::Login(None) if asked.done.is_some() => {
            let message = "the browser has not kept the login: it keeps one over https and on localhost only, \
                           and with cookies";
            let failure = Failure::new(StatusCode::UNAUTHORIZED, message);
            this.login(&next, Some(&failure))
        }
        Entered::Login(why) => this.login(&next, why.as_ref()),
        Entered::Failed(failure) => this.login(&next, Some(&failure)),
        Entered::Refused(response) => *response,
    }
}

/// The form of the login page.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
    next: Option<String>,
}

pub(super) async fn log_in(State(this): App, Form(form): Form<LoginForm>) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let next = login.next(form.next.as_deref());
    let token = Token::parse(&form.token);
    let token = token.map_err(|error| Failure::new(StatusCode::BAD_REQUEST, error.to_string()));
    let entered = match token {
        Ok(token) => login.viewer(token.clone()).await.map(|_| token),
        Err(failure) => Err(failure),
    };
    let token = match entered {
        Ok(token) => token,
        Err(failure) => return this.login(&next, Some(&failure)),
    };
    let done = format!("{}/login?done=1&next={}", this.frame.base, escape(&next));
    with_cookies(Redirect::to(&done).into_response(), login, Some(&token))
}

pub(super) async fn log_out(State(this): App) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let page = format!("{}/login", this.frame.base);
    with_cookies(Redirect::to(&page).into_response(), login, None)
}

fn with_cookies(mut response: Response, login: &Login, token: Option<&Token>) -> Response {
    for cookie in login.cookies(token) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
