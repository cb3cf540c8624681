//! URL paths of resources. All names in paths are checked and escaped here.

use baton_apis::url;
use baton_engine::names::{quoted, segment_problem};

/// A name that no URL can contain, so that no server has an object of that name either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata.{field}: Invalid value: {}: {problem}", quoted(value))]
pub struct NameError {
    /// The field of the name.
    pub field: &'static str,
    /// The name itself.
    pub value: String,
    /// The problem with the name.
    pub problem: &'static str,
}

/// Path of a group and version.
///
/// # Errors
/// If the group or version is not valid in an `apiVersion`.
pub fn group_version(group: &str, version: &str) -> Result<String, NameError> {
    let version = segment("apiVersion", version)?;
    if group.is_empty() {
        return Ok(format!("/api/{version}"));
    }
    Ok(format!("/apis/{}/{version}", segment("apiVersion", group)?))
}

/// Path of a group, which lists its versions.
///
/// # Errors
/// If the name is not valid for a group.
pub fn group(name: &str) -> Result<String, NameError> {
    if name.is_empty() {
        return Ok("/api".to_owned());
    }
    Ok(format!("/apis/{}", segment("apiVersion", name)?))
}

/// Path of all objects of a resource. The caller trusts the name of the resource: it is from a
/// server, or one of Baton's.
pub fn everywhere(group_version: &str, plural: &str) -> String {
    format!("{group_version}/{}", url::escape(plural))
}

/// Path of the objects of a resource in a namespace.
///
/// # Errors
/// If the name is not valid for a namespace.
pub fn within(group_version: &str, namespace: &str, plural: &str) -> Result<String, NameError> {
    let (namespace, plural) = (segment("namespace", namespace)?, url::escape(plural));
    Ok(format!("{group_version}/namespaces/{namespace}/{plural}"))
}

/// Path of an object in the collection at a path.
///
/// # Errors
/// If the name is not valid for an object.
pub fn object(collection: &str, name: &str) -> Result<String, NameError> {
    Ok(format!("{collection}/{}", segment("name", name)?))
}

fn segment(field: &'static str, value: &str) -> Result<String, NameError> {
    match segment_problem(value) {
        None => Ok(url::escape(value)),
        Some(problem) => Err(NameError {
            field,
            value: value.to_owned(),
            problem,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_paths() {
        let prefix = group_version("package-operator.run", "v1alpha1").unwrap();
        let slices = within(&prefix, "shop", "objectslices").unwrap();
        let base = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectslices";
        assert_eq!(slices, base);
        for (name, expected) in [
            ("a", "a"),
            ("?watch=1", "%3Fwatch%3D1"),
            ("a b", "a%20b"),
            ("a#b&c", "a%23b%26c"),
            ("ä", "%C3%A4"),
        ] {
            let path = object(&slices, name).unwrap();
            assert_eq!(path, format!("{base}/{expected}"));
            path.parse::<http::Uri>().unwrap();
        }
        for name in ["", ".", "..", "../configmaps/x", "50%", "a\n"] {
            let error = object(&slices, name).unwrap_err();
            assert_eq!((error.field, error.value.as_str()), ("name", name));
        }
        for namespace in ["", "..", "shop/pods"] {
            assert!(within(&prefix, namespace, "pods").is_err(), "{namespace}");
        }
        assert_eq!(group_version("", "v1?x").unwrap(), "/api/v1%3Fx");
        assert!(group_version("a/b", "v1").is_err());
        assert!(group_version("a", "..").is_err());
    }

    #[test]
    fn the_longest_name_fits_into_a_url() {
        let longest = "ä".repeat(8 * 1024);
        let path = object("/api/v1/pods", &longest).unwrap();
        path.parse::<http::Uri>().unwrap();
        let error = object("/api/v1/pods", &format!("{longest}a")).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn an_error_names_field_value_and_cause() {
        let error = object("/api/v1/pods", "a\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"metadata.name: Invalid value: "a\n": may not contain control characters"#
        );
    }
}
