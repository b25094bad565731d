//! Sources that need not be rendered again: nothing has changed since they were found in sync but what objects report.
//!
//! A source was found in sync with certain versions of itself and of its objects. What these say beside status and
//! version is their [content](Object::content), and one number stands for all of them and for the generation of the
//! mapping. Where it is the same, so is what would be rendered, and what that would be compared with.

use std::hash::Hash;
use std::sync::Arc;

use super::pipeline::{Generation, Pipeline};
use crate::multicluster::Object;
use crate::object::metadata;
use crate::plan::{Observed, Source};

/// What one reconcile has read, from its caches and in the answers to its writes.
#[derive(Debug, Default)]
pub struct Seen(Vec<Arc<Object>>);

impl Seen {
    pub fn note(&mut self, object: &Arc<Object>) {
        self.0.push(object.clone());
    }

    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The content of what is observed; `None` where a part of it was not read here, or nothing stands that says where
    /// the source is placed.
    pub fn content(&self, pipeline: &Pipeline, generation: &Generation, observed: &Observed) -> Option<u64> {
        let Source::Present(source) = &observed.source else { return None };
        if !observed.owned.iter().any(|standing| generation.mapping.rule(standing.rule_id()).is_some()) {
            return None;
        }
        let owned = observed.owned.iter().map(|standing| self.of(&standing.object)).collect::<Option<Vec<_>>>()?;
        Some(content(pipeline, generation, observed, self.of(source)?, owned))
    }

    fn of(&self, object: &serde_json::Value) -> Option<u64> {
        let (uid, version) = (metadata(object, "uid"), metadata(object, "resourceVersion"));
        let seen = self.0.iter().find(|seen| seen.uid() == uid && seen.resource_version() == version);
        seen.map(|seen| seen.content())
    }
}

/// The content of a source with its objects, as a generation sees them: a reconcile that began before an edit, and ends
/// behind it, says nothing of what comes after. Which objects they are need not be said: their uids are part of their
/// contents.
pub fn content(pipeline: &Pipeline, generation: &Generation, observed: &Observed, source: u64, owned: Vec<u64>) -> u64 {
    hash(pipeline, generation, (&observed.workspace_path, source), owned)
}

/// The content of a namespace's shared objects, as a generation sees them.
pub fn content_of_shared(pipeline: &Pipeline, generation: &Generation, objects: Vec<u64>) -> u64 {
    hash(pipeline, generation, (), objects)
}

fn hash(pipeline: &Pipeline, generation: &Generation, with: impl Hash, mut objects: Vec<u64>) -> u64 {
    objects.sort_unstable();
    // Who holds a generation keeps its mapping where it is: no later one stands at the same address.
    pipeline.hash((Arc::as_ptr(&generation.mapping), with, objects))
}
