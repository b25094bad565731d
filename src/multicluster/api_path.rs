//! Where on an API server something stands. The one place that checks names before they enter a URL.

use crate::mapping::Resource;
use crate::object::InvalidName;

/// A path below an endpoint's base, made of checked and encoded parts only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiPath(String);

impl ApiPath {
    /// All objects of a resource, across namespaces: `/apis/<group>/<version>/<plural>`.
    pub fn all(resource: &Resource) -> Result<Self, InvalidName> {
        todo!()
    }

    /// The objects of one namespace; an empty namespace means a cluster-scoped resource.
    pub fn collection(resource: &Resource, namespace: &str) -> Result<Self, InvalidName> {
        todo!()
    }

    /// One object; an empty namespace means a cluster-scoped resource.
    pub fn object(resource: &Resource, namespace: &str, name: &str) -> Result<Self, InvalidName> {
        todo!()
    }

    /// `<object>/status`.
    pub fn status(self) -> Self {
        todo!()
    }

    /// Adds `key=value` to the query, encoded.
    pub fn query(self, key: &str, value: &str) -> Self {
        todo!()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
