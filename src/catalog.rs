//! stub
use crate::mapping::diagnostic::Diagnostic;
use crate::mapping::{ClusterProvider, Mapping};
use std::collections::BTreeMap;
use std::sync::Arc;
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
    providers: Vec<ClusterProvider>,
}
#[derive(Debug, Clone)]
pub struct Entry {
    pub mapping: Arc<Mapping>,
    pub generation: u64,
    pub standing: Standing,
    pub file: Option<String>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Running,
    KeptOnError,
    Retained,
}
pub struct Update {
    pub changes: Vec<String>,
    pub diagnostics: Vec<Diagnostic>,
}
impl Entry {
    pub fn name(&self) -> &str {
        &self.mapping.name
    }
}
impl Catalog {
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
    pub fn providers(&self) -> impl Iterator<Item = &ClusterProvider> {
        self.providers.iter()
    }
    pub fn without(&self, name: &str) -> Self {
        let mut c = self.clone();
        c.entries.remove(name);
        c
    }
    pub fn update(&self, _: &BTreeMap<String, Vec<u8>>, _: &BTreeMap<String, String>) -> (Catalog, Update) {
        (self.clone(), Update { changes: vec![], diagnostics: vec![] })
    }
}
