//! What the expressions of one reconcile read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::budget::{ALL_WORK, Allowance};
use super::tree::{Base, Path, Segment};
use super::value::Operand;
use super::{Evaluated, Recorder, Root, Unrendered, Way};
use crate::RelatedMissing;

/// The data expressions are evaluated over. Built once per reconcile; values are shared, never copied.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    roots: [Option<Arc<Value>>; Root::ALL.len()],
    /// What came of each variable: reading it has the same outcome.
    vars: BTreeMap<String, Arc<Result<Evaluated, Unrendered>>>,
    /// Shared, as a rule may have a thousand of them, and each of a thousand others a scope of its own.
    objects: BTreeMap<String, Arc<ObjectState>>,
    related: BTreeMap<String, Arc<ObjectState>>,
    locals: Vec<(String, Arc<Value>)>,
    lenient: bool,
    recorder: Option<Recorder>,
    /// What all evaluations over it and its clones may still do.
    allowance: Option<Arc<Allowance>>,
}

/// A target or related object, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectState {
    Present(Arc<Value>),
    /// Several objects of one `forEach`, those that are there, by key.
    Several(Several),
    /// Declared, and not there.
    Missing(RelatedMissing),
    /// Nobody can tell whether it is there, and what it holds.
    Unseen,
}

/// Objects of one rule by their keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Several {
    pub all: BTreeMap<String, Arc<Value>>,
    /// What is to be done about one that is not there.
    pub missing: RelatedMissing,
    /// Keys of those whose `when` is false: nothing waits for them.
    pub left_out: BTreeSet<String>,
    /// Whether one of them is missing although it is needed.
    pub is_partial: bool,
    /// Whether one of them is out of sight.
    pub is_unseen: bool,
}

impl Scope {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a root. Variables, objects and related objects are set one by one.
    ///
    /// Of the source, `status`, `metadata.resourceVersion` and `metadata.managedFields` are not read: what the engine's own
    /// writes change must not feed back into what it writes.
    pub fn set(&mut self, root: Root, value: Arc<Value>) {
        self.roots[root as usize] = Some(if root == Root::Source { without_feedback(value) } else { value });
    }

    /// Sets a variable to what came of it. An expression that reads it waits, fails or finds nothing as it did.
    pub fn set_var(&mut self, name: &str, evaluated: Result<Evaluated, Unrendered>) {
        let evaluated = evaluated.map_err(|why| why.within(&format!("`vars.{name}`")));
        self.vars.insert(name.to_owned(), Arc::new(evaluated));
    }

    pub fn set_object(&mut self, id: &str, state: ObjectState) {
        self.objects.insert(id.to_owned(), Arc::new(state));
    }

    pub fn set_related(&mut self, id: &str, state: ObjectState) {
        self.related.insert(id.to_owned(), Arc::new(state));
    }

    /// Sets a name that stands without a root, as the `as` of a `forEach`.
    pub fn set_local(&mut self, name: &str, value: Arc<Value>) {
        self.locals.retain(|(known, _)| known != name);
        self.locals.push((name.to_owned(), value));
    }

    /// In status and conditions an object that is not there yet is undefined; elsewhere it is waited for.
    pub fn lenient_objects(&mut self, lenient: bool) {
        self.lenient = lenient;
    }

    pub(super) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// From now on, takes down what is evaluated over this scope and its clones.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// From now on, limits what all evaluations over this scope and its clones do together.
    pub fn limit(&mut self) {
        self.limit_to(ALL_WORK);
    }

    /// The same, to so much work.
    pub fn limit_to(&mut self, work: usize) {
        self.allowance = Some(Arc::new(Allowance::of(work)));
    }

    pub(super) fn allowance(&self) -> Option<&Arc<Allowance>> {
        self.allowance.as_ref()
    }

    /// Takes down what became of a place, where that is wanted.
    pub fn note(&self, place: &Range<usize>, way: Way) {
        if let Some(recorder) = &self.recorder {
            recorder.note(place, way);
        }
    }

    /// Walks a path whose base is not a loop variable.
    pub(super) fn read<'a>(&'a self, path: &'a Path) -> Result<Operand<'a>, Unrendered> {
        match self.base(path)? {
            Operand::Value(Cow::Borrowed(value)) => Ok(walk(value, path, usize::from(self.several(path).is_some()))),
            other if path.segments.is_empty() => Ok(other),
            Operand::Omit => Err(Unrendered::omit()),
            other => Ok(other),
        }
    }

    fn base<'a>(&'a self, path: &'a Path) -> Result<Operand<'a>, Unrendered> {
        let unset = || Err(Unrendered::failed(format!("`{}` is not known here", path.base)));
        match &path.base {
            Base::Root(root) => {
                self.roots[*root as usize].as_ref().map_or_else(unset, |value| Ok(Operand::borrowed(value)))
            }
            Base::Local(name) => match self.locals.iter().find(|(known, _)| known == name) {
                Some((_, value)) => Ok(Operand::borrowed(value)),
                None => unset(),
            },
            Base::Var(name) => match self.vars.get(name).map(|evaluated| &**evaluated) {
                Some(Ok(Evaluated::Value(value))) => Ok(Operand::borrowed(value)),
                Some(Ok(Evaluated::Omit)) => Ok(Operand::Omit),
                Some(Ok(Evaluated::Absent(path))) => Ok(Operand::Absent(path.as_str().into())),
                Some(Err(why)) => Err(why.clone()),
                None => unset(),
            },
            Base::Object(_) | Base::Related(_) => self.object(path),
        }
    }

