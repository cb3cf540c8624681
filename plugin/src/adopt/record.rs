//! Decodes the records of tools.

use std::io::{self, Read as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// The largest unpacked size of a record. An object has at most 1.5 MiB, and manifests compress to
/// a tenth.
const LARGEST: u64 = 64 << 20;

/// The first bytes of gzip.
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// The reason that a record cannot be read. No message repeats content of the record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("cannot be unpacked: {0}")]
    Gzip(#[from] io::Error),
    #[error("is, unpacked, larger than {} MiB", LARGEST >> 20)]
    TooBig,
    #[error("is not JSON: {} at line {}, column {}", category(.0), .0.line(), .0.column())]
    Json(serde_json::Error),
    #[error("has no {0}")]
    Missing(&'static str),
}

/// The kind of an error, as serde's own message may contain a value.
fn category(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "wrong syntax",
        serde_json::error::Category::Data => "an unexpected value",
        serde_json::error::Category::Eof => "it ends too early",
    }
}

/// Decodes base64.
pub(crate) fn base64(text: &[u8]) -> Result<Vec<u8>, RecordError> {
    Ok(STANDARD.decode(text.trim_ascii())?)
}

/// Decodes JSON in base64, compressed or not.
pub(crate) fn packed_json(text: &[u8]) -> Result<Value, RecordError> {
    let bytes = base64(text)?;
    if !bytes.starts_with(&GZIP) {
        return json(&bytes);
    }
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(&*bytes).take(LARGEST + 1);
    reader.read_to_end(&mut unpacked)?;
    if reader.limit() == 0 {
        return Err(RecordError::TooBig);
    }
    json(&unpacked)
}

pub(crate) fn json(bytes: &[u8]) -> Result<Value, RecordError> {
    serde_json::from_slice(bytes).map_err(RecordError::Json)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;

    use super::*;

    fn gzip(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        for part in parts {
            packed.write_all(&part).unwrap();
        }
        packed.finish().unwrap()
    }

    #[test]
    fn records_may_be_packed() {
        let text = br#"{"a": 1}"#.to_vec();
        for bytes in [text.clone(), gzip(std::iter::once(text))] {
            let record = STANDARD.encode(bytes) + "\n";
            assert_eq!(packed_json(record.as_bytes()).unwrap(), json!({"a": 1}));
        }
    }

    #[test]
    fn unreadable_records_are_reported_without_their_content() {
        let secret = br#"{"a": "hunter2" "b"}"#.to_vec();
        let mut torn = gzip(std::iter::once(secret.clone()));
        torn.truncate(torn.len() - 9);
        for (bytes, expected) in [
            (b"*".to_vec(), "is not base64"),
            (
                STANDARD.encode(&secret).into_bytes(),
                "is not JSON: wrong syntax at line 1",
            ),
            (STANDARD.encode(torn).into_bytes(), "cannot be unpacked"),
            (
                STANDARD.encode(b"").into_bytes(),
                "is not JSON: it ends too early",
            ),
        ] {
            let error = packed_json(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_record_that_unpacks_above_the_limit_is_refused() {
        let zeros = std::iter::repeat_n(vec![0; 1 << 20], (LARGEST >> 20) as usize + 1);
        let record = STANDARD.encode(gzip(zeros));
        assert!(record.len() < 1 << 20, "it fits into a Secret");
        let error = packed_json(record.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "is, unpacked, larger than 64 MiB");
    }
}
