//! Where on an API server something stands. The one place that checks names before they enter a URL.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use sync_engine_mapping::Resource;
use sync_engine_mapping::object::{InvalidName, is_dns_label, is_dns_subdomain};

/// Everything but the unreserved characters of RFC 3986 and `:`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Bytes that most paths have room in.
const TYPICAL: usize = 128;

/// A path below an endpoint's base, made of checked and encoded parts only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiPath {
    text: String,
    has_query: bool,
}

impl ApiPath {
    /// What a group version serves: `/apis/<group>/<version>`, or `/api/<version>` for the core group.
    pub fn group_version(group: &str, version: &str) -> Result<Self, InvalidName> {
        check(version, is_dns_label(version))?;
        let mut path = Self { text: String::with_capacity(TYPICAL), has_query: false };
        if group.is_empty() {
            path.push("api");
        } else {
            check(group, is_dns_subdomain(group))?;
            path.push("apis");
            path.push(group);
        }
        path.push(version);
        Ok(path)
    }

    /// What every API server answers at once, if it answers at all.
    pub fn version() -> Self {
        Self { text: "/version".to_owned(), has_query: false }
    }

    /// The index of the OpenAPI v3 documents, with a hash of each.
    pub fn open_api_index() -> Self {
        Self { text: "/openapi/v3".to_owned(), has_query: false }
    }

    /// The OpenAPI v3 document of a resource's group and version: `/openapi/v3/apis/<group>/<version>`.
    pub fn open_api(resource: &Resource) -> Result<Self, InvalidName> {
        let served = Self::group_version(&resource.group, &resource.version)?;
        Ok(Self { text: format!("/openapi/v3{}", served.text), has_query: false })
    }

    /// All objects of a resource, across namespaces: `/apis/<group>/<version>/<plural>`.
    pub fn all(resource: &Resource) -> Result<Self, InvalidName> {
        Self::collection(resource, "")
    }

    /// The objects of one namespace; an empty namespace means a cluster-scoped resource.
    pub fn collection(resource: &Resource, namespace: &str) -> Result<Self, InvalidName> {
        check(namespace, namespace.is_empty() || is_dns_label(namespace))?;
        check(&resource.plural, is_dns_subdomain(&resource.plural))?;
        let mut path = Self::group_version(&resource.group, &resource.version)?;
        if !namespace.is_empty() {
            path.push("namespaces");
            path.push(namespace);
        }
        path.push(&resource.plural);
        Ok(path)
    }

    /// One object; an empty namespace means a cluster-scoped resource.
    pub fn object(resource: &Resource, namespace: &str, name: &str) -> Result<Self, InvalidName> {
        let mut path = Self::collection(resource, namespace)?;
        // RBAC alone takes names such as `system:node`: what is a path segment of its own.
        if resource.group == "rbac.authorization.k8s.io" {
            check(name, is_path_segment(name))?;
            path.push("");
            path.push_encoded(name);
        } else {
            check(name, is_dns_subdomain(name))?;
            path.push(name);
        }
        Ok(path)
    }

    /// `<object>/status`.
    pub fn status(mut self) -> Self {
        self.push("status");
        self
    }

    /// Adds `key=value` to the query; the value is encoded.
    pub fn query(mut self, key: &str, value: &str) -> Self {
        // Room for what is encoded as well.
        self.text.reserve(2 * (key.len() + value.len()));
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        self.push_encoded(value);
        self
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn push(&mut self, segment: &str) {
        debug_assert!(!self.has_query, "the path ends where the query begins");
        self.text.push('/');
        self.text.push_str(segment);
    }

    fn push_encoded(&mut self, text: &str) {
        self.text.extend(utf8_percent_encode(text, ENCODED));
    }
}

impl fmt::Display for ApiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn check(name: &str, valid: bool) -> Result<(), InvalidName> {
    if valid { Ok(()) } else { Err(InvalidName(name.to_owned())) }
}

/// What Kubernetes allows as one segment of a path (`path.IsValidPathSegmentName` in apimachinery), no longer than a name.
fn is_path_segment(name: &str) -> bool {
    (1..=253).contains(&name.len()) && name != "." && name != ".." && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_core_and_named_groups() {
        let secrets = Resource::new("", "v1", "secrets");
        let databases = Resource::new("example.com", "v1", "databases");
        assert_eq!(ApiPath::all(&databases).unwrap().as_str(), "/apis/example.com/v1/databases");
        assert_eq!(ApiPath::collection(&secrets, "a").unwrap().as_str(), "/api/v1/namespaces/a/secrets");
        assert_eq!(ApiPath::collection(&databases, "").unwrap().as_str(), "/apis/example.com/v1/databases");
        assert_eq!(
            ApiPath::object(&databases, "a", "b.c")
                .unwrap()
                .status()
                .query("fieldManager", "sync-engine/main/m")
                .as_str(),
            "/apis/example.com/v1/namespaces/a/databases/b.c/status?fieldManager=sync-engine%2Fmain%2Fm"
        );
    }

    #[test]
    fn names_that_would_leave_their_place_are_refused() {
        let secrets = Resource::new("", "v1", "secrets");
        for name in ["x/status", "x?", "..", ".", "", "x%2f", "X", "a b", "x#", &"x".repeat(254)] {
            assert!(ApiPath::object(&secrets, "a", name).is_err(), "{name}");
        }
        for namespace in ["tenant-a?", "a/b", "a.b", "..", &"x".repeat(64)] {
            assert!(ApiPath::object(&secrets, namespace, "x").is_err(), "{namespace}");
        }
        for bad in [
            Resource::new("a/b", "v1", "x"),
            Resource::new("a", "v1/x", "x"),
            Resource::new("a", "v1", "x/status"),
            Resource::new("a", "", "x"),
        ] {
            assert!(ApiPath::all(&bad).is_err(), "{bad}");
        }
        let refused = ApiPath::object(&secrets, "default?", "a").unwrap_err();
        insta::assert_snapshot!(refused, @"`default?` is no DNS-1123 subdomain name (lower case letters, digits, `-` and `.`, at most 253)");
    }

    #[test]
    fn rbac_names_hold_colons_and_are_encoded() {
        let roles = Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
        let path = |name| ApiPath::object(&roles, "", name).map(|path| path.as_str().to_owned());
        assert_eq!(
            path("system:node A?").unwrap(),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%20A%3F"
        );
        assert!(path("..").is_err() && path("a/b").is_err() && path("a%2f").is_err() && path("").is_err());
    }
}
