//! What one reconcile has rendered already. A reconcile plans several times; between two plans mostly nothing changes
//! that a template reads. A memo changes no result, only how often it is computed.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::render::Wanted;
use crate::mapping::expression::{Outcome, Scope};
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
    readable: Option<(Arc<Value>, Arc<Value>)>,
    /// The roots that need no placement, and where the rule places the source, both by what is read of the source.
    base: Option<(Arc<Value>, Scope)>,
    place: Option<(Arc<Value>, Result<Place, Unrendered>)>,
    rendered: Option<(Inputs, Vars, Rendered)>,
}

/// What came of each variable, in their order.
pub type Vars = Vec<(String, Outcome)>;

/// All that can change a rendering within one reconcile.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub source: Arc<Value>,
    pub place: Place,
    /// The objects that the templates read.
    pub objects: Vec<Option<Arc<Value>>>,
}

impl Memo {
    /// The source as templates read it: in a namespace, and without what the engine's own writes change there, which
    /// must not feed back into what it writes.
    pub fn readable(&self, source: &Arc<Value>) -> Arc<Value> {
        let mut state = self.0.borrow_mut();
        if let Some((of, readable)) = &state.readable
            && Arc::ptr_eq(of, source)
        {
            return readable.clone();
        }
        // Our own writes change nothing of it: what was copied once is kept.
        let former = state.readable.take().map(|(_, former)| former).filter(|former| reads_as(source, former));
        let readable = former.unwrap_or_else(|| Arc::new(readable(source)));
        state.readable = Some((source.clone(), readable.clone()));
        readable
    }

    /// The roots that need no placement, for a source as templates read it.
    pub fn base(&self, readable: &Arc<Value>, make: impl FnOnce() -> Scope) -> Scope {
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
        readable: &Arc<Value>,
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
            && (Arc::ptr_eq(&self.source, &other.source) || self.source == other.source)
    }
}

/// Whether a source reads like that: [`readable`] without the copy.
fn reads_as(source: &Value, readable: &Value) -> bool {
    let (Some(source), Some(readable)) = (source.as_object(), readable.as_object()) else { return false };
    let fields = source.iter().filter(|(field, _)| *field != "status");
    fields.clone().count() == readable.len()
        && fields.into_iter().all(|(field, value)| match (value, readable.get(field)) {
            (Value::Object(metadata), Some(Value::Object(former))) if field == "metadata" => {
                readable_metadata(metadata) == *former
            }
            (value, former) => former == Some(value),
        })
}

fn readable(source: &Value) -> Value {
    let fields = source.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
    let copied = fields.map(|(field, value)| match value {
        Value::Object(metadata) if field == "metadata" => (field.clone(), Value::Object(readable_metadata(metadata))),
        value => (field.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}

fn readable_metadata(metadata: &Map<String, Value>) -> Map<String, Value> {
    let own = |key: &str| key.strip_prefix("target.").unwrap_or(key).starts_with(OWN);
    let mut copied = Map::new();
    for (field, value) in metadata {
        let value = match (field.as_str(), value) {
            ("resourceVersion" | "managedFields", _) => continue,
            ("finalizers", Value::Array(all)) => {
                all.iter().filter(|one| !one.as_str().is_some_and(own)).cloned().collect()
            }
            ("annotations", Value::Object(all)) => {
                let kept = all.iter().filter(|(key, _)| !own(key));
                Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            (_, value) => value.clone(),
        };
        let is_empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            copied.insert(field.clone(), value);
        }
    }
    // A cluster-scoped source counts as one in a namespace called `cluster`.
    copied.entry("namespace").or_insert_with(|| json!("cluster"));
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(Memo::default().readable(&before), Memo::default().readable(&after));
    }

    #[test]
    fn others_finalizers_are_read() {
        let source =
            Arc::new(json!({"metadata": {"namespace": "n", "finalizers": ["a.dev/x", "sync-engine.dev/main.m"]}}));
        assert_eq!(
            *Memo::default().readable(&source),
            json!({"metadata": {"namespace": "n", "finalizers": ["a.dev/x"]}})
        );
    }
}
