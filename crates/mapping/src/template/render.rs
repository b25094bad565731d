//! From a template's tree and a scope to a value.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::provenance::{Place, Step};
use super::{Content, Each, Entry, Tree, Unrendered};
use crate::expression::{Budget, Evaluated, Expression, Scope, Way, kind};

/// Why a tree was not rendered, and where in it.
pub(super) struct Stopped {
    why: Unrendered,
    /// From the innermost step.
    steps: Vec<Step>,
}

impl Stopped {
    fn at(why: Unrendered) -> Self {
        Self { why, steps: Vec::new() }
    }

    fn under(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub fn into_unrendered(mut self) -> Unrendered {
        if self.steps.is_empty() {
            return self.why;
        }
        self.steps.reverse();
        let place = Place(self.steps);
        match self.why {
            Unrendered::Waiting(what) => Unrendered::Waiting(format!("{what} (read at `{place}`)")),
            failed => failed.within(&place.to_string()),
        }
    }
}

impl Tree {
    /// The value; `None`: left out.
    pub(super) fn render(&self, scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        match &self.content {
            Content::Literal(value) => budget.literal(value).map(Some).map_err(Stopped::at),
            Content::Expression(expression) => match expression.evaluate_within(scope, budget).map_err(Stopped::at)? {
                Evaluated::Omit => Ok(None),
                evaluated => evaluated.value().map(Some).map_err(Stopped::at),
            },
            Content::Text(text) => {
                text.render_within(scope, budget).map(|text| Some(Value::String(text))).map_err(Stopped::at)
            }
            Content::Sequence(items) => Self::render_sequence(items, scope, budget),
            Content::Mapping(entries) => Self::render_mapping(entries, scope, budget),
            Content::Each(each) => each.render(scope, budget),
            Content::Merge(layers) => Self::render_merge(layers, scope, budget),
            Content::When(when) if holds(&when.condition, scope, budget)? => when.tree.render(scope, budget),
            Content::When(_) => Ok(None),
        }
    }

    fn render_sequence(items: &[Self], scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            list.extend(item.render(scope, budget).map_err(|stopped| stopped.under(Step::Index(index)))?);
        }
        Ok(Some(Value::Array(list)))
    }

    fn render_mapping(entries: &[Entry], scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        let mut map = Map::with_capacity(entries.len());
        for Entry { name, tree, .. } in entries {
            budget.entry(name.len()).map_err(Stopped::at)?;
            let under = |stopped: Stopped| stopped.under(Step::Key(name.clone()));
            if let Some(value) = tree.render(scope, budget).map_err(under)? {
                map.insert(name.clone(), value);
            }
        }
        Ok(Some(Value::Object(map)))
    }

    fn render_merge(layers: &[Self], scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        let mut merged = Map::new();
        for layer in layers {
            match layer.render(scope, budget)? {
                None => {}
                Some(Value::Object(fields)) => overlay(&mut merged, fields),
                Some(other) => {
                    let message = format!("`$merge` takes maps, and was given {}", kind(&other));
                    return Err(Stopped::at(Unrendered::Failed(message)));
                }
            }
        }
        Ok(Some(Value::Object(merged)))
    }
}

/// Lays a map over another: maps that stand under one key become one, of anything else the upper one stays. A null
/// is a value like any other; to leave the lower one standing, `omit` the key.
fn overlay(lower: &mut Map<String, Value>, upper: Map<String, Value>) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => overlay(below, above),
            (Some(below), above) => *below = above,
            (None, above) => drop(lower.insert(key, above)),
        }
    }
}

fn holds(when: &Expression, scope: &Scope, budget: &mut Budget) -> Result<bool, Stopped> {
    when.holds_within(scope, budget).map_err(|why| Stopped::at(why).under(Step::Key("$when".to_owned())))
}

impl Each {
    fn render(&self, scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        let items = match self.list.render(scope, budget)? {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => {
                let hint = if other.is_object() { ": write `| items` for its pairs" } else { "" };
                let message = format!("`$each` takes a list, and was given {}{hint}", kind(&other));
                return Err(Stopped::at(Unrendered::Failed(message)));
            }
        };
        let mut list = Vec::with_capacity(items.len());
        let mut scope = scope.clone();
        for (index, item) in items.into_iter().enumerate() {
            budget.entry(0).map_err(Stopped::at)?;
            scope.set_local(&self.name, Arc::new(item));
            list.extend(self.render_item(&scope, budget).map_err(|stopped| stopped.under(Step::Index(index)))?);
        }
        Ok((!self.omit_empty || !list.is_empty()).then_some(Value::Array(list)))
    }

    fn render_item(&self, scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        if let Some(when) = &self.when
            && !holds(when, scope, budget)?
        {
            return Ok(None);
        }
        scope.note(&self.list.node.headline(), Way::Item);
        self.item.render(scope, budget)
    }
}
