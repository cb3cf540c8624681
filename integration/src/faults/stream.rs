//! Answers that end before the server has finished them.

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{Stream, StreamExt as _, unfold};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use hyper::body::{Body, Frame};
use regex::Regex;
use serde_json::json;
use tokio::sync::broadcast;

use super::Error;
use super::status::Status;

/// The way in which a watch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// With an event of the type `ERROR` that has this status.
    Error(Status),
    /// Regularly, as by its timeout.
    Close,
    /// With its connection, in the middle of the answer.
    HangUp,
}

/// Forwards at most `after` bytes of a body. A longer body ends with an error, as if the connection
/// were lost.
pub(super) fn cut<B>(body: B, after: u64) -> UnsyncBoxBody<Bytes, Error>
where
    B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
{
    let left = usize::try_from(after).unwrap_or(usize::MAX);
    let frames = unfold(Some((BodyDataStream::new(body), left)), |state| async {
        let (mut body, left) = state?;
        if left == 0 {
            return Some((Err("cut".into()), None));
        }
        match body.next().await? {
            Ok(mut data) => {
                data.truncate(left);
                let left = left - data.len();
                Some((Ok(Frame::data(data)), Some((body, left))))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    boxed(frames)
}

/// Forwards a watch until `ends` has a request for its path, or until the number of events in `end`
/// is reached.
pub(super) fn watch<B>(
    body: B,
    path: String,
    end: Option<(usize, WatchEnd)>,
    ends: broadcast::Receiver<(String, WatchEnd)>,
) -> UnsyncBoxBody<Bytes, Error>
where
    B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
{
    let watch = Watch {
        body: BodyDataStream::new(body),
        path,
        end,
        ends,
        rest: BytesMut::new(),
    };
    boxed(unfold(Some(watch), |watch| async { watch?.next().await }))
}

fn boxed<S>(frames: S) -> UnsyncBoxBody<Bytes, Error>
where
    S: Stream<Item = Result<Frame<Bytes>, Error>> + Send + 'static,
{
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

/// A watch on its way to the client: one event per line.
struct Watch<B> {
    body: BodyDataStream<B>,
    path: String,
    /// Number of events that are still forwarded, and the way in which the watch ends after them.
    end: Option<(usize, WatchEnd)>,
    ends: broadcast::Receiver<(String, WatchEnd)>,
    /// The beginning of an event that is not received completely yet.
    rest: BytesMut,
}

/// The next frame of a stream, and the rest of the stream.
type Step<W> = Option<(Result<Frame<Bytes>, Error>, Option<W>)>;

impl<B> Watch<B>
where
    B: Body<Data = Bytes, Error = Error> + Unpin,
{
    async fn next(mut self) -> Step<Self> {
        loop {
            if let Some((0, how)) = self.end.take_if(|(left, _)| *left == 0) {
                return finish(&how);
            }
            if let Some(event) = self.event() {
                if let Some((left, _)) = &mut self.end {
                    *left -= 1;
                }
                return Some((Ok(Frame::data(event)), Some(self)));
            }
            tokio::select! {
                biased;
                end = self.ends.recv() => if let Ok((path, how)) = end
                    && Regex::new(&path).is_ok_and(|path| path.is_match(&self.path))
                {
                    self.end = Some((0, how));
                },
                data = self.body.next() => match data? {
                    Ok(data) => self.rest.put(data),
                    Err(error) => return Some((Err(error), None)),
                },
            }
        }
    }

    /// Takes a complete event from the buffer.
    fn event(&mut self) -> Option<Bytes> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        Some(self.rest.split_to(end + 1).freeze())
    }
}

/// Returns the last frame of a watch.
fn finish<W>(how: &WatchEnd) -> Step<W> {
    match how {
        WatchEnd::Error(status) => {
            let event = json!({ "type": "ERROR", "object": status.object() });
            Some((Ok(Frame::data(format!("{event}\n").into())), None))
        }
        WatchEnd::Close => None,
        WatchEnd::HangUp => Some((Err("hung up".into()), None)),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    /// A body of these pieces that stays open afterwards.
    fn endless(
        pieces: &'static [&'static str],
    ) -> impl Body<Data = Bytes, Error = Error> + Send + Unpin {
        let pieces = futures::stream::iter(pieces);
        let frames = pieces.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
        StreamBody::new(frames.chain(futures::stream::pending()))
    }

    /// Reads all content, and returns true with it if the body ends regularly.
    async fn read(body: UnsyncBoxBody<Bytes, Error>) -> (String, bool) {
        let mut body = BodyDataStream::new(body);
        let mut text = String::new();
        while let Some(data) = body.next().await {
            match data {
                Ok(data) => text.push_str(str::from_utf8(&data).unwrap()),
                Err(_) => return (text, false),
            }
        }
        (text, true)
    }

    #[tokio::test]
    async fn a_body_is_cut() {
        let body = |text: &'static str| {
            Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {})
        };
        assert_eq!(read(cut(body("hello"), 2)).await, ("he".to_owned(), false));
        assert_eq!(read(cut(body("hello"), 0)).await, (String::new(), false));
        assert_eq!(
            read(cut(body("hello"), 9)).await,
            ("hello".to_owned(), true)
        );
    }

    #[tokio::test]
    async fn a_watch_ends_between_events() {
        let pieces = &["{1}\n{2", "}\n{3}\n", "{4"];
        let status = Status::gone();
        let event = json!({ "type": "ERROR", "object": status.object() });
        for (how, expected) in [
            (
                WatchEnd::Error(status),
                (format!("{{1}}\n{{2}}\n{event}\n"), true),
            ),
            (WatchEnd::Close, ("{1}\n{2}\n".to_owned(), true)),
            (WatchEnd::HangUp, ("{1}\n{2}\n".to_owned(), false)),
        ] {
            let ends = broadcast::Sender::new(1);
            let end = Some((2, how.clone()));
            let body = watch(endless(pieces), "/a".into(), end, ends.subscribe());
            assert_eq!(read(body).await, expected, "{how:?}");
        }
    }

    #[tokio::test]
    async fn an_open_watch_ends_on_request() {
        let ends = broadcast::Sender::new(4);
        let body = watch(endless(&["{1}\n{2"]), "/a".into(), None, ends.subscribe());
        let mut body = BodyDataStream::new(body);
        assert_eq!(body.next().await.unwrap().unwrap(), "{1}\n");
        ends.send(("^/b$".to_owned(), WatchEnd::HangUp)).unwrap();
        ends.send(("^/a$".to_owned(), WatchEnd::Close)).unwrap();
        assert!(body.next().await.is_none());
    }
}
