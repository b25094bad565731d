//! What one reconcile has rendered already. A reconcile plans several times; between two plans mostly nothing changes
//! that a template reads. A memo changes no result, only how often it is computed.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::render::Wanted;
use crate::mapping::expression::{Outcome, Scope, SourceView};
use crate::mapping::placement::Place;
use crate::mapping::template::Unrendered;

/// Finalizers and annotations of the engine's own begin so, or with `target.` before it.
const OWN: &str = "sync-engine.dev/";

/// Objects as they were rendered, in the order of the mapping's rules.
pub type Rendered = Arc<Vec<Result<Wanted, Unrendered>>>;

#[derive(Debug, Clone, Default)]
pub struct Memo(RefCell<State>);

#[derive(Debug, Clone, Default)]
struct State {
    /// The source as it is, and as templates read it.
    readable: Option<(Arc<Value>, Arc<SourceView>)>,
    /// The roots that need no placement, and where the rule places the source, both by what is read of the source.
    base: Option<(Arc<SourceView>, Scope)>,
    place: Option<(Arc<SourceView>, Result<Place, Unrendered>)>,
    rendered: Option<(Inputs, Vars, Rendered)>,
}

/// What came of each variable, in their order.
pub type Vars = Vec<(String, Outcome)>;

/// All that can change a rendering within one reconcile.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub source: Arc<SourceView>,
    pub place: Place,
    /// The objects that the templates read.
    pub objects: Vec<Option<Arc<Value>>>,
}

impl Memo {
    /// The source as templates read it: see [`view`].
    pub fn readable(&self, source: &Arc<Value>, body: &Arc<Value>) -> Arc<SourceView> {
        let mut state = self.0.borrow_mut();
        if let Some((of, readable)) = &state.readable
            && Arc::ptr_eq(of, source)
        {
            return readable.clone();
        }
        // Our own writes change nothing of it: what was made of it once stays valid.
        let former = state.readable.take().map(|(_, former)| former).filter(|former| reads_as(source, body, former));
        let readable = former.unwrap_or_else(|| Arc::new(view(source, body)));
        state.readable = Some((source.clone(), readable.clone()));
        readable
    }

    /// The roots that need no placement, for a source as templates read it.
    pub fn base(&self, readable: &Arc<SourceView>, make: impl FnOnce() -> Scope) -> Scope {
        let known = self.0.borrow().base.as_ref().filter(|(of, _)| Arc::ptr_eq(of, readable)).map(|(_, s)| s.clone());
        known.unwrap_or_else(|| {
            let scope = make();
            self.0.borrow_mut().base = Some((readable.clone(), scope.clone()));
            scope
        })
    }

    /// Where the rule places a source, as templates read it.
    pub fn place(
        &self,
        readable: &Arc<SourceView>,
        make: impl FnOnce() -> Result<Place, Unrendered>,
    ) -> Result<Place, Unrendered> {
        let known = self.0.borrow().place.as_ref().filter(|(of, _)| Arc::ptr_eq(of, readable)).map(|(_, p)| p.clone());
        known.unwrap_or_else(|| {
            let place = make();
            self.0.borrow_mut().place = Some((readable.clone(), place.clone()));
            place
        })
    }

    /// Whether anything was rendered: a source that is out of its mapping's filter, or leaves it, is not.
    pub fn has_rendering(&self) -> bool {
        self.0.borrow().rendered.is_some()
    }

    /// What these inputs were rendered to before.
    pub fn rendered(&self, inputs: &Inputs) -> Option<(Vars, Rendered)> {
        let state = self.0.borrow();
        let (of, vars, rendered) = state.rendered.as_ref()?;
        of.is(inputs).then(|| (vars.clone(), rendered.clone()))
    }

    pub fn remember(&self, inputs: Inputs, vars: Vars, rendered: &Rendered) {
        self.0.borrow_mut().rendered = Some((inputs, vars, rendered.clone()));
    }
}

impl Inputs {
    fn is(&self, other: &Self) -> bool {
        let same = |a: &Option<Arc<Value>>, b: &Option<Arc<Value>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        self.place == other.place
            && self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(|(a, b)| same(a, b))
            && Arc::ptr_eq(&self.source, &other.source)
    }
}

