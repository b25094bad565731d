//! Objects as they are kept: the JSON text without managedFields, and the few facts the engine asks for all the time.

/// One object, slim: its JSON text and where its identity stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    json: Box<str>,
}

/// JSON that is no Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {0}")]
pub struct NotAnObject(pub String);

impl Object {
    /// From an answer's body: drops `metadata.managedFields` and kubectl's last-applied annotation without building a tree.
    pub fn from_json(json: &[u8]) -> Result<Self, NotAnObject> {
        todo!()
    }
    /// The whole object, without what was dropped.
    pub fn json(&self) -> &str {
        &self.json
    }
    pub fn value(&self) -> serde_json::Value {
        todo!()
    }
    pub fn uid(&self) -> &str {
        todo!()
    }
    pub fn resource_version(&self) -> &str {
        todo!()
    }
    /// Whether `metadata.deletionTimestamp` is set.
    pub fn deleting(&self) -> bool {
        todo!()
    }
    /// The label `sync-engine.dev/owner`.
    pub fn owner(&self) -> Option<&str> {
        todo!()
    }
}
