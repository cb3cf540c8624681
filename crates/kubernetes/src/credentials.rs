//! Answers of servers that repeat the credentials of the request, by accident or on purpose. Errors
//! are quoted in conditions and logs, so they are read without these credentials.

use std::{fs, path::PathBuf};

use baton_engine::redact::without_credentials;
use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt as _, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use kube::Config;
use secrecy::{ExposeSecret as _, SecretString};
use tower::BoxError;

use crate::wire::LONGEST_ANSWER;

/// The credentials that a client sends; cheap to clone. Certificates are not among them, because
/// their keys are not sent.
#[derive(Clone, Debug)]
pub struct Sent {
    texts: Vec<SecretString>,
    /// The file with the token, which is replaced before the token expires.
    file: Option<PathBuf>,
}

impl Sent {
    /// The credentials in a configuration. Those of a command are not known.
    pub fn by(config: &Config) -> Self {
        let auth = &config.auth_info;
        let texts = auth.token.iter().chain(&auth.password).cloned().collect();
        let file = auth.token_file.as_ref().map(PathBuf::from);
        Self { texts, file }
    }

    /// A token.
    pub fn token(token: &str) -> Self {
        Self {
            texts: vec![token.to_owned().into()],
            file: None,
        }
    }

    fn read(&self) -> Vec<String> {
        let texts = self
            .texts
            .iter()
            .map(|text| text.expose_secret().to_owned());
        let file = self
            .file
            .as_ref()
            .and_then(|file| fs::read_to_string(file).ok());
        texts
            .chain(file.map(|text| text.trim().to_owned()))
            .collect()
    }

    /// An answer whose body does not contain the credentials, if it is an error. Other answers are
    /// not changed: they contain objects, which are not quoted.
    pub fn removed_from<B>(&self, answer: Response<B>) -> Response<UnsyncBoxBody<Bytes, BoxError>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let is_error = answer.status().is_client_error() || answer.status().is_server_error();
        if !is_error || (self.texts.is_empty() && self.file.is_none()) {
            return answer.map(|body| body.map_err(Into::into).boxed_unsync());
        }
        let sent = self.clone();
        answer.map(|body| {
            let read = async move {
                let whole = Limited::new(body, LONGEST_ANSWER).collect().await?;
                Ok::<_, BoxError>(Frame::data(sent.without(whole.to_bytes())))
            };
            StreamBody::new(stream::once(read)).boxed_unsync()
        })
    }

    fn without(&self, body: Bytes) -> Bytes {
        let text = String::from_utf8_lossy(&body);
        match without_credentials(&text, &self.read()) {
            std::borrow::Cow::Owned(changed) => changed.into(),
            std::borrow::Cow::Borrowed(_) => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    /// The body of an answer, as the caller reads it.
    async fn read(sent: &Sent, status: u16, body: &str) -> String {
        let answer = Response::builder().status(status);
        let answer = answer
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let body = sent.removed_from(answer).into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn errors_do_not_repeat_the_credentials() {
        let file = std::env::temp_dir().join(format!("baton-token-{}", std::process::id()));
        fs::write(&file, "rotated-token\n").unwrap();
        let mut config = Config::new("https://a".parse().unwrap());
        let unchanged = "static-token rotated-token";
        assert_eq!(read(&Sent::by(&config), 500, unchanged).await, unchanged);
        config.auth_info.token = Some("static-token".to_owned().into());
        config.auth_info.password = Some("pass-word".to_owned().into());
        config.auth_info.token_file = Some(file.to_string_lossy().into_owned());
        let sent = Sent::by(&config);
        for (status, body, expected) in [
            (200, unchanged, unchanged),
            (401, unchanged, "[credential] [credential]"),
            (
                500,
                "a pass-word: cGFzcy13b3Jk",
                "a [credential]: [credential]",
            ),
            (404, "not found", "not found"),
            (503, "", ""),
        ] {
            assert_eq!(read(&sent, status, body).await, expected, "{status}");
        }
        assert!(!format!("{sent:?}").contains("static-token"));
        fs::remove_file(file).unwrap();
    }
}