    fn state(&self, base: &Base) -> Option<&ObjectState> {
        match base {
            Base::Object(id) => self.objects.get(id).map(|state| &**state),
            Base::Related(id) => self.related.get(id).map(|state| &**state),
            _ => None,
        }
    }

    /// The several objects that a path starts from, where it starts from such.
    pub(super) fn several(&self, path: &Path) -> Option<&Several> {
        if let Some(ObjectState::Several(all)) = self.state(&path.base) { Some(all) } else { None }
    }

    /// Whether several objects are read as a whole. What is made of each of them is lost where one is left out, so they are
    /// waited for; a status tells of those that are there.
    pub(super) fn check_whole(&self, all: &Several, base: &Base) -> Result<(), Unrendered> {
        match (all.is_unseen, all.is_partial) {
            (true, _) => Err(Unrendered::Waiting(named(base, ""))),
            (false, true) => self.missing(all.missing, base, "").map(drop),
            (false, false) => Ok(()),
        }
    }

    /// One of several objects.
    ///
    /// `shown` stands for the key in what is said: what a key was computed to may be a secret.
    pub(super) fn one<'a>(
        &'a self,
        all: &'a Several,
        base: &Base,
        key: &str,
        shown: &str,
    ) -> Result<Operand<'a>, Unrendered> {
        let missing = if all.left_out.contains(key) { RelatedMissing::Skip } else { all.missing };
        match all.all.get(key) {
            Some(value) => Ok(Operand::borrowed(value)),
            None if all.is_unseen && !all.left_out.contains(key) => {
                Err(Unrendered::Waiting(named(base, &format!("[{shown}]"))))
            }
            None => self.missing(missing, base, &format!("[{shown}]")),
        }
    }

    fn object<'a>(&'a self, path: &'a Path) -> Result<Operand<'a>, Unrendered> {
        match self.state(&path.base) {
            Some(ObjectState::Present(value)) => Ok(Operand::borrowed(value)),
            Some(ObjectState::Several(all)) => match path.segments.first() {
                Some(Segment::Key(key)) => self.one(all, &path.base, key, key),
                Some(Segment::Index(index)) => {
                    let key = index.to_string();
                    self.one(all, &path.base, &key, &key)
                }
                None => Err(Unrendered::failed(format!("`{}` is several objects: read one by its key", path.base))),
            },
            Some(ObjectState::Missing(missing)) => self.missing(*missing, &path.base, ""),
            // A status that reads it stays as it is.
            Some(ObjectState::Unseen) => Err(Unrendered::Waiting(named(&path.base, ""))),
            None => self.missing(RelatedMissing::Wait, &path.base, ""),
        }
    }

    /// What reading an object that is missing comes to. `key`: of one of several, as it is shown.
    fn missing(&self, missing: RelatedMissing, base: &Base, key: &str) -> Result<Operand<'static>, Unrendered> {
        let what = named(base, key);
        let missing = if self.lenient { RelatedMissing::Skip } else { missing };
        match missing {
            RelatedMissing::Skip => Ok(Operand::Absent(format!("{base}{key}").into())),
            RelatedMissing::Fail => Err(Unrendered::failed(format!("{what} is not there"))),
            RelatedMissing::Wait => Err(Unrendered::Waiting(what)),
        }
    }
}

/// What an expression reads, in words.
fn named(base: &Base, key: &str) -> String {
    let related = if matches!(base, Base::Related(_)) { "related " } else { "" };
    format!("{related}object `{}{key}`", base.name())
}

/// A source without what the engine's own writes change.
fn without_feedback(mut source: Arc<Value>) -> Arc<Value> {
    const METADATA: [&str; 2] = ["resourceVersion", "managedFields"];
    let metadata = |field: &&str| source.get("metadata").is_some_and(|metadata| metadata.get(field).is_some());
    if source.get("status").is_none() && !METADATA.iter().any(metadata) {
        return source;
    }
    let Some(fields) = Arc::make_mut(&mut source).as_object_mut() else { return source };
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
    }
    source
}

/// Follows a path's segments into a value, from the one at `first` on.
pub(super) fn walk<'a>(value: &'a Value, path: &'a Path, first: usize) -> Operand<'a> {
    let mut value = value;
    for (position, segment) in path.segments.iter().enumerate().skip(first) {
        match step(value, segment) {
            Some(next) => value = next,
            None => return Operand::Absent(path.up_to(position).into()),
        }
    }
    Operand::borrowed(value)
}

/// What one segment leads to.
pub(super) fn step<'a>(value: &'a Value, segment: &Segment) -> Option<&'a Value> {
    match (value, segment) {
        (Value::Object(fields), Segment::Key(key)) => fields.get(key),
        (Value::Array(items), Segment::Index(index)) => items.get(position(*index, items.len())?),
        _ => None,
    }
}

/// The position of an index, which counts from the end where it is negative.
pub(super) fn position(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    }
}
