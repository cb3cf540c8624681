//! Reads the file of an index piece by piece, so that only what is kept takes memory.

use std::{cell::Cell, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{Entry, chart_bytes};

/// The memory that is left for the charts of an index.
#[derive(Debug)]
pub(super) struct Memory(Cell<Option<usize>>);

impl Memory {
    /// So many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cell::new(Some(bytes)))
    }

    /// True if more bytes were needed than there are.
    pub(super) fn is_exhausted(&self) -> bool {
        self.0.get().is_none()
    }

    fn take<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        self.0
            .set(self.0.get().and_then(|left| left.checked_sub(bytes)));
        if self.is_exhausted() {
            return Err(E::custom("too large"));
        }
        Ok(())
    }
}

/// The parts of the file that are read. Other fields are ignored.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) api_version: Option<String>,
    pub(super) entries: BTreeMap<String, Vec<Entry>>,
}

/// Reads a file.
#[derive(Debug)]
pub(super) struct FileSeed<'m>(pub(super) &'m Memory);

impl<'de> DeserializeSeed<'de> for FileSeed<'_> {
    type Value = File;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<File, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FileSeed<'_> {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<File, A::Error> {
        let mut file = File::default();
        while let Some(field) = fields.next_key::<Field>()? {
            match field {
                Field::ApiVersion => file.api_version = fields.next_value()?,
                Field::Entries => file.entries = fields.next_value_seed(ChartsSeed(self.0))?,
                Field::Other => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(file)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Entries,
    #[serde(other)]
    Other,
}

/// Reads the charts with their versions; a null counts as none.
struct ChartsSeed<'m>(&'m Memory);

impl<'de> DeserializeSeed<'de> for ChartsSeed<'_> {
    type Value = BTreeMap<String, Vec<Entry>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for ChartsSeed<'_> {
    type Value = BTreeMap<String, Vec<Entry>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("charts by name")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut charts = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            self.0.take(chart_bytes(&name))?;
            charts.insert(name, map.next_value_seed(VersionsSeed(self.0))?);
        }
        Ok(charts)
    }
}

/// Reads the versions of a chart that can be fetched; a null counts as none.
struct VersionsSeed<'m>(&'m Memory);

impl<'de> DeserializeSeed<'de> for VersionsSeed<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for VersionsSeed<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of versions")
    }

    fn visit_none<E>(self) -> Result<Vec<Entry>, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E>(self) -> Result<Vec<Entry>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Entry>, A::Error> {
        let mut versions = Vec::new();
        while let Some(entry) = list.next_element::<Option<FileEntry>>()? {
            if let Some(entry) = entry.and_then(FileEntry::entry) {
                self.0.take(entry.bytes())?;
                versions.push(entry);
            }
        }
        Ok(versions)
    }
}

#[derive(Deserialize)]
struct FileEntry {
    version: Option<String>,
    urls: Option<FirstUrl>,
    digest: Option<String>,
}

impl FileEntry {
    fn entry(self) -> Option<Entry> {
        let digest = self.digest.unwrap_or_default();
        let digest = digest.trim_start_matches("sha256:").to_ascii_lowercase();
        Some(Entry {
            version: self.version?,
            url: self.urls?.0?,
            digest: Some(digest).filter(|digest| !digest.is_empty()),
        })
    }
}

/// The first of several URLs.
struct FirstUrl(Option<String>);

impl<'de> Deserialize<'de> for FirstUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = FirstUrl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of URLs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstUrl, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstUrl(first))
            }
        }
        deserializer.deserialize_seq(List)
    }
}