/// Whether a source reads like that: [`view`] without the copy.
fn reads_as(source: &Value, body: &Arc<Value>, former: &SourceView) -> bool {
    let same_metadata = match (source.get("metadata"), former.metadata()) {
        (Some(Value::Object(metadata)), Some(Value::Object(former))) => {
            let parts: Vec<_> = readable_metadata(metadata).collect();
            let same = |(field, part): &(&str, Part<'_>)| former.get(*field).is_some_and(|former| part.is(former));
            parts.len() == former.len() && parts.iter().all(same)
        }
        (metadata, former) => metadata == former,
    };
    same_metadata && former.reads_rest_as(body)
}

/// A source as templates read it: in a namespace, and without what the engine's own writes change there, which must not
/// feed back into what it writes. `body` says what the source says beside metadata and status.
pub fn view(source: &Value, body: &Arc<Value>) -> SourceView {
    let metadata = source.get("metadata").map(|metadata| match metadata {
        Value::Object(metadata) => {
            readable_metadata(metadata).map(|(field, part)| (field.to_owned(), part.to_value())).collect()
        }
        other => other.clone(),
    });
    SourceView::new(metadata, body.clone())
}

/// A field of the metadata, or what of it is not the engine's own.
enum Part<'m> {
    Whole(&'m Value),
    Items(Vec<&'m Value>),
    Entries(Vec<(&'m String, &'m Value)>),
}

impl Part<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Whole(Value::Array(items)) => items.is_empty(),
            Self::Whole(Value::Object(entries)) => entries.is_empty(),
            Self::Whole(_) => false,
            Self::Items(items) => items.is_empty(),
            Self::Entries(entries) => entries.is_empty(),
        }
    }

    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Whole(whole), value) => *whole == value,
            (Self::Items(items), Value::Array(all)) => all.iter().eq(items.iter().copied()),
            (Self::Entries(entries), Value::Object(all)) => all.iter().eq(entries.iter().copied()),
            _ => false,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Whole(value) => (*value).clone(),
            Self::Items(items) => items.iter().copied().cloned().collect(),
            Self::Entries(entries) => entries.iter().map(|(key, value)| ((*key).clone(), (*value).clone())).collect(),
        }
    }
}

/// What comes to nothing is not there; a cluster-scoped source counts as one in a namespace called `cluster`.
fn readable_metadata(metadata: &Map<String, Value>) -> impl Iterator<Item = (&str, Part<'_>)> {
    static NAMESPACE: LazyLock<Value> = LazyLock::new(|| json!("cluster"));
    let parts = metadata.iter().map(|(field, value)| {
        let part = match (field.as_str(), value) {
            ("resourceVersion" | "managedFields", _) => Part::Items(Vec::new()),
            ("finalizers", Value::Array(all)) => {
                Part::Items(all.iter().filter(|one| !one.as_str().is_some_and(is_own)).collect())
            }
            ("annotations", Value::Object(all)) => Part::Entries(all.iter().filter(|(key, _)| !is_own(key)).collect()),
            (_, value) => Part::Whole(value),
        };
        (field.as_str(), part)
    });
    let namespace = (!metadata.contains_key("namespace")).then(|| ("namespace", Part::Whole(&NAMESPACE)));
    parts.chain(namespace).filter(|(_, part)| !part.is_empty())
}

/// Whether a finalizer or an annotation is the engine's own.
fn is_own(key: &str) -> bool {
    key.strip_prefix("target.").unwrap_or(key).starts_with(OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(source: &Arc<Value>) -> Value {
        view(source, source).whole().clone()
    }

    #[test]
    fn what_the_engine_writes_to_a_source_is_not_read_back() {
        let before = Arc::new(json!({"metadata": {"name": "a", "annotations": {"a": "1"}}, "spec": {"b": 1}}));
        let after = Arc::new(json!({
            "metadata": {
                "name": "a", "resourceVersion": "7",
                "finalizers": ["sync-engine.dev/main.m"],
                "annotations": {"a": "1", "target.sync-engine.dev/main.m": "t"},
            },
            "spec": {"b": 1}, "status": {"phase": "Pending"},
        }));
        assert_eq!(readable(&before), readable(&after));
    }

    #[test]
    fn others_finalizers_are_read() {
        let source =
            Arc::new(json!({"metadata": {"namespace": "n", "finalizers": ["a.dev/x", "sync-engine.dev/main.m"]}}));
        assert_eq!(readable(&source), json!({"metadata": {"namespace": "n", "finalizers": ["a.dev/x"]}}));
    }

    #[test]
    fn a_source_reads_as_another_where_their_copies_are_the_same() {
        let sources = [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a", "namespace": "cluster"}, "status": {}}),
            json!({"metadata": {"name": "a", "namespace": "n"}}),
            json!({"metadata": {"name": "a", "finalizers": ["sync-engine.dev/main.m"], "resourceVersion": "7"}}),
            json!({"metadata": {"name": "a", "finalizers": ["a.dev/x"]}}),
            json!({"metadata": {"name": "a", "finalizers": ["a.dev/x", "a.dev/y"]}}),
            json!({"metadata": {"name": "a", "annotations": {}, "labels": {}}}),
            json!({"metadata": {"name": "a", "annotations": {"a": "1", "sync-engine.dev/x": "1"}}}),
            json!({"metadata": {"name": "a", "annotations": {"a": "2"}}}),
            json!({"metadata": {"name": "a"}, "spec": {"b": 1}}),
        ]
        .map(Arc::new);
        for (a, b) in sources.iter().flat_map(|a| sources.iter().map(move |b| (a, b))) {
            assert_eq!(reads_as(a, a, &view(b, b)), readable(a) == readable(b), "{a} {b}");
        }
    }
}
